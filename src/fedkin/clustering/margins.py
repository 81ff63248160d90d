"""Margins in [0, 1]: how clearly points belong to their own cluster rather than to the next."""

from __future__ import annotations

import torch
from torch import Tensor


def distance_margin(distances: Tensor, clusters: Tensor | None = None) -> Tensor:
    """Return 1 minus the ratio of the distance to the own cluster to the distance to the nearest other one.

    `distances` ``(n, k)``, at least 0, are those of points from clusters, or anything else that is small where a point
    belongs. `clusters`, int64 ``(n,)``, are the points' own; by default the nearest. The margin is float32 ``(n,)``: 1
    at the own cluster, or where there is no other, 0 halfway between two and beyond.
    """
    if clusters is None:
        clusters = distances.argmin(1)
    own = distances.gather(1, clusters[:, None])[:, 0]
    others = distances.scatter(1, clusters[:, None], torch.inf).amin(1)
    away = torch.where(others > 0, (others - own) / others, 0.0)
    return torch.where(others.isinf(), 1.0, away).clamp(0, 1).float()


def share_margin(shares: Tensor) -> Tensor:
    """Return the difference of each point's two largest memberships.

    The `shares` ``(n, k)`` are memberships or probabilities, at least 0 with a sum of 1 in each row. Differences are
    float32 ``(n,)`` in [0, 1]; 1 where there is one cluster.
    """
    if shares.shape[1] < 2:
        return torch.ones(len(shares))
    largest = shares.topk(2, dim=1).values
    return (largest[:, 0] - largest[:, 1]).clamp(0, 1).float()
