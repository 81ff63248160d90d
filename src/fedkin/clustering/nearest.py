"""Nearest neighbours: distances, duplicates, the nearest centroid, and the vote of neighbours."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedkin.clustering.search_device import place_of_search, rows_at_once, sent

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Distances below this part of the lengths, and their squares of the squares, are rounding."""

PAIRS = 1 << 24
"""Maximum number of distances in memory where they are computed in batches."""

_CACHED = 1 << 18
"""Distances that are in memory while each point's nearest centroid is sought: a megabyte, three to five times as fast
as 64."""


def pairwise_distances(points: Tensor, others: Tensor) -> Tensor:
    """Return Euclidean distances ``(n, k)``; exactly 0 between equal points, which matrix products would not give."""
    distances: Tensor = torch.cdist(points, others, compute_mode="donot_use_mm_for_euclid_dist")
    return distances


def drop_duplicates(points: Tensor) -> Tensor:
    """Return `points` ``(k, width)`` without those that, but for rounding, repeat an earlier one."""
    distances = pairwise_distances(points.double(), points.double())
    lengths = points.double().norm(dim=1)
    repeats = (distances <= ROUNDING * torch.maximum(lengths[:, None], lengths)).tril(-1).any(1)
    return points[~repeats]


def nearest_centroids(points: Tensor, centroids: Tensor) -> Tensor:
    """Return the nearest row of `centroids` ``(k, width)`` to each of `points` ``(n, width)``, int64 ``(n,)``.

    Ties go to the lowest row. Both are centred on the centroids' mean, where rounding is smallest. The points' own
    lengths do not matter for which is nearest, and are left out. On the processor distances are computed in batches
    that fit its cache. Many are computed on the thread's device, see `place_of_search`. If both are there already, so
    is the result.
    """
    if not len(points):
        return torch.zeros(0, dtype=torch.int64)
    on_processor = points.device.type == "cpu"
    if on_processor:
        with place_of_search(len(points), len(centroids)) as where:
            if where.type != "cpu":
                there = centroids.to(where)
                parts = sent(points, rows_at_once(len(centroids), points))
                return torch.cat([nearest_centroids(part, there).cpu() for part in parts])
    middle = centroids.mean(0)
    centroids = centroids - middle
    lengths, products = centroids.square().sum(1), -2 * centroids.T.contiguous()
    rows = max(1, _CACHED // len(centroids)) if on_processor else rows_at_once(len(centroids), points)
    distances = (((part - middle) @ products).add_(lengths) for part in points.split(rows))
    if not on_processor:
        return torch.cat([part.argmin(1) for part in distances])
    # NumPy finds the least number of a long row several times as fast as torch.
    return torch.from_numpy(np.concatenate([part.numpy().argmin(1) for part in distances]))


def nearest_neighbours(points: Tensor, rows: Tensor, among: Tensor, neighbours: int) -> Tensor:
    """Return the positions in `among` of the nearest neighbours of each point in `rows`: int64 ``(r, neighbours)``.

    A point is not among its own neighbours. Many distances are computed on the thread's device, see `place_of_search`.
    """
    place = torch.full((len(points),), -1)
    place[among] = torch.arange(len(among))
    with place_of_search(len(rows), len(among)) as where:
        others = points[among].to(where)
        lengths = others.square().sum(1)
        most = max(1, PAIRS // len(among)) if where.type == "cpu" else rows_at_once(len(among), points)
        room = others.new_empty(min(most, len(rows)), len(among))  # new memory for each part would take as long again
        found = []
        for part in rows.split(most):
            distances = torch.mm(-2 * points[part].to(where), others.T, out=room[: len(part)]).add_(lengths)
            known = (place[part] >= 0).nonzero()[:, 0]
            distances[known, place[part][known]] = torch.inf
            found.append(distances.topk(neighbours, largest=False).indices.cpu())
    return torch.cat(found)


def neighbours_vote(labels: Tensor, weights: Tensor, classes: int) -> Tensor:
    """Return the label with the largest sum of weights in each row, int64 ``(n,)``; ties: the lowest.

    `labels`, int64 ``(n, k)``, are those of each point's neighbours, in ``0..classes-1``, and `weights`, float32 ``(n,
    k)``, how much each neighbour counts.
    """
    return weights.new_zeros(len(labels), classes).scatter_add_(1, labels, weights).argmax(1)
