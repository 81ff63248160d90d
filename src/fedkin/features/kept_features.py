"""Features of a client's own samples: computed once, and kept as long as the samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from fedkin.core.errors import FedkinError
from fedkin.features.extractors import extract

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
    if (entry := _kept.get(x)) is not None and entry[0] == how:
        features: Tensor = entry[1]
        return features
    features = torch.cat([compute(batch) for batch in x.split(2048)])  # which bounds the memory of maps of images
    if features.ndim != 2 or len(features) != len(x):
        raise FedkinError(f"Features '{how[0]}' are not one row of numbers per sample.")
    _kept[x] = how, features
    return features


def feature_batches(name: str, x: Tensor, size: int) -> Iterable[Tensor]:
    """Return features of samples in batches of `size`: those kept of a client's samples, else computed one by one."""
    if not len(x):
        return ()
    if (entry := _kept.get(x)) is not None and entry[0] == (name,):
        batches: tuple[Tensor, ...] = entry[1].split(size)
        return batches
    return (extract(name, batch) for batch in x.split(size))


def drop(x: Tensor) -> None:
    """Drop the features that are kept of these samples."""
    _kept.pop(x, None)
