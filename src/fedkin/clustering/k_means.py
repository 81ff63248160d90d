"""k-means on tensors: scikit-learn's, and Lloyd's algorithm that does not copy the samples."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.clustering.nearest import drop_duplicates, nearest_centroids, pairwise_distances
from fedkin.core.seeds import draw_seed

_CHUNK = 512
TOLERANCE = 1e-4
"""scikit-learn's: converged when squared moves of centres sum to less than this part of the features' variance."""
_SPARE_DIRECTIONS, _PASSES = 10, 4
"""Dimensions beyond those wanted, and passes over the points, of the search for leading directions."""
_ENOUGH = 4
"""Among so many points per cluster to find, there are nearly always as many different ones as there are clusters."""


class Partition(NamedTuple):
    """Result of k-means.

    `centres` are float32 ``(k, width)``, and `labels`, int64 ``(n,)``, the centre of each point. `iterations` are those
    of Lloyd's algorithm from the seeds that were kept.
    """

    centres: Tensor
    labels: Tensor
    iterations: int


def k_means(
    points: Tensor,
    start: int | Tensor,
    rng: torch.Generator,
    n_init: int = 10,
    max_iterations: int = 300,
    weights: Tensor | None = None,
) -> Partition:
    """Run scikit-learn's k-means; the result does not depend on threads, and repeated points raise no warning.

    `points` are float32 or float64 ``(n, width)``, n >= 1. In float32 some that are very near to each other are one;
    few points that may be so, such as centres of many clients, should come as float64. `start` is the number of
    clusters to find from k-means++ seeds, or initial centres, float32 ``(k, width)``. Of `n_init` sets of seeds that
    with the smallest distances is kept; given centres are tried once. `max_iterations` are for each of them. `weights`
    ``(n,)``, above 0, are how much points count; by default all alike. There are fewer centres than asked for if there
    are not so many different points, or starts; also if one lies so far off that rounding leaves others alike.
    """
    seed = draw_seed(rng)
    if isinstance(start, int):
        search = KMeans(_at_most(start, points), n_init=n_init, max_iter=max_iterations, random_state=seed)
    else:
        first = drop_duplicates(start)
        first = first[: _at_most(len(first), points)].to(points.dtype)
        search = KMeans(len(first), init=first.numpy(), n_init=1, max_iter=max_iterations, random_state=seed)
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        # Sums over several threads depend on which is first.
        warnings.simplefilter("ignore", ConvergenceWarning)  # points that are alike only about a mean far away
        search.fit(points.numpy(), sample_weight=None if weights is None else weights.double().numpy())
    kept, label = np.unique(search.labels_, return_inverse=True)
    centres = torch.from_numpy(search.cluster_centers_[kept]).float()
    return Partition(centres, torch.from_numpy(label.astype(np.int64)), int(search.n_iter_))


def lloyd(points: Tensor, start: Tensor, max_iterations: int = 300) -> Partition:
    """Run Lloyd's algorithm, reading points in chunks.

    scikit-learn's copies them all, which leaves memory in pieces when hundreds of clients have their turn. `points` are
    float32 ``(n, width)``, n >= 1, and the centres `start` float32 ``(k, width)``; these move `max_iterations` times at
    most. A centre that lost all its points stays where it was while others move, and is left out in the end.
    """
    middle = points.mean(0)
    centres = start - middle  # near the origin, rounding is smallest
    squares = sum(float((part - middle).square().sum(dtype=torch.float64)) for part in points.split(_CHUNK))
    limit = TOLERANCE * squares / points.numel()
    shift, iterations = torch.inf, 0
    while shift > limit and iterations < max_iterations:
        sums, counts = torch.zeros(centres.shape, dtype=torch.float64), torch.zeros(len(centres), dtype=torch.float64)
        for part in points.split(_CHUNK):
            near = part - middle
            members = torch.zeros(len(centres), len(part)).scatter_(0, _nearest(near, centres)[None], 1.0)
            sums += members @ near
            counts += members.sum(1)
        after = torch.where(counts[:, None] > 0, sums / counts[:, None], centres.double()).float()
        shift = float((after - centres).square().sum())
        centres = after
        iterations += 1
    labels = torch.cat([_nearest(part - middle, centres) for part in points.split(_CHUNK)])
    kept, labels = labels.unique(return_inverse=True)
    return Partition(centres[kept] + middle, labels, iterations)


def weighted_lloyd(points: Tensor, weights: Tensor, centres: Tensor, iterations: int) -> Tensor:
    """Run Lloyd's algorithm on points ``(n, width)`` with weights: fixed number of iterations, single precision.

    Centres ``(k, width)`` that lose all their points stay where they were. `lloyd` has a step of its own: it
    adds up in double precision about the points' mean, so that one step for both would change the digits of either.
    """
    weighted = points * weights[:, None]
    for _ in range(iterations):
        labels = nearest_centroids(points, centres)
        mass = torch.zeros(len(centres)).index_add_(0, labels, weights)
        sums = torch.zeros_like(centres).index_add_(0, labels, weighted)
        centres = torch.where(mass[:, None] > 0, sums / mass[:, None].clamp_min(1e-30), centres)
    return centres


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    """Return the nearest of `centres` ``(k, width)`` to each of `points` ``(n, width)``, int64 ``(n,)``."""
    return torch.addmm(centres.square().sum(1)[:, None], centres, points.T, alpha=-2.0).argmin(0)


def farthest_points(first: Tensor, points: Tensor, count: int) -> Tensor:
    """Extend `first` ``(j, width)`` by farthest-first traversal of `points` ``(n, width)``, up to `count` points.

    Return them all, ``(count, width)``; fewer if there are not so many that, but for rounding, are different.
    """
    chosen = drop_duplicates(first)[:count]
    distances = pairwise_distances(points, chosen).amin(1)
    while len(chosen) < count:
        candidate = points[distances.argmax()][None]
        if len(drop_duplicates(torch.cat([chosen, candidate]))) == len(chosen):
            break
        chosen = torch.cat([chosen, candidate])
        distances = torch.minimum(distances, pairwise_distances(points, candidate)[:, 0])
    return chosen


def kmeans_plusplus_seeds(points: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Draw seeds by k-means++ (Arthur and Vassilvitskii 2007): float32 ``(k, width)``, k at most `count`.

    `points` are float32 ``(n, width)``; there are fewer seeds if there are not so many different points.
    """
    seeds, _ = kmeans_plusplus(points.numpy(), min(count, len(points)), random_state=draw_seed(rng))
    return drop_duplicates(torch.from_numpy(seeds))


def _at_most(count: int, points: Tensor) -> int:
    """Return `count`, or the number of different points if that is less."""
    if len(drop_duplicates(points[: _ENOUGH * count])) >= count:
        return count
    return len(farthest_points(points[:1], points, count))


def awasthi_sheffet(points: Tensor, count: int, rng: torch.Generator) -> Partition:
    """Cluster one client's points ``(n, width)`` (Awasthi and Sheffet 2012).

    Points are projected on their leading singular vectors, where k-means++ draws seeds. Points at least three times
    nearer to one seed than to any other are averaged, and Lloyd's algorithm on all points starts from the averages.
    There are fewer clusters than `count` if there are fewer distinct points.
    """
    directions = leading_directions(points, min(count, *points.shape), rng)
    projected = points @ directions
    seeds = kmeans_plusplus_seeds(projected, count, rng)
    near, at = pairwise_distances(projected, seeds).topk(min(2, len(seeds)), largest=False)
    clear = 3 * near[:, 0] <= near[:, -1] if len(seeds) > 1 else torch.ones(len(points), dtype=torch.bool)
    start = seeds.clone()
    for r in range(len(seeds)):
        members = clear & (at[:, 0] == r)
        if bool(members.any()):
            start[r] = projected[members].mean(0)
    return lloyd(points, start @ directions.T)


def leading_directions(points: Tensor, rank: int, rng: torch.Generator) -> Tensor:
    """Return the leading right singular vectors of `points` ``(n, width)``: orthonormal columns ``(width, rank)``.

    They are computed by iteration on a random subspace with ten more dimensions (Halko, Martinsson, Tropp 2011).
    """
    wide = min(rank + _SPARE_DIRECTIONS, *points.shape)
    basis = torch.randn(points.shape[1], wide, generator=rng)
    for _ in range(_PASSES):
        basis = torch.linalg.qr(points.T @ (points @ basis)).Q
    projected = points @ basis
    _, vectors = torch.linalg.eigh(projected.T @ projected)  # in ascending order
    directions: Tensor = basis @ vectors.flip(1)[:, :rank]
    return directions
