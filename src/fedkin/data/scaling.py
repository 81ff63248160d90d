"""Scales of columns and limits of those with outliers, from statistics of all clients; arrays that are scaled so.

A single mistyped number can be most of a column's variance, so that all other rows are alike once it is standardised.
So values beyond limits count as these. Robust scalers such as skrub's ``SquashingScaler`` bend the values of every
column; these limits leave columns without outliers as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task
from fedkin.core.doors import option
from fedkin.core.errors import FedkinError, listing
from fedkin.core.replies import MAX_NUMBER, Optional, common_shape, doubles
from fedkin.core.table import Kind
from fedkin.data.statistics import (
    BINS,
    UNITS,
    Ask,
    column_histograms,
    hidden_squares,
    hidden_sums,
    of_digits,
    quantile,
    squares,
    sum_of,
    unit_of,
)
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import sums_of_all

_FEATURES = doubles("features")
_ROUNDING = 1e-12
"""Spread of a column, relative to its mean, below which it is constant but for rounding."""
_VISIBLE = 0.01
"""Maximum of data in [0, 1] below which they are too small to be left alone."""
_NAMED = 5
"""Columns that a note names."""
_MIN_COLUMNS, _EDGE, _SAME_ORDER = 16, 0.05, 6.0
"""Of columns in one unit: how many there are at least, and the ratio of the largest to the smallest spread at most,
leaving out so many at either end."""
_SUSPECT = 5.0
"""Standard deviations from the mean; columns with a value that far are looked at."""
_TAIL, _REACH, _OUTLYING = 0.05, 1.0, 2.0
"""The middle nine tenths of a column lie between the quantiles of this fraction and its complement. Limits are once
their distance beyond them, if a value is more than twice as far: 5 and 8 standard deviations of normal values."""
_DIGITS = 2
"""Digits of ends that are kept."""
_MIN_BINS, _ZOOMS = 16, 8
"""Bins that the middle nine tenths must fill, and the number of histograms, each finer than the last, to reach that."""


@dataclass(frozen=True)
class Scaling:
    """Scaling of samples, kept to repeat it on new ones.

    In `mode` ``"unit"`` all data lie in [0, 1] and stay as they are; ``"standard"`` is mean 0 and variance 1 per
    column, or per channel of images; ``"common"`` is mean 0 per column, and variance 1 of all columns together, since
    they are in one unit; ``"none"`` leaves data unchanged, whatever they are. `shape` is that of one sample,
    ``(features,)`` or ``(channels, height, width)``. `mean` and `scale` are float64, one value per column or channel; 0
    and 1 if data are unchanged. `low` and `high`, float64 ``(features,)``, are limits of columns with outliers, which
    values beyond count as; ``None`` without any.
    """

    mode: str
    shape: tuple[int, ...]
    mean: Tensor
    scale: Tensor
    low: Tensor | None = None
    high: Tensor | None = None

    def apply(self, x: Tensor) -> Tensor:
        """Scale samples ``(n, *shape)`` as in training; `x` itself is not changed.

        Raises FedkinError if samples are of another shape.
        """
        if tuple(x.shape[1:]) != self.shape:
            raise FedkinError(
                f"The samples have shape {tuple(x.shape[1:])}, but the model was made for {self.shape}.", public=True
            )
        if self.mode not in ("standard", "common"):
            return x.float()
        return standardise(limited(x, self.low, self.high), self.mean, self.scale)

    def tree(self) -> dict[str, Any]:
        """Return the fields, ready for `fedkin.core.payload.pack`."""
        return {"mode": self.mode, "shape": list(self.shape), "mean": self.mean, "scale": self.scale, **self.limits}

    @property
    def limits(self) -> dict[str, Tensor]:
        """Limits by name; empty without outliers."""
        return {} if self.low is None or self.high is None else {"low": self.low, "high": self.high}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self:
        """Return the scaling that `tree` was made of; `KeyError` or `TypeError` if it was not."""
        if not (isinstance(tree["mean"], Tensor) and isinstance(tree["scale"], Tensor)):
            raise TypeError("mean and scale are no tensors")
        return cls(tree["mode"], tuple(tree["shape"]), tree["mean"], tree["scale"], tree.get("low"), tree.get("high"))


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


def scale_arrays(fed: Federation, mode: str, replies: Mapping[int, Payload]) -> tuple[Scaling, list[str]]:
    """Scale all clients' arrays, as if they had been pooled, by the `moments` they have sent; also return notes.

    Clients then send the sum of squared distances from the common mean, which is sound however large the mean is. With
    "auto" columns with outliers are limited.
    """
    shape = common_shape(replies)
    lowest = torch.stack([reply["min"] for reply in replies.values()]).amin(0)
    highest = torch.stack([reply["max"] for reply in replies.values()]).amax(0)
    if mode == "auto" and in_unit(lowest, highest):
        return Scaling("unit", shape, torch.zeros_like(lowest), torch.ones_like(lowest)), []
    count = sum(reply["count"] for reply in replies.values())
    mean = sum_of(replies, "sum") / count
    unit = unit_of(torch.maximum(highest - mean, mean - lowest))
    wanted = {"squares": doubles(*mean.shape, minimum=0)}
    replies = fed.ask_until_all_reply(squares, {"mean": mean, "unit": unit}, expected=wanted)
    spread = (sum_of(replies, "squares") * unit.square() / count).sqrt()
    scale, shared = scale_of(mode if len(shape) == 1 else "standard", lowest, highest, spread)
    called = [f"column {i + 1}" for i in range(len(mean))]
    scale, notes = torch.where(lowest == highest, 1.0, scale), note_on_unit(called, shared, lowest < highest)
    scaling = Scaling("common" if shared.any() else "standard", shape, mean, scale)
    if mode == "auto" and len(shape) == 1:
        limits = find_limits(partial(_histograms_of, fed), mean, spread, lowest, highest, ~shared)
        if len(limits.at):
            scaling = Scaling(scaling.mode, shape, *limits.within(mean, scale), *limits.ends(len(mean)))
            notes += note_on_outliers(called, limits, lowest, highest, spread)
    fed.ask_until_all_reply(rescale, {"mean": scaling.mean, "scale": scaling.scale, **scaling.limits})
    return scaling, notes


def _histograms_of(fed: Federation, at: Tensor, low: Tensor, high: Tensor) -> Tensor:
    payload, expected = {"at": at, "low": low, "high": high}, {"histograms": doubles(len(at), BINS, minimum=0)}
    return sum_of(fed.ask_until_all_reply(column_histograms, payload, expected=expected), "histograms")


def scale_arrays_by_sums(fed: Federation, shape: tuple[int, ...]) -> Scaling:
    """Scale all clients' arrays by secure sums; besides these the server sees only the shape of a sample."""
    digits = (len(UNITS), shape[0])
    sums = sums_of_all(fed, hidden_sums, {}, [Term("count"), Term("sum", digits)])
    mean = of_digits(sums["sum"]) / sums["count"]
    payload = {"mean": mean, "unit": torch.ones_like(mean)}
    spread = of_digits(sums_of_all(fed, hidden_squares, payload, [Term("squares", digits)])["squares"])
    spread = (spread / sums["count"]).sqrt()
    scaling = Scaling("standard", shape, mean, torch.where(constant(mean, spread), 1.0, spread))
    fed.ask_until_all_reply(rescale, {"mean": scaling.mean, "scale": scaling.scale})
    return scaling


def standardise(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Return ``(x - mean) / scale`` per column or channel, computed in float64 and returned in float32."""
    around = (1, -1) + (1,) * (x.ndim - 2)
    return ((x - mean.view(around)) / scale.view(around)).float()


@client_task(
    takes={
        "mean": _FEATURES, "scale": doubles("features", minimum=0),
        "low": Optional(_FEATURES), "high": Optional(_FEATURES),
    }
)  # fmt: skip
def rescale(client: Client, payload: Payload) -> Payload:
    """Standardise the client's data and keep the scaling in its state; a second request does nothing."""
    if "scaling_mean" not in client.state:
        client.state |= {f"scaling_{name}": value for name, value in payload.items()}
        restore_scaling(client)
    return {}


def restore_scaling(client: Client) -> None:
    """Scale a client's freshly loaded data by the scaling in its state, if any; for resuming."""
    if "scaling_mean" in client.state:
        x = limited(client.x, client.state.get("scaling_low"), client.state.get("scaling_high"))
        client.x = standardise(x, client.state["scaling_mean"], client.state["scaling_scale"])


def in_unit(lowest: Tensor, highest: Tensor) -> bool:
    """Return whether all values lie in [0, 1], and not all of them next to 0."""
    return bool((lowest >= 0).all() and (highest <= 1).all()) and float(highest.max()) >= _VISIBLE


def scale_of(mode: str, lowest: Tensor, highest: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scale of each column, and bool ``(columns,)``: which of them have a common one.

    Standardising each column of pixels, embeddings or spectra would amplify those that hardly vary, so with "auto"
    columns that `share_unit` are divided by one common scale, and the others each by its own.
    """
    shared = share_unit(lowest, highest, spread) if mode == "auto" else torch.zeros_like(lowest, dtype=torch.bool)
    common = spread[shared].square().mean().sqrt()
    return torch.where(shared, common, spread), shared


def share_unit(lowest: Tensor, highest: Tensor, spread: Tensor) -> Tensor:
    """Return which columns look like measurements of one kind in one unit, bool ``(columns,)``; there may be none.

    They are so if at least half of the columns that vary have one minimum and half one maximum, as pixels do: all that
    lie between these two. Or all spread by the same order of magnitude around values of that order, as embeddings and
    spectra do; of these a few may spread less. Fewer than 16 columns do not share a unit. `lowest`, `highest` and
    `spread`, float64 ``(columns,)``, are minimum, maximum and standard deviation.
    """
    varies = lowest < highest
    none = torch.zeros_like(varies)
    if int(varies.sum()) < _MIN_COLUMNS:
        return none
    (least, of_least), (greatest, of_greatest) = _most_frequent(lowest[varies]), _most_frequent(highest[varies])
    if of_least >= 0.5 and of_greatest >= 0.5:
        shared = varies & (lowest >= least) & (highest <= greatest)
    else:
        low, high = spread[varies].quantile(_EDGE), spread[varies].quantile(1 - _EDGE)
        shared = varies & (spread <= _SAME_ORDER * low)
        middles = (lowest + highest)[shared] / 2
        if high > _SAME_ORDER * low or middles.max() - middles.min() > _SAME_ORDER * spread[shared].max():
            return none
    return shared if int(shared.sum()) >= _MIN_COLUMNS else none


def _most_frequent(values: Tensor) -> tuple[float, float]:
    """Return the most frequent value, and the fraction of all values that equal it."""
    unique, counts = values.unique(return_counts=True)
    return float(unique[counts.argmax()]), float(counts.max()) / len(values)


def constant(mean: Tensor, spread: Tensor) -> Tensor:
    """Return which columns do not vary except for rounding, where minimum and maximum are not known."""
    return spread <= _ROUNDING * mean.abs()


def note_on_unit(names: Sequence[str], shared: Tensor, varies: Tensor) -> list[str]:
    """Return a note on the columns with a common scale, given which have and which vary, bool ``(columns,)``; or none.

    `names` are those of all columns as a sentence has them. Of columns with a single value nothing is said.
    """
    if not shared.any():
        return []
    all_do = bool(shared[varies].all())
    which = f"All {len(shared)}" if all_do else f"{int(shared.sum())} of {len(shared)}"
    own = [name for name, alone in zip(names, (varies & ~shared).tolist(), strict=True) if alone]
    others = "" if all_do else f", and {listing(own, _NAMED)} {'each ' if len(own) > 1 else ''}by its own"
    return [
        f"{which} columns look like measures in one unit, so they are divided by one common scale{others}; scaling = "
        "'standard' divides each by its own."
    ]


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
    outlying = filled & ((greatest > last + _OUTLYING * reach) | (least < first - _OUTLYING * reach))
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

    Columns whose standard deviation the limits make smallest, of `spread`, come first.
    """
    said = []
    kept = limits.spread / spread[limits.at]
    for one in kept.nan_to_num(1.0).argsort(stable=True).tolist():
        at, lower, upper = int(limits.at[one]), float(limits.low[one]), float(limits.high[one])
        kind: Kind = kinds[at] if kinds else "number"
        if float(high[at]) > upper:
            said.append(f"{names[at]} above {_rounded(upper, kind)}")
        if float(low[at]) < lower:
            said.append(f"{names[at]} below {_rounded(lower, kind)}")
    if not said:
        return []
    return [
        f"Some values are far from all others and count as a limit: {listing(said, _NAMED)}; "
        f"{option('scaling', 'standard')} takes them as they are."
    ]


def as_written(value: float, kind: Kind) -> str:
    """Return a value as it stands in the table: of a date the day."""
    if kind == "date":
        return str(np.datetime64("1970-01-01") + np.timedelta64(math.floor(value), "D"))
    return f"{value:.15g}"


def _rounded(value: float, kind: Kind) -> str:
    """Return a number of four digits with thousands apart, or the day of a date."""
    return as_written(value, kind) if kind == "date" else f"{float(f'{value:.4g}'):,.15g}"


def ends_outward(low: Tensor | None, high: Tensor | None) -> Tensor | None:
    """Return minima and maxima of columns, rounded outwards to two digits: float64 ``(2, columns)``.

    ``None`` if they are not known.
    """
    if low is None or high is None:
        return None
    return torch.stack([-_upwards(-low), _upwards(high)])


def _upwards(values: Tensor) -> Tensor:
    """Round numbers up to two digits; one at the end of floats stays as it is."""
    size = values.abs().clamp_min(torch.finfo(torch.float64).tiny)
    step = torch.pow(10.0, size.log10().floor() - (_DIGITS - 1))
    up = (values / step).ceil() * step
    return torch.where(up.isfinite() & (up >= values), up, values)


def ends_of(arrays: Sequence[Tensor]) -> Tensor | None:
    """Return the ends of all arrays' columns or channels, as of `ends_outward`."""
    ends = [[getattr(x.double(), end)((0, *range(2, x.ndim))) for end in ("amin", "amax")] for x in arrays]
    low, high = (torch.stack(list(own)) for own in zip(*ends, strict=True))
    return ends_outward(low.amin(0), high.amax(0))
