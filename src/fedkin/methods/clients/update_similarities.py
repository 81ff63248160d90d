"""Cosine similarities between the updates of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedkin.nn.classifier import Classifier

_COLUMNS = 1 << 20


def length_compared(classifier: Classifier, compare: str) -> int:
    """Return the number of leading values of an update that `compare` selects (see `UpdateMethod`)."""
    return {"parameters": classifier.parameters, "floats": classifier.floats, "everything": classifier.size}[compare]


def cosine_similarities(updates: Tensor) -> Tensor:
    """Return the cosine between every two updates ``(n, size)``: float64 ``(n, n)``, symmetric, diagonal 1.

    An update of length 0 has no direction; its similarity to every other is 0.
    """
    products = torch.zeros(len(updates), len(updates), dtype=torch.float64)
    for part in updates.split(_COLUMNS, dim=1):
        wide = part.double()
        products += wide @ wide.T
    lengths = products.diagonal().sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    similarities = ((products + products.T) / 2 * (scale[:, None] * scale)).clamp(-1, 1)
    return similarities.fill_diagonal_(1.0)


def cosine_distances(updates: Tensor) -> Tensor:
    """Return ``1 - cosine`` between every two updates: float64 ``(n, n)`` in [0, 2], zero diagonal."""
    return 1 - cosine_similarities(updates)


def nearest(split: Mapping[str, Any], update: Tensor, compared: int) -> int:
    """Return the cluster, among those of a split, whose mean update has the smallest angle with `update`."""
    directions = split["directions"][:, :compared].double()
    similarities = directions @ update[:compared].double() / directions.norm(dim=1).clamp_min(1e-300)
    return int(split["clusters"][int(similarities.argmax())])
