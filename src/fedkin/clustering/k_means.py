"""Nearest centroids and neighbours, and k-means on tensors: scikit-learn's, and Lloyd's, which copies no samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.core.seeds import draw_seed

ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Distances below this part of the lengths, and their squares of the squares, are rounding."""

PAIRS = 1 << 24
"""Maximum number of distances in memory where they are computed in batches."""
_CHUNK = 512
_MANY = 1 << 20
"""Points beyond which scikit-learn's k-means, which copies them in float64, takes gigabytes and minutes."""


# Distances, duplicates, the nearest centroid, and by what margin in [0, 1] it is the nearest.


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


# k-means.


class Partition(NamedTuple):
    """Result of k-means.

    `centres` are float32 ``(k, width)``, and `labels`, int64 ``(n,)``, the centre of each point.
    """

    centres: Tensor
    labels: Tensor


def k_means(
    points: Tensor,
    start: int | Tensor,
    rng: torch.Generator,
    n_init: int = 10,
    max_iterations: int = 300,
    weights: Tensor | None = None,
    exact: bool = False,
) -> Partition:
    """Run scikit-learn's k-means; the result does not depend on threads, and repeated points raise no warning.

    `points` are float32 ``(n, width)``, n >= 1; some that are very near to each other are one, unless it is `exact`, in
    float64, for what clients send, such as centres. `start` is the number of clusters to find from k-means++ seeds, or
    initial centres, float32 ``(k, width)``. Of `n_init` sets of seeds that with the smallest distances is kept; given
    centres are tried once. `max_iterations` are for each of them. `weights` ``(n,)``, above 0, are how much points
    count; by default all alike. There are fewer centres than asked for if there are not so many different points, or
    starts; also if one lies so far off that rounding leaves others alike.

    Of more than a million points those are clustered that `rng` draws, and all take part in one more iteration; the
    many that would follow change distances in the fourth digit.
    """
    if len(points) > _MANY:
        some = torch.randint(len(points), (_MANY // 4,), generator=rng).unique()
        sample = k_means(points[some], start, rng, n_init, max_iterations, None if weights is None else weights[some])
        weights = None if weights is None else weights.float()
        return lloyd_of_sets(points.float()[None], sample.centres[None], None, 1, weights).only
    points = points.double() if exact else points
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
    return Partition(centres, torch.from_numpy(label.astype(np.int64)))


class Partitions(NamedTuple):
    """Result of k-means of several sets of points of one size, such as those of several clients.

    `centres` are float32 ``(sets, k, width)``, `labels`, int64 ``(sets, n)``, the centre of each point, and `sizes`,
    int64 ``(sets, k)``, the points of each centre; of some there may be none.
    """

    centres: Tensor
    labels: Tensor
    sizes: Tensor

    @property
    def packed_labels(self) -> Tensor:
        """Labels among the centres that have points, int64 ``(sets, n)``."""
        return ((self.sizes > 0).cumsum(1) - 1).gather(1, self.labels)

    @property
    def only(self) -> Partition:
        """The partition of a single set."""
        return Partition(self.centres[0, self.sizes[0] > 0], self.packed_labels[0])


def lloyd_of_sets(
    points: Tensor, start: Tensor, valid: Tensor | None, max_iterations: int = 300, weights: Tensor | None = None
) -> Partitions:
    """Run Lloyd's algorithm on several sets of points, reading these in chunks.

    scikit-learn's copies them all, which leaves memory in pieces when hundreds of clients have their turn. `points` are
    float32 ``(sets, n, width)``, n >= 1, and the centres `start` float32 ``(sets, k, width)``, of which there are those
    that `valid`, bool ``(sets, k)``, says, all by default. They move `max_iterations` times at most. A centre that lost
    all its points stays where it was while others move. `weights` are how much the points of a single set count,
    float32 ``(n,)``; by default all alike.
    """
    middle = points.mean(1, keepdim=True)
    centres = start - middle  # near the origin, rounding is smallest
    off = torch.zeros(centres.shape[:2]) if valid is None else torch.where(valid, 0.0, torch.inf)
    is_small = points.shape[1] <= _CHUNK
    offsets = points - middle if is_small else points

    def chunks(sets: Tensor, middle: Tensor) -> Iterator[Tensor]:
        yield from [sets] if is_small else (part - middle for part in sets.split(_CHUNK, dim=1))

    limit = torch.zeros(len(points), dtype=torch.float64)
    for near in chunks(offsets, middle):
        limit += near.square().sum((1, 2), dtype=torch.float64)
    # Converged, as in scikit-learn, when squared moves of centres sum to less than this part of the features' variance.
    limit *= 1e-4 / (points.shape[1] * points.shape[2])
    # Sets whose centres move still, with their points and their mean.
    rows, moving, mean = torch.arange(len(points)), offsets, middle
    for _ in range(max_iterations):
        before, far = centres[rows], off[rows]
        sums, counts = torch.zeros(before.shape, dtype=torch.float64), torch.zeros(far.shape, dtype=torch.float64)
        for number, near in enumerate(chunks(moving, mean)):
            members = torch.zeros(*far.shape, near.shape[1]).scatter_(1, _nearest(near, before, far)[:, None], 1.0)
            if weights is not None:
                members *= weights[number * _CHUNK :][: near.shape[1]]
            sums += members @ near
            counts += members.sum(2)
        after = torch.where(counts[..., None] > 0, sums / counts[..., None], before.double()).float()
        centres[rows] = after
        move = (after - before).square().sum((1, 2)) > limit[rows]
        if not bool(move.all()):
            rows, moving, mean = rows[move], moving[move], mean[move]
        if not len(rows):
            break
    labels = torch.cat([_nearest(near, centres, off) for near in chunks(offsets, middle)], dim=1)
    sizes = torch.zeros(off.shape, dtype=torch.int64).scatter_add_(1, labels, torch.ones_like(labels))
    return Partitions(centres + middle, labels, sizes)


def weighted_lloyd(points: Tensor, weights: Tensor, centres: Tensor, iterations: int) -> Tensor:
    """Run Lloyd's algorithm on points ``(n, width)`` with weights: fixed number of iterations, single precision.

    Centres ``(k, width)`` that lose all their points stay where they were. `lloyd_of_sets` has a step of its own: it
    adds up in double precision about the points' mean, so that one step for both would change the digits of either.
    """
    weighted = points * weights[:, None]
    for _ in range(iterations):
        labels = nearest_centroids(points, centres)
        mass = torch.zeros(len(centres)).index_add_(0, labels, weights)
        sums = torch.zeros_like(centres).index_add_(0, labels, weighted)
        centres = torch.where(mass[:, None] > 0, sums / mass[:, None].clamp_min(1e-30), centres)
    return centres


def _nearest(points: Tensor, centres: Tensor, off: Tensor) -> Tensor:
    """Return the nearest centre to each point, int64 ``(sets, n)``.

    `points` are ``(sets, n, width)``, `centres` ``(sets, k, width)``, and infinite `off` ``(sets, k)`` are no centres.
    """
    lengths = centres.square().sum(2) + off
    return torch.baddbmm(lengths[:, :, None], centres, points.mT, alpha=-2.0).min(1).indices  # argmin takes 4 times it


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
    (rows,) = kmeans_plusplus_rows(points[None], count, [draw_seed(rng)])
    return drop_duplicates(points[rows])


def kmeans_plusplus_rows(points: Tensor, count: int, random_states: Sequence[int]) -> Tensor:
    """Return the rows that scikit-learn's k-means++ draws of several sets of points: int64 ``(sets, k)``.

    `points` are float32 ``(sets, n, width)``, k is `count` or n, and each set has its own random state. Of few points
    all sets are done at once: a call of scikit-learn's for each of a million clients would take most of k-FED's time.
    """
    sets, n, _ = points.shape
    count = min(count, n)
    if n > 256:  # distances of so many take half a megabyte of a set
        drawn = zip(points.numpy(), random_states, strict=True)
        return torch.from_numpy(np.stack([kmeans_plusplus(x, count, random_state=state)[1] for x, state in drawn]))
    exact = points.double()
    lengths = exact.square().sum(2)
    squares = torch.baddbmm(lengths[:, None] + lengths[:, :, None], exact, exact.mT, alpha=-2.0).clamp_min_(0).float()
    squares.diagonal(dim1=1, dim2=2).zero_()
    between, every, trials = squares.numpy(), np.arange(sets), 2 + int(np.log(count))
    random, numbers = np.random.RandomState(), np.empty((sets, 1 + (count - 1) * trials))
    for row, state in zip(numbers, random_states, strict=True):
        random.seed(state)
        row[:] = random.random_sample(len(row))
    shares = np.full(n, np.float32(1) / np.float32(n), dtype=np.float64).cumsum()
    rows = np.empty((sets, count), dtype=np.int64)
    rows[:, 0] = (shares / shares[-1]).searchsorted(numbers[:, 0], side="right")
    closest = between[every, rows[:, 0]]
    left = closest.sum(1)
    for place in range(1, count):
        # As in scikit-learn, of some candidates the one that leaves the smallest distances.
        values = numbers[:, 1 + (place - 1) * trials :][:, :trials] * left[:, None]
        below = closest.cumsum(1)[:, None] < values[:, :, None]
        candidates = below.sum(2).clip(max=n - 1)
        distances = np.minimum(closest[:, None], between[every[:, None], candidates])
        potentials = distances.sum(2)
        best = potentials.argmin(1)
        rows[:, place], closest, left = candidates[every, best], distances[every, best], potentials[every, best]
    return torch.from_numpy(rows)


def _at_most(count: int, points: Tensor) -> int:
    """Return `count`, or the number of different points if that is less."""
    if len(drop_duplicates(points[: 4 * count])) >= count:  # nearly always among so many
        return count
    return len(farthest_points(points[:1], points, count))


def awasthi_sheffet(points: Tensor, count: int, rng: torch.Generator) -> Partition:
    """Cluster one client's points ``(n, width)`` (Awasthi and Sheffet 2012).

    Points are projected on their leading singular vectors, where k-means++ draws seeds. Points at least three times
    nearer to one seed than to any other are averaged, and Lloyd's algorithm on all points starts from the averages.
    There are fewer clusters than `count` if there are fewer distinct points.
    """
    return awasthi_sheffet_of_sets(points[None], count, [rng]).only


def awasthi_sheffet_of_sets(points: Tensor, count: int, rngs: Iterable[torch.Generator]) -> Partitions:
    """Cluster several sets of points ``(sets, n, width)``, each with a generator."""
    n, width = points.shape[1:]
    rank = min(count, n, width)
    # Five spare dimensions and squared products between few points find 0.9999 of the variance of digits, as ten do.
    bases = torch.empty(len(points), min(n, width), min(rank + (5 if n < width else 10), n, width))
    states = []
    for basis, rng in zip(bases, rngs, strict=True):
        torch.randn(basis.shape, generator=rng, out=basis)
        states.append(draw_seed(rng))
    directions = _leading(points, rank, bases)
    projected = points @ directions
    rows = kmeans_plusplus_rows(projected, count, states)
    seeds = projected.gather(1, rows[:, :, None].expand(-1, -1, rank))
    valid = ~repeats(seeds)
    distances = pairwise_distances(projected, seeds) + torch.where(valid, 0.0, torch.inf)[:, None]
    near, at = distances.topk(min(2, rows.shape[1]), largest=False)
    clear = (3 * near[..., 0] <= near[..., -1]) | (valid.sum(1) == 1)[:, None]
    members = torch.zeros(distances.shape).scatter_(2, at[..., :1], clear[..., None].float())
    counts = members.sum(1)[..., None]
    start = torch.where(counts > 0, members.mT @ projected / counts, seeds)
    return lloyd_of_sets(points, start @ directions.mT, valid)


def _leading(points: Tensor, rank: int, basis: Tensor) -> Tensor:
    """Return the leading right singular vectors of each set of points: orthonormal columns ``(sets, width, rank)``.

    They are computed by iteration on a random subspace `basis` ``(sets, min(n, width), spare)`` (Halko, Martinsson,
    Tropp 2011, who pass over the points two to four times). Columns beyond the rank of the points, but for rounding,
    are 0.
    """
    passes = 4
    if points.shape[1] < points.shape[2]:  # by products between points, which are fewer numbers
        between = points @ points.mT
        between /= between.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-30)[:, None, None]
        twice = between @ between
        for _ in range(passes - 1):
            basis = torch.linalg.qr(twice @ basis).Q
        values, vectors = torch.linalg.eigh(basis.mT @ (between @ basis))
        directions: Tensor = points.mT @ (basis @ vectors.flip(2)[..., :rank])
        is_rounding = values.flip(1)[:, None, :rank] <= 1e-6  # of the sum of all
        return torch.where(is_rounding, 0.0, directions / directions.norm(dim=1, keepdim=True).clamp_min(1e-30))
    for _ in range(passes):
        basis = torch.linalg.qr(points.mT @ (points @ basis)).Q
    projected = points @ basis
    _, vectors = torch.linalg.eigh(projected.mT @ projected)  # in ascending order
    directions = basis @ vectors.flip(2)[..., :rank]
    return directions
