"""Which columns are measurements in one unit, the scale that each is divided by, and units of its squares."""

from __future__ import annotations

import torch
from torch import Tensor

from fedkin.core.replies import doubles

_ROUNDING = 1e-12
"""Spread of a column, relative to its mean, below which it is constant but for rounding."""
_VISIBLE = 0.01
"""Maximum of data in [0, 1] below which they are too small to be left alone."""
_MIN_COLUMNS, _EDGE, _SAME_ORDER = 16, 0.05, 6.0
"""Of columns in one unit: how many there are at least, and the ratio of the largest to the smallest spread at most,
leaving out so many at either end."""

ONE_UNIT = (
    "All {} columns look like measures in one unit, so they are divided by one scale and not each by its own; scaling "
    "= 'standard' standardises each."
)
"""A note about so many columns."""


def in_unit(lowest: Tensor, highest: Tensor) -> bool:
    """Return whether all values lie in [0, 1], and not all of them next to 0."""
    return bool((lowest >= 0).all() and (highest <= 1).all()) and float(highest.max()) >= _VISIBLE


def scale_of(mode: str, lowest: Tensor, highest: Tensor, spread: Tensor) -> tuple[str, Tensor]:
    """Return the mode that "auto" stands for, or `mode`, and the scale of each column.

    Standardising each column of pixels, embeddings or spectra would amplify those that hardly vary, so columns that
    `share_unit` are divided by one common scale.
    """
    if mode == "auto" and share_unit(lowest, highest, spread):
        return "common", torch.full_like(spread, float(spread[lowest < highest].square().mean().sqrt()))
    return "standard", spread


def share_unit(lowest: Tensor, highest: Tensor, spread: Tensor) -> bool:
    """Return whether columns look like measurements of one kind in one unit.

    That is so if there are at least 16 that vary, and at least half of them share the minimum and half the maximum, as
    pixels do. Or all spread by the same order of magnitude around values of that order, as embeddings and spectra do.

    Parameters
    ----------
    lowest, highest, spread : Tensor
        float64 ``(columns,)``: minimum, maximum and standard deviation.
    """
    varies = lowest < highest
    if int(varies.sum()) < _MIN_COLUMNS:
        return False
    lowest, highest, spread = lowest[varies], highest[varies], spread[varies]
    if _shared(lowest) >= 0.5 and _shared(highest) >= 0.5:
        return True
    low, high = spread.quantile(_EDGE), spread.quantile(1 - _EDGE)
    middles = (lowest + highest) / 2
    return bool(high <= _SAME_ORDER * low) and bool((middles.max() - middles.min()) <= _SAME_ORDER * spread.max())


def _shared(values: Tensor) -> float:
    """Return the fraction of the values that equal the most frequent one."""
    return float(values.unique(return_counts=True)[1].max()) / len(values)


def constant(mean: Tensor, spread: Tensor) -> Tensor:
    """Return which columns do not vary except for rounding, where minimum and maximum are not known."""
    return spread <= _ROUNDING * mean.abs()


UNIT = doubles(None, minimum=float(torch.finfo(torch.float64).tiny))
"""Specification of units in a payload."""


def unit_of(reach: Tensor) -> Tensor:
    """Return a power of two at least as large as each number, float64 ``(columns,)``, or 1 for 0.

    Squares in such units stay small, however large the values are, and their digits are those of the squares
    themselves.
    """
    return torch.where(reach > 0, torch.pow(2.0, torch.frexp(reach.double()).exponent.double()), 1.0)
