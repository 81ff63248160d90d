"""Nearest neighbours: distances, duplicates, the nearest centroid, and by what margin in [0, 1] it is the nearest."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Distances below this part of the lengths, and their squares of the squares, are rounding."""

PAIRS = 1 << 24
"""Maximum number of distances in memory where they are computed in batches."""


def pairwise_distances(points: Tensor, others: Tensor) -> Tensor:
    """Return Euclidean distances ``(n, k)``; exactly 0 between equal points, which matrix products would not give."""
    distances: Tensor = torch.cdist(points, others, compute_mode="donot_use_mm_for_euclid_dist")
    return distances


def drop_duplicates(points: Tensor) -> Tensor:
    """Return `points` ``(k, width)`` without those that, but for rounding, repeat an earlier one."""
    return points[~repeats(points)]


def repeats(points: Tensor) -> Tensor:
    """Return which of `points` ``(..., k, width)`` repeat an earlier one, but for rounding: bool ``(..., k)``."""
    distances = pairwise_distances(points.double(), points.double())
    lengths = points.double().norm(dim=-1)
    limits = ROUNDING * torch.maximum(lengths[..., None], lengths[..., None, :])
    return (distances <= limits).tril(-1).any(-1)


def nearest_centroids(points: Tensor, centroids: Tensor) -> Tensor:
    """Return the nearest row of `centroids` ``(k, width)`` to each of `points` ``(n, width)``, int64 ``(n,)``.

    Ties go to the lowest row. Both are centred on the centroids' mean, where rounding is smallest. The points' own
    lengths do not matter for which is nearest, and are left out.
    """
    if not len(points):
        return torch.zeros(0, dtype=torch.int64)
    middle = centroids.mean(0)
    centroids = centroids - middle
    lengths, products = centroids.square().sum(1), -2 * centroids.T.contiguous()
    # A megabyte of distances at a time is three to five times as fast as 64.
    batches = points.split(max(1, (1 << 18) // len(centroids)))
    distances = (((part - middle) @ products).add_(lengths) for part in batches)
    # NumPy finds the least number of a long row several times as fast as torch.
    return torch.from_numpy(np.concatenate([part.numpy().argmin(1) for part in distances]))


def nearest_neighbours(points: Tensor, rows: Tensor, among: Tensor, neighbours: int) -> Tensor:
    """Return the positions in `among` of the nearest neighbours of each point in `rows`: int64 ``(r, neighbours)``.

    A point is not among its own neighbours.
    """
    place = torch.full((len(points),), -1)
    place[among] = torch.arange(len(among))
    others = points[among]
    lengths = others.square().sum(1)
    most = max(1, PAIRS // len(among))
    room = others.new_empty(min(most, len(rows)), len(among))  # new memory for each part would take as long again
    nearest = []
    for part in rows.split(most):
        distances = torch.mm(-2 * points[part], others.T, out=room[: len(part)]).add_(lengths)
        inside = (place[part] >= 0).nonzero()[:, 0]
        distances[inside, place[part][inside]] = torch.inf
        nearest.append(distances.topk(neighbours, largest=False).indices)
    return torch.cat(nearest)


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
