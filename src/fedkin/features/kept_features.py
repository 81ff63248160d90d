"""Features of a client's own samples: computed once, and kept as long as the samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from fedkin.core.errors import FedkinError
from fedkin.features.extractors import extract

_BATCH = 2048
_kept = WeakTensorKeyDictionary()
"""By a client's samples: how their features were computed last, and these."""


def cached_features(name: str, x: Tensor) -> Tensor:
    """Return features of a client's samples ``(n, *shape)``: float32 ``(n, width)``, kept for its next task."""
    return x.flatten(1) if name == "raw" else kept_or_computed(x, (name,), lambda batch: extract(name, batch))


def kept_or_computed(x: Tensor, how: tuple[str, *tuple[Hashable, ...]], compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Return what `compute` makes of samples ``(n, *shape)`` in batches, or made before: float32 ``(n, width)``.

    `how` is the name of the features and what else `compute` depends on. Raises FedkinError if they are not one row
    per sample; such features are not kept.
    """
    found = _kept.get(x)
    if found is None or found[0] != how:
        found = how, torch.cat([compute(batch) for batch in x.split(_BATCH)])
        if found[1].ndim != 2 or len(found[1]) != len(x):
            raise FedkinError(f"Features '{how[0]}' are not one row of numbers per sample.")
        _kept[x] = found
    features: Tensor = found[1]
    return features


def feature_batches(name: str, x: Tensor, size: int) -> Iterable[Tensor]:
    """Return features of samples in batches of `size`: those kept of a client's samples, else computed one by one."""
    if not len(x):
        return ()
    found = _kept.get(x)
    if found is not None and found[0] == (name,):
        own: tuple[Tensor, ...] = found[1].split(size)
        return own
    return (extract(name, batch) for batch in x.split(size))


def drop(x: Tensor) -> None:
    """Drop the features that are kept of these samples."""
    _kept.pop(x, None)
