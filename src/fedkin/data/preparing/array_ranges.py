"""Notes on arrays that are many times as large, or as small, as those of other clients or those of fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from fedkin.core.errors import mid_sentence
from fedkin.data.preparing.new_rows import ends_outward
from fedkin.data.preparing.notes.column_notes import clients_in_words

_TIMES = 25.0
"""Ratio of the largest distances from 0 from which on arrays seem to be in another unit."""
_FEWEST = 5
"""New samples from which on it says something that all are small."""


def notes_on_arrays(ends: Mapping[str, tuple[Tensor, Tensor]]) -> list[str]:
    """Return a note if some clients' values reach many times as far from 0 as those of all others.

    That is so in most columns, as a few values may be outliers. `ends` are by client's name the minima and maxima of
    its columns or channels, float64 ``(columns,)``.
    """
    by_column = {name: torch.maximum(-low, high) for name, (low, high) in ends.items()}
    sizes = dict(zip(by_column, _typical(torch.stack([*by_column.values()])), strict=True))
    order = sorted((name for name in sizes if sizes[name] > 0), key=lambda name: sizes[name])
    gaps = [(sizes[large] / sizes[small], at) for at, (small, large) in enumerate(pairwise(order), 1)]
    if not gaps or max(gaps)[0] <= _TIMES:
        return []
    _, at = max(gaps)
    small, large = (sorted(own, key=list(sizes).index) for own in (order[:at], order[at:]))
    few, others = (large, small) if len(large) <= len(small) else (small, large)
    most, rest = (max(sizes[name] for name in own) for own in (few, others))
    whose = "the other client" if len(others) == 1 else "all others"
    return [
        f"The largest values at {clients_in_words(few)} are about {most:.3g}, and those of {whose} about {rest:.3g}; "
        "are they in another unit, as pixels from 0 to 255 are beside those from 0 to 1, or are a few wrong?"
    ]


def note_on_new_arrays(x: Tensor, reach: Tensor, where: str) -> list[str]:
    """Return a note if new samples are in most columns many times as large as those of fit, or as small.

    `x` is float32 ``(n, columns)`` or ``(n, channels, height, width)``, not empty, and `reach` float64 ``(2, columns)``
    is that of `fedkin.data.preparing.preparation.Preparation`; `where` names the samples.
    """
    if x.shape[1] != reach.shape[1]:
        return []
    own = x.abs().amax((0, *range(2, x.ndim))).double()
    size, known = _typical(torch.stack([own, reach.abs().amax(0)]))
    if not size or not known or (size <= _TIMES * known and (size * _TIMES >= known or len(x) < _FEWEST)):
        return []
    return [
        f"The largest values of {mid_sentence(where)} are about {size:.3g} where those of fit were about {known:.3g}; "
        "are they in another unit?"
    ]


def ends_of(arrays: Sequence[Tensor]) -> Tensor | None:
    """Return the ends of all arrays' columns or channels, as of `ends_outward`."""
    ends = [[getattr(x.double(), end)((0, *range(2, x.ndim))) for end in ("amin", "amax")] for x in arrays]
    low, high = (torch.stack(list(own)) for own in zip(*ends, strict=True))
    return ends_outward(low.amin(0), high.amax(0))


def _typical(sizes: Tensor) -> list[float]:
    """Return the median over columns of sizes ``(sources, columns)``, of those in which any is above 0."""
    used = sizes[:, (sizes > 0).any(0)]
    return [float(own.median()) if len(own) else 0.0 for own in used]
