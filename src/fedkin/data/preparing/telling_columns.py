"""Notes on columns that distinguish clients rather than samples, and on categories that are spelt differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

_FEWEST = 5
"""Values of a client from which on its range says something."""
_APART = (
    "Column '{}' distinguishes clients, for no two of them share {}; name it in drop if it is no feature of samples."
)


def spelt_alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ only in case or blanks, in the order of the first of each."""
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault("".join(name.split()).casefold(), []).append(name)
    return [own for own in same.values() if len(own) > 1]


def notes_on_categories(column: str, by_client: Sequence[Sequence[str]], categories: Sequence[str]) -> list[str]:
    """Return notes on a column's categories: different spellings of one, and clients that have none in common.

    Parameters
    ----------
    column : str
        Name.
    by_client : sequence of sequence of str
        The categories that each client reports.
    categories : sequence of str
        All of them.
    """
    notes = []
    if alike := spelt_alike(categories):
        listed = " and ".join(repr(one) for one in alike[0])
        more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
        notes.append(
            f"Categories {listed}{more} of column '{column}' differ in case or blanks alone and count as different; "
            "spell them alike if they are the same."
        )
    known = [own for own in by_client if own]
    if len(known) > 1 and len(categories) == sum(map(len, known)):
        notes.append(_APART.format(column, "a frequent value"))
    return notes


def notes_on_ranges(columns: Iterable[str], replies: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a note for each column of numbers or dates whose ranges at clients do not overlap.

    Parameters
    ----------
    columns : iterable of str
        Names.
    replies : iterable of mapping
        By client: the ``names`` of its columns, and float64 ``(columns,)`` ``filled``, ``min`` and ``max`` of each.
    """
    ranges: dict[str, list[tuple[float, float]]] = {name: [] for name in columns}
    for reply in replies:
        own = zip(reply["names"], reply["filled"].tolist(), reply["min"].tolist(), reply["max"].tolist(), strict=True)
        for name, filled, low, high in own:
            if filled >= _FEWEST and name in ranges:
                ranges[name].append((low, high))
    return [
        _APART.format(name, "a value: their ranges do not overlap")
        for name, found in ranges.items()
        if len(found) > 1 and all(one[1] < other[0] for one, other in pairwise(sorted(found)))
    ]
