"""Clusters of points that are dense regions, and the radius that they are found by."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sklearn.cluster import DBSCAN
from torch import Tensor

from fedkin.clustering.matching import renumbered
from fedkin.clustering.nearest import pairwise_distances


def nearest_distances(points: Tensor) -> list[float]:
    """Return the distance of each point ``(n, d)`` to its nearest neighbour, in ascending order."""
    if len(points) < 2:
        return []
    distances = pairwise_distances(points.double(), points.double()).fill_diagonal_(torch.inf)
    nearest: list[float] = distances.min(1).values.sort().values.tolist()
    return nearest


def knee(heights: Sequence[float]) -> float:
    """Return the knee of a rising curve, the height at which it bends up (Kneedle; Satopaa et al. 2011; sensitivity 1).

    Heights ascend. The knee is, of the points farthest below the straight line from the first to the last, the last one
    that the following points confirm: the last height if all are equal or there are fewer than three; 0 for none.
    """
    if len(heights) < 3 or heights[-1] <= heights[0]:
        return heights[-1] if heights else 0.0
    last = len(heights) - 1
    below = [rank / last - (height - heights[0]) / (heights[-1] - heights[0]) for rank, height in enumerate(heights)]
    peak: int | None = None
    for rank in range(last - 1, 0, -1):
        neighbours = below[rank - 1], below[rank + 1]
        if below[rank] >= max(neighbours):
            peak = rank
        elif below[rank] <= min(neighbours):
            peak = None
        if peak is not None and below[rank - 1] < below[peak] - 1 / last:
            return heights[peak]
    return heights[below.index(max(below))]


def dense(points: Tensor, radius: float) -> Tensor:
    """Return the dense region of each point ``(n, d)``, int64 ``(n,)``; a point in none is a region by itself."""
    reach = radius * (1 + 1e-9)  # a radius that was found is a distance between two points, up to rounding
    distances = pairwise_distances(points.double(), points.double())  # of equal points 0, unlike scikit-learn's
    labels = DBSCAN(eps=max(reach, 1e-9), min_samples=2, metric="precomputed").fit_predict(distances.numpy())
    return torch.tensor(renumbered([-1 - row if label < 0 else label for row, label in enumerate(labels.tolist())]))
