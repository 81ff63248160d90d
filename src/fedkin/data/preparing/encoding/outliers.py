"""Limits of columns that have a few values far from all others.

A single mistyped number can be most of a column's variance, so that all other rows are alike once it is standardised.
Values beyond the limits count as these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.core.errors import listing
from fedkin.core.replies import MAX_NUMBER
from fedkin.core.table import Kind
from fedkin.data.preparing.encoding.histograms import BINS, quantile
from fedkin.data.preparing.notes.column_notes import rounded
from fedkin.data.preparing.notes.data_notes import DataNote

_SUSPECT = 5.0
"""Standard deviations from the mean; columns with a value that far are looked at."""

_TAIL, _REACH, _FAR = 0.05, 1.0, 2.0
"""The middle nine tenths of a column lie between the quantiles of this fraction and its complement. Limits are once
their distance beyond them, if a value is more than twice as far: 5 and 8 standard deviations of normal values."""

_MIN_BINS, _ZOOMS = 16, 8
"""Bins that the middle nine tenths must fill, and the number of histograms, each finer than the last, to reach that."""

_NAMED = 5
"""Limits that the short form of a note names."""

Ask = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Returns the `histograms` of all clients' columns at some positions, between a low and a high end of each."""


@dataclass(frozen=True)
class Limits:
    """Limits of columns with outliers.

    Their positions are `at`, int64 ``(k,)``. All else is float64 ``(k,)``: `low` and `high`, and `mean` and `spread`,
    the mean and standard deviation of limited values, read from a histogram between the limits.
    """

    at: Tensor
    low: Tensor
    high: Tensor
    mean: Tensor
    spread: Tensor

    def within(self, mean: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of all columns, `mean` and `spread` where there are no outliers."""
        return mean.index_copy(0, self.at, self.mean), spread.index_copy(0, self.at, self.spread)

    def ends(self, columns: int) -> tuple[Tensor, Tensor]:
        """Return the limits of all columns, float64 ``(columns,)``; those without outliers have none that matters."""
        low, high = unlimited(columns)
        return low.index_copy(0, self.at, self.low), high.index_copy(0, self.at, self.high)


NO_LIMITS = Limits(torch.zeros(0, dtype=torch.int64), *torch.zeros(4, 0, dtype=torch.float64))
"""Limits of no column."""


def find_limits(ask: Ask, mean: Tensor, spread: Tensor, low: Tensor, high: Tensor, among: Tensor) -> Limits:
    """Return the limits of the columns with outliers; there may be none.

    `ask`, see `Ask`, is called only if some value is five standard deviations from the mean. `mean`, `spread`, `low`
    and `high`, float64 ``(columns,)``, are mean, standard deviation, minimum and maximum. Columns `among`, bool
    ``(columns,)``, may have limits.
    """
    at = (among & (torch.maximum(high - mean, mean - low) > _SUSPECT * spread)).nonzero()[:, 0]
    least, greatest = low[at], high[at]
    first, last, filled = _middle(ask, at, least, greatest)
    reach = last - first
    outlying = filled & ((greatest > last + _FAR * reach) | (least < first - _FAR * reach))
    at, first, last, reach = (own[outlying] for own in (at, first, last, reach))
    lower, upper = first - _REACH * reach, last + _REACH * reach
    if not len(at):
        return NO_LIMITS
    counts = ask(at, lower, upper)
    middles = lower[:, None] + (torch.arange(BINS) + 0.5) / BINS * (upper - lower)[:, None]
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    average = (shares * middles).sum(1)
    return Limits(at, lower, upper, average, (shares * (middles - average[:, None]).square()).sum(1).sqrt())


def _middle(ask: Ask, at: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ends of each column's middle nine tenths, and whether these fill enough bins of a histogram."""
    first, last, filled = low.clone(), high.clone(), torch.zeros(len(at), dtype=torch.bool)
    low, high = low.clone(), high.clone()
    for _ in range(_ZOOMS):
        todo = (~filled & (high > low)).nonzero()[:, 0]
        if not len(todo):
            break
        counts, ends = ask(at[todo], low[todo], high[todo]), (low[todo], high[todo])
        first[todo], last[todo] = quantile(counts, _TAIL, *ends), quantile(counts, 1 - _TAIL, *ends)
        width = (ends[1] - ends[0]) / BINS
        filled[todo] = last[todo] - first[todo] >= _MIN_BINS * width
        low[todo] = torch.maximum(first[todo] - width, ends[0])
        high[todo] = torch.minimum(last[todo] + width, ends[1])
    return first, last, filled


def unlimited(columns: int) -> tuple[Tensor, Tensor]:
    """Return limits beyond all numbers that are allowed, float64 ``(columns,)``."""
    high = torch.full((columns,), MAX_NUMBER, dtype=torch.float64)
    return -high, high


def limited(x: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """Return samples ``(n, features)`` within limits; unchanged without."""
    return x if low is None or high is None else x.double().clamp(low, high)


def note_on_outliers(
    names: Sequence[str], limits: Limits, low: Tensor, high: Tensor, spread: Tensor, kinds: Sequence[Kind] = ()
) -> list[str]:
    """Return a note on the columns with outliers, given all columns' names, minima, maxima, deviations and kinds.

    Columns whose standard deviation the limits make smallest, of `spread`, come first; the short form has a few only.
    """
    said = []
    kept = limits.spread / spread[limits.at]
    for one in kept.nan_to_num(1.0).argsort(stable=True).tolist():
        at, lower, upper = int(limits.at[one]), float(limits.low[one]), float(limits.high[one])
        kind: Kind = kinds[at] if kinds else "number"
        if float(high[at]) > upper:
            said.append(f"{names[at]} above {rounded(upper, kind)}")
        if float(low[at]) < lower:
            said.append(f"{names[at]} below {rounded(lower, kind)}")
    if not said:
        return []
    sentence = (
        "Some values are far from all others and count as a limit: {}; scaling = 'standard' takes them as they are."
    )
    return [DataNote(sentence.format(", ".join(said)), short=sentence.format(listing(said, _NAMED)))]
