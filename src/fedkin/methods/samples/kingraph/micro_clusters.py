"""Micro-clusters: many small clusters in place of samples, made by clients and, if they are too many, by the server."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fedkin.clustering.k_means import weighted_lloyd
from fedkin.clustering.nearest import assign_to_nearest, nearest_neighbours

_ITERATIONS, _FEW_ITERATIONS = 12, 5
_FITTED = 100
"""Samples per micro-cluster that centres are fitted to; other samples are only assigned."""

SEARCHED = 10_000
"""Maximum number of points among which neighbours are searched."""


class Summary(NamedTuple):
    """Micro-clusters of points.

    Attributes
    ----------
    centroids : Tensor
        float32 ``(m, d)``.
    counts : Tensor
        int64 ``(m,)``, members of each.
    labels : Tensor
        int64 ``(n,)``, the micro-cluster of each point.
    """

    centroids: Tensor
    counts: Tensor
    labels: Tensor


def smoothed(points: Tensor, neighbours: int, rounds: int, rng: torch.Generator) -> Tensor:
    """Points moved towards dense regions: each to the mean of itself and its nearest ones, repeatedly.

    Parameters
    ----------
    points : Tensor
        float32 ``(n, d)``.
    neighbours : int
        Maximum number of nearest points in a mean, besides the point itself; at most an eighth of the root of n, so
        that few points do not all move together. With 0, or n below 256, points stay. Neighbours are found once, before
        the first round, among a random 10,000 points if there are more.
    rounds : int
        Number of repetitions.
    rng : torch.Generator
        Draws among more than 10,000 points.
    """
    most = int(math.sqrt(len(points)) / 8)
    if neighbours < 1 or most < 2:  # with one neighbour two points become one
        return points
    neighbours = min(neighbours, most)
    searched = torch.arange(len(points))
    if len(points) > SEARCHED:
        searched = torch.randperm(len(points), generator=rng)[:SEARCHED].sort().values
    near = nearest_neighbours(points, torch.arange(len(points)), searched, neighbours)
    for _ in range(rounds - 1):
        moved = (points[searched] + _sum_of(points, searched[near[searched]])) / (neighbours + 1)
        points = points.index_copy(0, searched, moved)
    return (points + _sum_of(points, searched[near])) / (neighbours + 1)


def summarise(points: Tensor, clusters: int, least: int, rng: torch.Generator) -> Summary:
    """At most `clusters` micro-clusters of a client's points, with at least `least` points each.

    Lloyd's algorithm runs for twelve iterations from random points; micro-clusters need not be stable, only small. Then
    the smallest one below `least` joins the one with the nearest mean, until none is left.

    Parameters
    ----------
    points : Tensor
        float32 ``(n, d)``, n >= `least`.
    clusters, least : int
        At least 1.
    rng : torch.Generator
        Draws the first centres.
    """
    order = torch.randperm(len(points), generator=rng)
    fitted = points if len(points) <= _FITTED * clusters else points[order[: _FITTED * clusters]]
    centres = weighted_lloyd(fitted, torch.ones(len(fitted)), points[order[:clusters]], _ITERATIONS)
    labels = assign_to_nearest(points, centres)
    return merged(points, labels, least)


def merged(points: Tensor, labels: Tensor, least: int) -> Summary:
    """Clusters of `points` ``(n, d)``, with those below `least` members joined to their nearest; no label is empty."""
    labels = labels.unique(return_inverse=True)[1]
    counts = labels.bincount()
    sums = points.new_zeros(len(counts), points.shape[1]).index_add_(0, labels, points)
    target = torch.arange(len(counts))
    alive = torch.ones(len(counts), dtype=torch.bool)
    while alive.sum() > 1:
        sizes = torch.where(alive, counts, torch.iinfo(torch.int64).max)
        smallest = int(sizes.argmin())
        if counts[smallest] >= least:
            break
        means = sums / counts[:, None]
        distances = (means - means[smallest]).square().sum(1)
        distances[~alive] = torch.inf
        distances[smallest] = torch.inf
        nearest = int(distances.argmin())
        sums[nearest] += sums[smallest]
        counts[nearest] += counts[smallest]
        alive[smallest] = False
        target[target == smallest] = nearest
    kept = alive.nonzero()[:, 0]
    renumbered = torch.zeros(len(counts), dtype=torch.int64)
    renumbered[kept] = torch.arange(len(kept))
    return Summary(sums[kept] / counts[kept, None], counts[kept], renumbered[target][labels])


def merged_nodes(centroids: Tensor, counts: Tensor, most: int, rng: torch.Generator) -> Summary:
    """At most `most` nodes: weighted means of micro-clusters if there are more, with added counts.

    Parameters
    ----------
    centroids : Tensor
        float32 ``(m, d)``.
    counts : Tensor
        int64 ``(m,)``, their weights.
    most : int
        At least 1.
    rng : torch.Generator
        Draws the first centres among the centroids.

    Returns
    -------
    Summary
        Its `labels` are the node of each of the m micro-clusters.
    """
    if len(centroids) <= most:
        return Summary(centroids, counts, torch.arange(len(centroids)))
    start = centroids[torch.randperm(len(centroids), generator=rng)[:most]]
    centres = weighted_lloyd(centroids, counts.float(), start, _FEW_ITERATIONS)
    labels = assign_to_nearest(centroids, centres).unique(return_inverse=True)[1]
    together = torch.zeros(int(labels.max()) + 1, dtype=torch.int64).index_add_(0, labels, counts)
    sums = centroids.new_zeros(len(together), centroids.shape[1]).index_add_(0, labels, centroids * counts[:, None])
    return Summary(sums / together[:, None], together, labels)


def _sum_of(points: Tensor, rows: Tensor) -> Tensor:
    """Sum of the points in each row of indices ``(n, k)``, one column at a time."""
    total = points[rows[:, 0]]
    for column in rows.T[1:]:
        total += points[column]
    return total
