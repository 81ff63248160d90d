"""What is nearest: distances, duplicates, the nearest centroid, and the vote of neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Distances below this part of the lengths, and their squares of the squares, are rounding."""


def pairwise_distances(points: Tensor, others: Tensor) -> Tensor:
    """Euclidean distances ``(n, k)``; exactly 0 between equal points, which products would not give."""
    distances: Tensor = torch.cdist(points, others, compute_mode="donot_use_mm_for_euclid_dist")
    return distances


def drop_duplicates(points: Tensor) -> Tensor:
    """`points` ``(k, width)`` without those that, but for rounding, repeat an earlier one."""
    distances = pairwise_distances(points.double(), points.double())
    lengths = points.double().norm(dim=1)
    repeats = (distances <= ROUNDING * torch.maximum(lengths[:, None], lengths)).tril(-1).any(1)
    return points[~repeats]


def nearest_centroids(points: Tensor, centroids: Tensor) -> Tensor:
    """Row of `centroids` ``(k, width)`` nearest to each of `points` ``(n, width)``, int64 ``(n,)``; ties: the lowest.

    Both are centred on the centroids' mean, where rounding is smallest. The points' own lengths do not
    matter for which is nearest, and are left out.
    """
    middle = centroids.mean(0)
    points, centroids = points - middle, centroids - middle
    return (centroids.square().sum(1) - 2 * points @ centroids.T).argmin(1)


def neighbours_vote(labels: Tensor, weights: Tensor, classes: int) -> Tensor:
    """The label with the largest sum of weights in each row, int64 ``(n,)``; ties: the lowest.

    Parameters
    ----------
    labels : Tensor
        int64 ``(n, k)``, the labels of each point's neighbours, in ``0..classes-1``.
    weights : Tensor
        float32 ``(n, k)``, how much each neighbour counts.
    classes : int
    """
    return weights.new_zeros(len(labels), classes).scatter_add_(1, labels, weights).argmax(1)
