"""Which columns are measurements in one unit, the scale that each is divided by, and units of its squares."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkin.core.errors import listing
from fedkin.core.replies import doubles

_ROUNDING = 1e-12
"""Spread of a column, relative to its mean, below which it is constant but for rounding."""
_VISIBLE = 0.01
"""Maximum of data in [0, 1] below which they are too small to be left alone."""
_NAMED = 5
"""Columns that a note names."""
_MIN_COLUMNS, _EDGE, _SAME_ORDER = 16, 0.05, 6.0
"""Of columns in one unit: how many there are at least, and the ratio of the largest to the smallest spread at most,
leaving out so many at either end."""


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


UNIT = doubles(None, minimum=float(torch.finfo(torch.float64).tiny))
"""Specification of units in a payload."""


def unit_of(reach: Tensor) -> Tensor:
    """Return a power of two at least as large as each number, float64 ``(columns,)``, or 1 for 0.

    Squares in such units stay small, however large the values are, and their digits are those of the squares
    themselves.
    """
    return torch.where(reach > 0, torch.pow(2.0, torch.frexp(reach.double()).exponent.double()), 1.0)
