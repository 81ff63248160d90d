"""Histograms of columns, which are sums over clients, and quantiles read from them."""

from __future__ import annotations

import torch
from torch import Tensor

BINS = 256


def histograms(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Count the values of each column in bins of equal width between `low` and `high`: float64 ``(columns, 256)``.

    The first and the last bin take the rest; NaN are not counted.
    """
    width = (high - low).clamp_min(torch.finfo(torch.float64).tiny)
    bins = ((values - low) / width * BINS).clamp(0, BINS - 1)
    counts = [own[~own.isnan()].long().bincount(minlength=BINS).double() for own in bins.T]
    return torch.stack(counts) if counts else torch.zeros(0, BINS, dtype=torch.float64)


def quantile(counts: Tensor, fraction: float, low: Tensor, high: Tensor) -> Tensor:
    """Return a quantile of each column, float64 ``(columns,)``, as if values were evenly spread within each bin."""
    below = counts.cumsum(1)
    wanted = below[:, -1:] * fraction
    bins = (below < wanted).sum(1, keepdim=True).clamp_max(BINS - 1)
    inside = (wanted - (below - counts).gather(1, bins)) / counts.gather(1, bins).clamp_min(1)
    return low + (bins + inside)[:, 0] / BINS * (high - low)
