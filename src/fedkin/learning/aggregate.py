"""Aggregation of models and statistics at the server."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def weighted_mean(models: Tensor, weights: Sequence[float]) -> Tensor:
    """Mean of `models` ``(k, size)`` weighted by `weights`, such as sample counts: ``(size,)``.

    Summed in double precision and in the order given, so the result does not depend on who answered first.
    """
    share = torch.tensor(weights, dtype=torch.float64)
    return ((share / share.sum()) @ models.double()).to(models.dtype)
