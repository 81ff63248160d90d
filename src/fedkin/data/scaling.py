"""Scales of columns and limits of those with outliers, from statistics of all clients; arrays that are scaled so.

A single mistyped number can be most of a column's variance, so that all other rows are alike once it is standardised.
So values beyond limits count as these. Robust scalers such as skrub's ``SquashingScaler`` bend the values of every
column; these limits leave columns without outliers as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from fedkin.core import Client, Payload, client_task
from fedkin.core.client import MEASURED, Kind
from fedkin.core.errors import FedkinError, listing, option
from fedkin.core.replies import MAX_NUMBER, Optional, doubles
from fedkin.data.statistics import BINS, Ask, ColumnSums, quantile

Mode = Literal["standard", "common", "unit", "none"]

_MIN_SHARING, _SAME_ORDER = 16, 6.0
"""Columns in one unit are at least so many, and their largest spread is at most so many times their smallest."""
_TAIL = 0.05
"""The middle nine tenths of a column lie between the quantiles of this fraction and its complement. Limits are once
their distance beyond them, if a value is more than twice as far: 5 and 8 standard deviations of normal values."""


# Arrays.


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
        return _standardise(x, {"mean": self.mean, "scale": self.scale, **self.limits})

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


_FEATURES = doubles("features")


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
        names = ("mean", "scale", "low", "high")
        scaling = {name: client.state[key] for name in names if (key := f"scaling_{name}") in client.state}
        client.x = _standardise(client.x, scaling)


def _standardise(x: Tensor, scaling: Mapping[str, Tensor]) -> Tensor:
    """Return ``(x - mean) / scale`` per column or channel, within limits: computed in float64, returned in float32."""
    around = (1, -1) + (1,) * (x.ndim - 2)
    x = limited(x, scaling.get("low"), scaling.get("high"))
    return ((x - scaling["mean"].view(around)) / scaling["scale"].view(around)).float()


def limited(x: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """Return samples ``(n, features)`` within limits; unchanged without."""
    return x if low is None or high is None else x.double().clamp(low, high)


def unlimited(columns: int) -> tuple[Tensor, Tensor]:
    """Return limits beyond all numbers that are allowed, float64 ``(columns,)``."""
    high = torch.full((columns,), MAX_NUMBER, dtype=torch.float64)
    return -high, high


# Scales of columns, of arrays and tables alike.


class ColumnScales(NamedTuple):
    """How columns are scaled: `mean` and `scale`, and limits `low` and `high` if there are outliers, ``(columns,)``.

    All are float64. `notes` say for the user which columns have a common scale and which have limits.
    """

    mode: Mode
    mean: Tensor
    scale: Tensor
    low: Tensor | None = None
    high: Tensor | None = None
    notes: Sequence[str] = ()


def fit_scales(sums: ColumnSums, names: Sequence[str], kinds: Sequence[Kind], scaling: str, ask: Ask) -> ColumnScales:
    """Fit scales of columns, or of channels of images, to sums over all clients.

    Standardising each column of pixels, embeddings or spectra would amplify those that hardly vary, so by the `scaling`
    "auto" columns that `share_unit` are divided by one common scale, and the others each by its own, within limits if
    they have outliers; `ask` is called for histograms then. Numbers that all lie in [0, 1] are left alone. `names` are
    those of the columns as a sentence has them, and `kinds` theirs; categories are scaled as if they were numbers.
    """
    low, high, are_plain = sums.low, sums.high, set(kinds) == {"number"}
    if scaling == "none" or (scaling == "auto" and are_plain and in_unit(low, high)):
        mode: Mode = "none" if scaling == "none" else "unit"
        return ColumnScales(mode, torch.zeros_like(sums.mean), torch.ones_like(sums.mean))
    if low is None or high is None:
        return ColumnScales("standard", sums.mean, torch.where(constant(sums.mean, sums.spread), 1.0, sums.spread))
    shared = torch.zeros_like(low, dtype=torch.bool)
    if scaling == "auto" and are_plain:
        shared = share_unit(low, high, sums.spread)
    common = sums.spread[shared].square().mean().sqrt()
    mean, scale = sums.mean, torch.where(low == high, 1.0, torch.where(shared, common, sums.spread))
    mode, notes = ("common", [_note_on_unit(names, shared, low < high)]) if shared.any() else ("standard", [])
    measured = torch.tensor([kind in MEASURED for kind in kinds]) & (sums.filled > 0)
    limits = _find_limits(ask, sums, low, high, measured & ~shared) if scaling == "auto" else None
    if limits is None:
        return ColumnScales(mode, mean, scale, notes=notes)
    positions, *parts = limits
    notes.append(_note_on_outliers(names, kinds, limits, sums, low, high))
    mean, scale, low, high = (
        column.index_copy(0, positions, values)
        for column, values in zip((mean, scale, *unlimited(len(mean))), parts, strict=True)
    )
    return ColumnScales(mode, mean, scale, low, high, notes)


def in_unit(low: Tensor | None, high: Tensor | None) -> bool:
    """Return whether all values lie in [0, 1], and not all of them below 0.01, next to 0."""
    if low is None or high is None:
        return False
    return bool((low >= 0).all() and (high <= 1).all()) and float(high.max()) >= 0.01


def share_unit(low: Tensor, high: Tensor, spread: Tensor) -> Tensor:
    """Return which columns look like measurements of one kind in one unit, bool ``(columns,)``; there may be none.

    They are so if at least half of the columns that vary have one minimum and half one maximum, as pixels do: all that
    lie between these two. Or all spread by the same order of magnitude around values of that order, as embeddings and
    spectra do; of these a twentieth may spread less. Fewer than 16 columns do not share a unit. `low`, `high` and
    `spread`, float64 ``(columns,)``, are minimum, maximum and standard deviation.
    """
    varies = low < high
    none = torch.zeros_like(varies)
    if int(varies.sum()) < _MIN_SHARING:
        return none
    (least, of_least), (greatest, of_greatest) = _most_frequent(low[varies]), _most_frequent(high[varies])
    if of_least >= 0.5 and of_greatest >= 0.5:
        shared = varies & (low >= least) & (high <= greatest)
    else:
        smallest, largest = spread[varies].quantile(0.05), spread[varies].quantile(0.95)
        shared = varies & (spread <= _SAME_ORDER * smallest)
        middles = (low + high)[shared] / 2
        if largest > _SAME_ORDER * smallest or middles.max() - middles.min() > _SAME_ORDER * spread[shared].max():
            return none
    return shared if int(shared.sum()) >= _MIN_SHARING else none


def _most_frequent(values: Tensor) -> tuple[float, float]:
    """Return the most frequent value, and the fraction of all values that equal it."""
    unique, counts = values.unique(return_counts=True)
    return float(unique[counts.argmax()]), float(counts.max()) / len(values)


def constant(mean: Tensor, spread: Tensor) -> Tensor:
    """Return which columns do not vary except for rounding, where minimum and maximum are not known."""
    return spread <= 1e-12 * mean.abs()


def _note_on_unit(names: Sequence[str], shared: Tensor, varies: Tensor) -> str:
    """Return a note on the columns with a common scale; of columns with a single value nothing is said."""
    apart = [name for name, is_apart in zip(names, (varies & ~shared).tolist(), strict=True) if is_apart]
    which = f"{int(shared.sum())} of {len(shared)}" if apart else f"All {len(shared)}"
    rest = f", and {listing(apart, 5)} by their own" if apart else ""
    return (
        f"{which} columns look like measures in one unit, so they are divided by one common scale{rest}; "
        f"{option('scaling', 'standard')} divides each by its own."
    )


# Limits of columns with outliers.


_Limits = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Positions of columns with outliers, int64 ``(k,)``; of limited values mean and standard deviation, and the limits."""


def _find_limits(ask: Ask, sums: ColumnSums, low: Tensor, high: Tensor, among: Tensor) -> _Limits | None:
    """Return the limits of the columns with outliers, of those `among` which they may be; ``None`` without any.

    Clients are asked only if some value is five standard deviations from the mean. Mean and deviation are read from a
    histogram between the limits.
    """
    reach = torch.maximum(high - sums.mean, sums.mean - low)
    positions = (among & (reach > 5.0 * sums.spread)).nonzero()[:, 0]
    least, greatest = low[positions], high[positions]
    first, last, filled = _central_range(ask, positions, least, greatest)
    width = last - first
    outlying = filled & ((greatest > last + 2.0 * width) | (least < first - 2.0 * width))
    positions, low, high = positions[outlying], (first - width)[outlying], (last + width)[outlying]
    if not len(positions):
        return None
    counts = ask(positions, low, high)
    middles = low[:, None] + (torch.arange(BINS) + 0.5) / BINS * (high - low)[:, None]
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    mean = (shares * middles).sum(1)
    return positions, mean, (shares * (middles - mean[:, None]).square()).sum(1).sqrt(), low, high


def _central_range(ask: Ask, positions: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ends of each column's middle nine tenths, and whether these fill 16 bins of a histogram or more.

    Histograms are asked for up to eight times, each finer than the last, to reach that.
    """
    first, last, filled = low.clone(), high.clone(), torch.zeros(len(positions), dtype=torch.bool)
    low, high = low.clone(), high.clone()
    for _ in range(8):
        rest = (~filled & (high > low)).nonzero()[:, 0]
        if not len(rest):
            break
        counts, ends = ask(positions[rest], low[rest], high[rest]), (low[rest], high[rest])
        first[rest], last[rest] = quantile(counts, _TAIL, *ends), quantile(counts, 1 - _TAIL, *ends)
        width = (ends[1] - ends[0]) / BINS
        filled[rest] = last[rest] - first[rest] >= 16 * width
        low[rest] = torch.maximum(first[rest] - width, ends[0])
        high[rest] = torch.minimum(last[rest] + width, ends[1])
    return first, last, filled


def _note_on_outliers(
    names: Sequence[str], kinds: Sequence[Kind], limits: _Limits, sums: ColumnSums, low: Tensor, high: Tensor
) -> str:
    """Return a note on the columns with outliers; those whose standard deviation limits make smallest come first."""
    positions, _, spread, least, greatest = limits
    listed = []
    for i in (spread / sums.spread[positions]).nan_to_num(1.0).argsort(stable=True).tolist():
        column = int(positions[i])
        for side, limit, is_beyond in (
            ("above", float(greatest[i]), high[column] > greatest[i]),
            ("below", float(least[i]), low[column] < least[i]),
        ):
            is_date = kinds[column] == "date"
            text = as_written(limit, "date") if is_date else f"{float(f'{limit:.4g}'):,.15g}"  # four digits
            listed += [f"{names[column]} {side} {text}"] if is_beyond else []
    return (
        f"Some values are far from all others and count as a limit: {listing(listed, 5)}; "
        f"{option('scaling', 'standard')} takes them as they are."
    )


def as_written(value: float, kind: Kind) -> str:
    """Return a value as it stands in the table: of a date the day."""
    if kind == "date":
        return str(np.datetime64("1970-01-01") + np.timedelta64(math.floor(value), "D"))
    return f"{value:.15g}"
