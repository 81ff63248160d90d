"""Notes on columns of numbers or dates whose range or maximum at some clients is unlike that of others.

They are made from what clients report anyway: numbers of cells, sums, sums of squares, minima and maxima.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from fedkin.data.preparing.column_notes import as_written, clients_in_words, largest_first, note_on_apart

_FEWEST = 5
"""Values of a client from which on its range says something."""
_TIMES = 5.0
"""Ratio of means, or of maxima, from which on clients seem to differ in unit; of maxima, of a column that overlaps, it
is the square."""
_PARTS = 3
"""Notes on clients that are apart from the others in one column."""
_NEAR, _SHARE = 0.9, 0.2
"""Of a client's maximum, values that count as equally large, and of its values, those that are a few."""


class Spread(NamedTuple):
    """Number of a column's values at a client, and the sum of their squared distances from the mean of all clients."""

    filled: float
    center: float
    squares: float

    def at_most(self, low: float, high: float) -> int:
        """Return an upper bound on the number of values from `low` to the maximum, `high`."""
        if low <= self.center:
            return int(self.filled)
        gap = low - self.center  # divided by at once: squares of what a client sends may be beyond any float
        most = (high - self.center) / gap
        return int(min(self.filled, 1 + max(0.0, self.squares / gap / gap - most * most)))


class Range(NamedTuple):
    """Range of a column at a client, the mean, and the spread if it is known."""

    low: float
    high: float
    mean: float
    spread: Spread | None = None


def notes_on_ranges(
    columns: Sequence[str],
    replies: Mapping[str, Mapping[str, Any]],
    dates: Iterable[str] = (),
    means: Tensor | None = None,
    squares: Mapping[str, Tensor] | None = None,
) -> list[str]:
    """Return notes on columns of numbers or dates that are elsewhere at some clients than at others.

    Their ranges do not overlap, or one client's maximum is many times those of all others. `replies` have by client's
    name the ``names`` of its columns, and float64 ``(columns,)`` ``filled``, ``sum``, ``min`` and ``max`` of each.
    `dates` are those of the `columns` that hold dates, which have no unit. `means` and `squares`, as for
    `notes_on_codes`, show how many cells are so large.
    """
    ranges: dict[str, dict[str, Range]] = {name: {} for name in columns}
    around = dict(zip(columns, means.tolist(), strict=True)) if means is not None else {}
    for client, reply in replies.items():
        apart_from = dict(zip(columns, squares[client].tolist(), strict=True)) if squares is not None else {}
        sent = (reply[key].tolist() for key in ("filled", "sum", "min", "max"))
        for name, filled, total, low, high in zip(reply["names"], *sent, strict=True):
            if filled >= _FEWEST and name in ranges:
                far = Spread(filled, around[name], apart_from[name]) if apart_from and around else None
                ranges[name][client] = Range(low, high, total / filled, far)
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
    side = "above" if above else "below"
    where = f"All values of column '{name}' at {clients_in_words(own)} are {side} those of the others"
    if ratio is None:
        return f"{where}; name the column in drop if it is no feature of samples."
    times = f"about {ratio:,.0f} times as large" if above else f"about {1 / ratio:,.0f} times smaller"
    return f"{where}, {times} in the mean; are they in another unit?"


def _note_on_maximum(name: str, found: Mapping[str, Range]) -> list[str]:
    """Return a note if one client's largest value is many times that of every other."""
    second, most = sorted(found, key=lambda client: found[client].high)[-2:]
    high = found[most].high
    if not (0 < found[second].high * _TIMES**2 < high and found[most].low >= 0):
        return []
    times, spread = f"{high / found[second].high:,.0f} times as large as any other client's", found[most].spread
    if spread is not None and spread.at_most(high / _TIMES, high) == 1:
        return [
            f"Column '{name}' has a single value at client {most}, {as_written(high, 'number')}, that is {times}; is "
            "it mistyped, or does it stand for a missing one?"
        ]
    few = spread is not None and (cells := spread.at_most(_NEAR * high, high)) <= _SHARE * spread.filled
    where = f", in at most {cells:,} cells" if few else ""
    return [
        f"Column '{name}' has values at client {most} that are up to {times}{where}; are they in another unit, or do "
        "they stand for missing ones?"
    ]


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
    return largest_first(parts, found)
