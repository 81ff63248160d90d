"""Notes on columns of numbers or dates whose range at some clients is unlike that of others.

They are made from what clients report anyway: numbers of cells, sums, sums of squares, minima and maxima.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from fedkin.core.table import Kind as ColumnKind
from fedkin.data.preparing.notes.column_notes import as_written, clients_in_words, largest_first, note_on_apart
from fedkin.data.preparing.notes.column_ranges import Range, Spread
from fedkin.data.preparing.notes.other_units import in_other_degrees, in_two_units, shifted
from fedkin.data.preparing.notes.range_words import Finding, How, Kind, in_sentences

_FEWEST = 5
"""Values of a client from which on its range says something."""
_TIMES = 5.0
"""Ratio of means from which on clients seem to differ in unit; of distances from 0 it is the square."""
_SOME = 1.5
"""Ratio of means from which on values may be in another unit, as 2.54 for inches and 1.61 for miles, or may not."""
_LEAST = 1e-300
"""Ratio below which its inverse is hardly a number."""
_PARTS = 3
"""Notes on clients that are apart from the others in one column."""
_STUCK, _GRADES, _UNEQUAL = 20, 10, 0.05
"""Equal values from which on a client's column is stuck, the range of whole numbers below which it is not, and the part
of others' values that are not equal to it, at least."""
_NEAR, _SHARE = 0.9, 0.2
"""Of a client's farthest value, those that count as near it, and of its values, those that are a few."""


def notes_on_ranges(
    columns: Sequence[str],
    replies: Mapping[str, Mapping[str, Any]],
    dates: Iterable[str] = (),
    means: Tensor | None = None,
    squares: Mapping[str, Tensor] | None = None,
    logs: Mapping[str, ColumnKind] | None = None,
) -> list[str]:
    """Return notes on columns of numbers or dates that are elsewhere at some clients than at others.

    Their ranges do not overlap, or one client's values reach many times as far from 0 as those of all others, or not
    nearly as far. What holds of many columns at the same clients is one note. `replies` have by client's name the
    ``names`` of its columns, and float64 ``(columns,)`` ``filled``, ``sum``, ``min`` and ``max`` of each. `dates` are
    those of the `columns` that hold dates, which have no unit, and `logs` those that hold logarithms, of some
    kind. `means` and `squares`, as for `notes_on_codes`, show how many cells are so large, except of logarithms.
    """
    ranges: dict[str, dict[str, Range]] = {name: {} for name in columns}
    around = dict(zip(columns, means.tolist(), strict=True)) if means is not None else {}
    for client, reply in replies.items():
        apart_from = dict(zip(columns, squares[client].tolist(), strict=True)) if squares is not None else {}
        sent = (reply[key].tolist() for key in ("filled", "sum", "min", "max"))
        for name, filled, total, low, high in zip(reply["names"], *sent, strict=True):
            if filled >= _FEWEST and name in ranges and logs and name in logs:
                low, high, mean = (float(as_written(own, logs[name])) for own in (low, high, total / filled))
                ranges[name][client] = Range(low, high, mean)
            elif filled >= _FEWEST and name in ranges:
                far = Spread(filled, around[name], apart_from[name]) if apart_from and around else None
                ranges[name][client] = Range(low, high, total / filled, far)
    without_unit = set(dates)
    apart: dict[bool, list[str]] = {False: [], True: []}
    unlike: list[Finding] = []
    for name, found in ranges.items():
        if len(found) > 1:
            parts, has_unit = _overlapping(found), name not in without_unit
            if len(parts) == len(found):
                apart[has_unit and any(_times(found, own, parts[0], _SOME) for own in parts[1:])].append(name)
            else:
                unlike += _found_in(name, found, parts, has_unit)
    what = "a value: their ranges do not overlap"
    return [
        *note_on_apart(apart[False], what),
        *note_on_apart(apart[True], what, ", or give {it} one unit"),
        *in_sentences(unlike),
    ]


def _found_in(name: str, found: Mapping[str, Range], parts: Sequence[Sequence[str]], has_unit: bool) -> list[Finding]:
    """Return what is unlike in the ranges of one column, some of whose `parts` have several clients."""
    if has_unit and (degrees := in_other_degrees(name, found)):
        return degrees
    if len(parts) == 1:
        return (
            (
                _beyond(name, found)
                or _within(name, found)
                or shifted(name, found)
                or in_two_units(name, found)
                or _stuck(name, found)
            )
            if has_unit
            else []
        )
    return [_outside(name, own, found, parts[0], has_unit) for own in parts[1 : _PARTS + 1]]


def _outside(
    name: str, own: Sequence[str], found: Mapping[str, Range], others: Sequence[str], has_unit: bool
) -> Finding:
    how: How = "above" if found[own[0]].low > found[others[0]].high else "below"
    where, ratio = clients_in_words(own), _times(found, own, others, _SOME) if has_unit else None
    if ratio is None:
        return Finding("apart", where, name, how)
    kind: Kind = "ratio" if max(ratio, 1 / max(ratio, _LEAST)) >= _TIMES else "low ratio"
    if _any_below_zero(found[client] for client in (*own, *others)):
        kind = "farther" if ratio > 1 else "nearer"
    return Finding(kind, where, name, how, ratio if ratio > 1 else 1 / max(ratio, _LEAST))


def _beyond(name: str, found: Mapping[str, Range]) -> list[Finding]:
    """Return what there is to say if one client's value farthest from 0 is many times as far as that of any other."""
    second, most = sorted(found, key=lambda client: found[client].size)[-2:]
    own, size, other = found[most], found[most].size, found[second].size
    if not 0 < other * _TIMES**2 < size:
        return []
    where, value = clients_in_words([most]), as_written(own.high if own.high == size else own.low, "number")
    how: How = "as far from 0" if _any_below_zero(found.values()) else "as large"
    near = None
    if (spread := own.toward_farthest) is not None:
        if spread.at_most(size / _TIMES, size) == 1:
            return [Finding("single", where, name, how, size / other, value)]
        near = spread.at_most(_NEAR * size, size)
        if near > _SHARE * spread.filled or own.inside > other:  # where the whole column is larger, few are largest
            near = None
    return [Finding("beyond", where, name, how, size / other, value, near, most)]


def _within(name: str, found: Mapping[str, Range]) -> list[Finding]:
    """Return what there is to say if all values of one client are many times nearer to 0 than the farthest of others.

    That is nothing of whole numbers and of a minimum of 0: where most cells are 0, few clients may have others.
    """
    least, second = sorted(found, key=lambda client: found[client].size)[:2]
    own, times = found[least], found[second].size / (found[least].size or 1.0)
    if times <= _TIMES**2 or own.low == 0 or (own.low.is_integer() and own.high.is_integer()):
        return []
    return [Finding("within", clients_in_words([least]), name, times=times)]


def _stuck(name: str, found: Mapping[str, Range]) -> list[Finding]:
    """Return what there is to say of clients, fewer than half, that have one value amid those of the others.

    Nothing is said of few whole numbers, as grades are, nor if nearly all values of the others may be the same: as
    each is at most so far from it, their mean square says how many are not.
    """
    stuck = [client for client, own in found.items() if own.low == own.high and own.filled >= _STUCK]
    others = [own for client, own in found.items() if client not in stuck]
    if not 0 < len(stuck) < max(2, len(found) / 2):
        return []
    low, high = min(own.low for own in others), max(own.high for own in others)
    if high - low < _GRADES and low.is_integer() and high.is_integer():
        return []
    said = []
    for client in stuck:
        value = found[client].low
        if not low < value < high:
            continue
        reach = max(high - value, value - low)
        if sum(own.square_around(value) / reach / reach for own in others) >= _UNEQUAL * len(others):
            said.append(Finding("stuck", clients_in_words([client]), name, value=as_written(value, "number")))
    return said


def _times(
    found: Mapping[str, Range], own: Sequence[str], others: Sequence[str], least: float = _TIMES
) -> float | None:
    """Return the ratio of two parts' means, or of their distances from 0 if some values are negative.

    ``None`` if means are not positive or the larger is not `least` times the other, or if all of one part are negative
    and none of the other.
    """
    if _any_below_zero(found[client] for client in (*own, *others)):
        lows = [min(found[client].low for client in part) for part in (own, others)]
        highs = [max(found[client].high for client in part) for part in (own, others)]
        if min(highs) < 0 <= max(lows):
            return None
        one, other = (max(found[client].size for client in part) for part in (own, others))
        least = _TIMES**2
    else:
        one, other = (sum(found[client].mean for client in part) / len(part) for part in (own, others))
    if not (one > 0 and other > 0):
        return None
    return one / other if max(one / other, other / one) >= least else None


def _any_below_zero(ranges: Iterable[Range]) -> bool:
    return any(one.low < 0 for one in ranges)


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
