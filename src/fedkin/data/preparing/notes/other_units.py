"""Clients whose values of a column seem to be those of the others in another unit, where ranges overlap or not.

They are seen in what clients report anyway: means, standard deviations and both ends of the range agree after a change
of the unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from fedkin.data.preparing.notes.column_notes import clients_in_words
from fedkin.data.preparing.notes.column_ranges import Range
from fedkin.data.preparing.notes.range_words import Finding, How

_TIMES = 5.0
"""Ratio of means from which on values may be others' times a number."""
_FAR = 25.0
"""The same ratio where several clients are on either side."""
_AGREE, _ERRORS, _ALIKE, _ENDS = 2.0, 4.0, 2.0, 3.0
"""Of clients in one unit, the largest ratio of means; of one in another, standard errors between means, and the largest
factor between what its mean is times that of the others and what its deviation, and its ends, are times theirs."""
_ENDS_WITH_ZEROS = 2.0
"""The same factor of upper ends of columns with zeros, of which the lower end says nothing."""
_MEANS, _DEVIATIONS, _LIMITS, _WIDEST = 1.25, 1.6, 2.0, 12.0
"""Of degrees in one unit, standard deviations between means, the factor between deviations, and deviations between
ends; and the deviation in degrees Celsius beyond which 32 degrees Fahrenheit hardly show."""
_APART = 1.5
"""Standard deviations between means of clients with degrees in one unit."""
_ROUNDING = 1e-3
"""Distance of a sum from a whole number that rounding makes."""
_TEMPERATURE = re.compile(r"temp|°|celsius|fahrenheit", re.IGNORECASE)


def shifted(name: str, found: Mapping[str, Range]) -> list[Finding]:
    """Return what there is to say if one client's positive values seem to be those of others times a number.

    Its mean is then at least five times, or at most a fifth of, that of each other client, and these agree; and its
    standard deviation, minimum and maximum are about as many times theirs. Where all clients have zeros, as in amounts,
    it is the standard deviation and, more closely, the maximum. Nothing is then said of whole numbers: they may be
    counts, which scatter as much as they are large.
    """
    lows = [own.low for own in found.values()]
    with_zeros = not any(lows) and not all(_may_be_whole(own) for own in found.values())
    if len(found) < 3 or (min(lows) <= 0 and not with_zeros) or any(own.spread is None for own in found.values()):
        return []
    order = sorted(found, key=lambda client: found[client].mean)
    for client, above in ((order[-1], True), (order[0], False)):
        own, others = found[client], [found[other] for other in order if other != client]
        if not 0 < others[-1].mean <= _AGREE * others[0].mean or own.mean <= 0:
            continue
        ratio = own.mean / others[-1].mean if above else others[0].mean / own.mean
        if ratio < _TIMES or own.deviation == 0 or any(one.deviation == 0 for one in others):
            continue
        error = own.deviation / math.sqrt(own.filled)
        if min(abs(own.mean - one.mean) for one in others) < _ERRORS * error:
            continue
        together = _together(others)
        times = own.mean / together.mean
        parts = [
            (own.deviation / together.deviation, _ALIKE),
            (own.high / together.high, _ENDS_WITH_ZEROS if with_zeros else _ENDS),
            *([] if with_zeros else [(own.low / together.low, _ENDS)]),
        ]
        if all(1 / most <= part / times <= most for part, most in parts):
            how: How = "above" if above else "below"
            return [Finding("shifted", clients_in_words([client]), name, how, times if above else 1 / times)]
    return []


def in_two_units(name: str, found: Mapping[str, Range]) -> list[Finding]:
    """Return what there is to say if clients are of two kinds, of which one's values seem the other's times a number.

    There are two clients or more of each, and none with negative values. The ratio of means is at least 25, as that of
    percentages to parts of 1; standard deviations and maxima have about the same ratio, and means of one kind agree.
    The fewer are named, of two equal halves those with larger values.
    """
    values = [*found.values()]
    if len(found) < 4 or any(own.low < 0 or own.mean <= 0 or own.spread is None or not own.deviation for own in values):
        return []
    order = sorted(found, key=lambda client: found[client].mean)
    ratios = [found[after].mean / found[before].mean for before, after in pairwise(order)]
    cut = 1 + ratios.index(max(ratios))
    small, large = order[:cut], order[cut:]
    if min(cut, len(large)) < 2 or any(
        found[own[-1]].mean > _AGREE * found[own[0]].mean or all(_may_be_whole(found[one]) for one in own)
        for own in (small, large)
    ):
        return []
    low, high = (_together([found[client] for client in own]) for own in (small, large))
    times = high.mean / low.mean
    parts = (high.deviation / low.deviation, high.high / low.high)
    if times < _FAR or not all(1 / _ALIKE <= part / times <= _ALIKE for part in parts):
        return []
    above = len(large) <= len(small)
    where = clients_in_words([client for client in found if client in (large if above else small)])
    return [Finding("shifted", where, name, "above" if above else "below", times)]


def in_other_degrees(name: str, found: Mapping[str, Range]) -> list[Finding]:
    """Return what there is to say if some clients' values seem to be degrees Fahrenheit, and the others' Celsius.

    1.8 times the mean, standard deviation and ends of the latter, plus 32 for all but the deviation, are then about
    those of the former. Of columns that scatter much nothing is said: they may just be 1.8 times as large. Two clients
    alone may differ so by chance, unless the column is called like a temperature.
    """
    few = len(found) < 3
    if (few and not _TEMPERATURE.search(name)) or any(own.deviation == 0 for own in found.values()):
        return []
    order = sorted(found, key=lambda client: found[client].mean)
    gaps = [found[after].mean - found[before].mean for before, after in pairwise(order)]
    cut = 1 + gaps.index(max(gaps))
    cold, warm = [found[client] for client in order[:cut]], [found[client] for client in order[cut:]]
    if not (_agree(cold) and _agree(warm)):
        return []
    celsius, fahrenheit = _together(cold), _together(warm)
    wide = celsius.deviation
    pairs = zip((fahrenheit.mean, fahrenheit.low, fahrenheit.high), (celsius.mean, celsius.low, celsius.high),
                (_MEANS, _LIMITS, _LIMITS), strict=True)  # fmt: skip
    near = all(abs((one - 32) / 1.8 - other) <= most * wide for one, other, most in pairs)
    scatter = fahrenheit.deviation / 1.8 / wide
    if not near or wide > _WIDEST or not 1 / _DEVIATIONS <= scatter <= _DEVIATIONS:
        return []
    above = len(warm) <= len(cold)
    where = clients_in_words([client for client in found if client in (order[cut:] if above else order[:cut])])
    return [Finding("degrees", where, name, "above" if above else "below")]


class _Together(NamedTuple):
    """Mean, standard deviation and ends of a column at several clients; the deviation is that within them."""

    mean: float
    deviation: float
    low: float
    high: float


def _together(own: Sequence[Range]) -> _Together:
    filled = sum(one.filled for one in own)
    mean, deviation = (
        sum(one.filled * value for one, value in zip(own, values, strict=True)) / filled
        for values in ([one.mean for one in own], [one.deviation for one in own])
    )
    return _Together(mean, deviation, min(one.low for one in own), max(one.high for one in own))


def _agree(own: Sequence[Range]) -> bool:
    """Return whether the means of clients are within one and a half standard deviations."""
    means = [one.mean for one in own]
    return max(means) - min(means) <= _APART * _together(own).deviation


def _may_be_whole(own: Range) -> bool:
    """Return whether all values of a client may be whole numbers, by their maximum and sum."""
    part = own.mean * own.filled % 1
    return own.high.is_integer() and min(part, 1 - part) < _ROUNDING
