"""Notes on columns that distinguish clients rather than samples, and on categories that are spelt differently.

They are made from what clients report anyway: names of frequent categories, numbers of cells, sums, minima and maxima.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from fedkin.core.errors import listing
from fedkin.core.table import Kind

_FEWEST = 5
"""Values of a client from which on its range says something."""
_TIMES = 5.0
"""Ratio of means, or of maxima, from which on clients seem to differ in unit; of maxima, of a column that overlaps, it
is the square."""
_NAMED, _PARTS, _COLUMNS = 5, 3, 8
"""Clients that a note names, notes on clients that are apart from the others in one column, and columns of a note."""
_EXACT = 1e-9
"""Relative difference that rounding makes."""
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_MARKS = re.compile(r"[\s_]|(?<=[^\W\d_])-(?=[^\W\d_])|(?<=[^\W\d_])\.")
"""What does not tell names apart; beside digits and at the end a sign may, as in A+ and A-."""

Ends = tuple[float, float]


class Range(NamedTuple):
    """Range of a column at a client, and the mean."""

    low: float
    high: float
    mean: float


def spelt_alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ only in spelling, in the order of the first of each.

    That is in case, blanks, underscores, hyphens between letters, full stops after letters, and umlauts.
    """
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault(_MARKS.sub("", name.casefold().translate(_UMLAUTS)), []).append(name)
    return [own for own in same.values() if len(own) > 1]


def spelt_as(name: str, others: Iterable[str]) -> str | None:
    """Return the first of the others that differs from `name` in spelling alone; ``None`` without any."""
    return next((group[1] for group in spelt_alike([name, *others]) if group[0] == name), None)


def notes_on_categories(column: str, by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on a column's categories: different spellings of one, and clients that have none in common.

    `by_client` are the categories that each client reports, by its name; `column` is the column's.
    """
    notes = []
    categories = list(dict.fromkeys(name for own in by_client.values() for name in own))
    if alike := spelt_alike(categories):
        listed = "; ".join(_spelt(group, by_client) for group in alike[:_NAMED])
        more = f" (and {len(alike) - _NAMED} more)" if len(alike) > _NAMED else ""
        notes.append(
            f"Categories of column '{column}' that differ in spelling alone count as different: {listed}{more}; spell "
            "them alike if they are the same."
        )
    known = {client: set(own) for client, own in by_client.items() if own}
    parts = _connected(known)
    if 1 < len(parts) < len(known):
        apart = " and at ".join(map(_clients, parts[1 : _PARTS + 1]))
        notes.append(
            f"Column '{column}' has no frequent value of the other clients at {apart}; spell its values alike if they "
            "are the same."
        )
    return notes


def has_no_common(by_client: Mapping[str, Sequence[str]]) -> bool:
    """Return whether no two clients report a common category; as of `notes_on_categories`."""
    known = {client: set(own) for client, own in by_client.items() if own}
    return len(_connected(known)) == len(known) > 1


def note_on_apart(names: Sequence[str], what: str, fix: str = "") -> list[str]:
    """Return a note on columns of which no two clients share `what`; `fix` ends it, with places for it and its."""
    if not names:
        return []
    quoted, some = listing([f"'{name}'" for name in names], _COLUMNS), len(names) > 1
    which = f"Columns {quoted} distinguish" if some else f"Column {quoted} distinguishes"
    them, features = ("them", "they are no features") if some else ("it", "it is no feature")
    return [
        f"{which} clients, for no two of them share {what}; name {them} in drop if {features} of samples"
        f"{fix.format(it=them, its='their' if some else 'its')}."
    ]


def note_on_apart_categories(names: Sequence[str]) -> list[str]:
    """Return `note_on_apart` on columns of categories."""
    return note_on_apart(names, "a frequent value", ", or spell {its} values alike if they are the same")


def notes_on_labels(by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a note on labels, which are given by the client's name, that differ in spelling alone."""
    if not (alike := spelt_alike(dict.fromkeys(name for own in by_client.values() for name in own))):
        return []
    listed = "; ".join(_spelt(group, by_client) for group in alike[:_NAMED])
    return [
        f"Labels that differ in spelling alone are different classes: {listed}; spell them alike if they are the same."
    ]


def _spelt(group: Sequence[str], by_client: Mapping[str, Sequence[str]]) -> str:
    """Return the spellings of one category, each with a client that has it."""
    first = [next(client for client, own in by_client.items() if name in own) for name in group]
    if len(set(first)) == 1:
        return ", ".join(f"'{name}'" for name in group)
    return ", ".join(f"'{name}' ({_clients([client])})" for name, client in zip(group, first, strict=True))


def as_written(value: float, kind: Kind) -> str:
    """Return a value as it stands in the table, or nearly; a date's is days since 1970-01-01."""
    if kind == "date":
        return str(np.datetime64("1970-01-01") + np.timedelta64(math.floor(value), "D"))
    return f"{value:.15g}"


def rounded(value: float, kind: Kind) -> str:
    """Return a number of four digits with thousands apart, or the day of a date."""
    return as_written(value, kind) if kind == "date" else f"{float(f'{value:.4g}'):,.15g}"


def notes_on_ranges(
    columns: Iterable[str], replies: Mapping[str, Mapping[str, Any]], dates: Iterable[str] = ()
) -> list[str]:
    """Return notes on columns of numbers or dates that are elsewhere at some clients than at others.

    Their ranges do not overlap, or one client's maximum is many times those of all others. `replies` have by client's
    name the ``names`` of its columns, and float64 ``(columns,)`` ``filled``, ``sum``, ``min`` and ``max`` of each.
    `dates` are those of the `columns` that hold dates, which have no unit.
    """
    ranges: dict[str, dict[str, Range]] = {name: {} for name in columns}
    for client, reply in replies.items():
        sent = (reply[key].tolist() for key in ("filled", "sum", "min", "max"))
        for name, filled, total, low, high in zip(reply["names"], *sent, strict=True):
            if filled >= _FEWEST and name in ranges:
                ranges[name][client] = Range(low, high, total / filled)
    without_unit = set(dates)
    apart: dict[bool, list[str]] = {False: [], True: []}
    notes = []
    for name, found in ranges.items():
        if len(found) > 1:
            parts, has_unit = _overlapping(found), name not in without_unit
            if len(parts) == len(found):
                apart[has_unit and any(_times(found, own, parts[0]) for own in parts[1:])].append(name)
            else:
                notes += _notes_on(name, found, parts, has_unit)
    what = "a value: their ranges do not overlap"
    return [
        *note_on_apart(apart[False], what),
        *note_on_apart(apart[True], what, ", or give {it} one unit"),
        *notes,
    ]


def _notes_on(name: str, found: Mapping[str, Range], parts: Sequence[Sequence[str]], has_unit: bool) -> list[str]:
    """Return notes on the ranges of one column, some of whose `parts` have several clients."""
    if len(parts) == 1:
        return _note_on_maximum(name, found) if has_unit else []
    ratios = [_times(found, own, parts[0]) if has_unit else None for own in parts[1 : _PARTS + 1]]
    return [_outside(name, own, found, parts[0], ratio) for own, ratio in zip(parts[1:], ratios, strict=False)]


def _outside(
    name: str, own: Sequence[str], found: Mapping[str, Range], others: Sequence[str], ratio: float | None
) -> str:
    above = found[own[0]].low > found[others[0]].high
    where = f"All values of column '{name}' at {_clients(own)} are {'above' if above else 'below'} those of the others"
    if ratio is None:
        return f"{where}; name the column in drop if it is no feature of samples."
    times = f"about {ratio:,.0f} times as large" if above else f"about {1 / ratio:,.0f} times smaller"
    return f"{where}, {times} in the mean; are they in another unit?"


def _note_on_maximum(name: str, found: Mapping[str, Range]) -> list[str]:
    """Return a note if one client's largest value is many times that of every other."""
    second, most = sorted(found, key=lambda client: found[client].high)[-2:]
    if 0 < found[second].high * _TIMES**2 < found[most].high and found[most].low >= 0:
        return [
            f"Column '{name}' has values at client {most} that are up to {found[most].high / found[second].high:,.0f} "
            "times as large as any other client's; are they in another unit, or do they stand for missing ones?"
        ]
    return []


def _times(found: Mapping[str, Range], own: Sequence[str], others: Sequence[str]) -> float | None:
    """Return the ratio of two parts' means; ``None`` if they are not positive or hardly differ."""
    one, other = (sum(found[client].mean for client in part) / len(part) for part in (own, others))
    if min(found[client].low for client in (*own, *others)) < 0 or not (one > 0 and other > 0):
        return None
    return one / other if max(one / other, other / one) >= _TIMES else None


def _overlapping(found: Mapping[str, Range]) -> list[list[str]]:
    """Return clients in parts whose ranges overlap, the part of most clients first."""
    parts: list[list[str]] = []
    reached = 0.0
    for client in sorted(found, key=lambda client: found[client][:2]):
        if parts and found[client].low <= reached:
            parts[-1].append(client)
            reached = max(reached, found[client].high)
        else:
            parts.append([client])
            reached = found[client].high
    return _largest_first(parts, found)


def _connected(known: Mapping[str, set[str]]) -> list[list[str]]:
    """Return clients in parts that share values, the part of most clients first."""
    parts: list[tuple[list[str], set[str]]] = []
    for client, own in known.items():
        met = [part for part in parts if part[1] & own]
        joined = ([name for part in met for name in part[0]] + [client], own.union(*(part[1] for part in met)))
        parts = [*(part for part in parts if part not in met), joined]
    return _largest_first([part[0] for part in parts], known)


def _largest_first(parts: Iterable[list[str]], order: Iterable[str]) -> list[list[str]]:
    at = {client: place for place, client in enumerate(order)}
    return sorted((sorted(part, key=at.__getitem__) for part in parts), key=lambda part: (-len(part), at[part[0]]))


def _clients(names: Sequence[str]) -> str:
    named = [name.removeprefix("Client ") for name in names]
    return f"{'client' if len(named) == 1 else 'clients'} {listing(named, _NAMED)}"


def notes_on_codes(
    columns: Iterable[str], means: Tensor, replies: Mapping[str, Mapping[str, Any]], squares: Mapping[str, Tensor]
) -> list[str]:
    """Return a note for each column that has two whole numbers at every client, each more than once, and not the same.

    Columns of which no two clients share a number have a note of their own, see `notes_on_ranges`. At a client all
    values are minimum or maximum if, and only if, the variance is as large as these allow. `means`, float64
    ``(columns,)``, are of all clients, and `replies` as for `notes_on_ranges`. `squares`, by client's name, float64
    ``(columns,)``, are sums of squared distances from `means`.
    """
    notes = []
    for at, (name, mean) in enumerate(zip(columns, means.tolist(), strict=True)):
        pairs: dict[Ends, list[str]] = {}
        others = False
        for client, filled, total, low, high in _filled(name, replies):
            own = total / filled
            variance = float(squares[client][at]) / filled - (own - mean) ** 2
            whole = low.is_integer() and high.is_integer()
            if whole and abs((high - own) * (own - low) - variance) <= _EXACT * (high - low) ** 2:
                rarer = filled * min(own - low, high - own) / ((high - low) or 1.0)
                if round(rarer) > 1:  # a single cell beside a constant is hardly a code
                    pairs.setdefault((low, high), []).append(client)
            else:
                others = True
        apart = len({end for pair in pairs for end in pair}) == 2 * len(replies)  # which is a note of its own
        if len(pairs) > 1 and not others and not apart:
            said = [f"{a:.15g} and {b:.15g} at {_clients(own)}" for (a, b), own in pairs.items()]
            listed = f"{', '.join(said[:-1])}, but {said[-1]}"
            notes.append(f"Column '{name}' holds {listed}; do these codes mean the same?")
    return notes


def wrong_truths(columns: Iterable[str], replies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each column of truth values that holds numbers other than 0 to 1 at some client.

    `columns` are names of those that are truth values at some client, and numbers at others; `replies` are as for
    `notes_on_ranges`.
    """
    problems = []
    for name in columns:
        beyond = [(client, low, high) for client, _, _, low, high in _filled(name, replies) if low < 0 or high > 1]
        if beyond:
            clients, (_, low, high) = [client for client, *_ in beyond], beyond[0]
            problems.append(
                f"Column '{name}' holds truth values at some clients, but numbers from {low:.15g} to {high:.15g} at "
                f"{_clients(clients)}; write it in one way, or name it in drop."
            )
    return problems


def _filled(column: str, replies: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield clients at which a column has values, how many they are, and their sum, minimum and maximum."""
    for client, reply in replies.items():
        at = reply["names"].index(column) if column in reply["names"] else None
        if at is not None and reply["filled"][at]:
            filled, total, low, high = (float(reply[key][at]) for key in ("filled", "sum", "min", "max"))
            yield client, filled, total, low, high
