"""Clusters of clients by their embeddings, cut from one Ward tree (Prigent et al., section IV and algorithm 2).

Two ways to cut the tree:

* ``bayes``: the authors' search over thresholds, kept as it is so that their results can be reproduced.
* ``exact``: every cut is scored; each further cluster must explain more of the sum of squares than a random division of
  a cluster does.

The noise level is the height that the tree would have if there were nothing to separate inside clusters. Clusters are
sought from one upwards until no further split rises above the level; where the first does not, there is nothing to
separate, and the result is one cluster.

A cluster has at least `min_size` clients. For ``bayes`` a cut with any smaller cluster is not admissible. For ``exact``
only a merge of two parts of that size or more divides a cluster; what comes off it in smaller pieces joins
the cluster with the nearest mean. So does, until nothing changes, every other client (k-means started from the
clusters): a tree cannot take a merge back, and with many flips some early ones are wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import euclidean_distances
from torch import Tensor

from fedkin.clustering.matching import renumbered
from fedkin.core.seeds import draw_seed

Mode = Literal["bayes", "exact"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Clustering:
    """Clusters of clients, and the tree cut that they come from.

    `labels` are int64 ``(n,)``, in order of first appearance; all are 0 if nothing is `separable`. `cut` is the height
    at which the tree was cut, in the units of Euclidean distance times the square root of cluster sizes (SciPy's
    convention); ``None`` if it was not cut. `heights` are the greatest merge heights, greatest first, at most 40.
    `noise` is the noise level at the last number of clusters tried, if there is one.
    """

    labels: Tensor
    separable: bool
    cut: float | None
    heights: list[float]
    noise: float | None = None


def cluster(
    points: Tensor, mode: Mode, min_size: int, rng: torch.Generator, *, flips: float | None = None
) -> Clustering:
    """Cluster clients by their embeddings, with a Ward tree; `mode` is explained in the module.

    `points` ``(n, d)`` are bits of 0 and 1 (any dtype), or other finite numbers. If n is below twice `min_size`, the
    result is one cluster. `rng` draws the permutations; the search of ``bayes`` has the authors' fixed seed. A tree of
    10,000 points takes 1.6 GB, of twice as many four times as much. `flips`, in [0, 0.5], is given if points are bits
    with equal flips for all: variance that flips do not cause is the clients' own.
    """
    bits = bool(((points == 0) | (points == 1)).all())
    x: Any = points.detach().cpu().numpy().astype(np.float32 if bits else np.float64)
    if not bits:
        x = x - x.mean(0)  # distances by products lose digits far from the origin
    if len(x) < max(2, 2 * min_size):
        return Clustering(torch.zeros(len(x), dtype=torch.int64), False, None, [])
    tree = ward_tree(x)
    return _searched(tree, min_size) if mode == "bayes" else _above_noise(x, tree, min_size, flips, rng)


def clustering_of(tree: Tree, labels: Integers | None, cut: float | None, noise: float | None = None) -> Clustering:
    """Return the `Clustering` of these labels, or of one cluster if there are none."""
    numbers = [0] * tree.leaves if labels is None else renumbered(labels.tolist())
    return Clustering(torch.tensor(numbers), labels is not None, cut, reported(tree.heights), noise)


def reported(heights: Floats) -> list[float]:
    """Return the greatest of ascending `heights`, greatest first, at most 40."""
    return [float(height) for height in heights[::-1][:40]]


def cut_tree(distances: Tensor, method: str, threshold: float | None) -> tuple[Tensor, float | None, list[float]]:
    """Cut the tree of `distances` ``(n, n)`` at height `threshold`, or in the middle of the widest gap of its heights.

    `method` is one of SciPy's linkages. Return the labels, int64 ``(n,)`` in order of first appearance; the height of
    the cut, ``None`` if there are too few points for a gap; and the greatest heights, greatest first, at most 40.
    """
    if len(distances) < 2:
        return torch.zeros(len(distances), dtype=torch.int64), threshold, []
    tree = linkage(squareform(distances.numpy(), checks=False), method)
    heights = tree[:, 2]
    if threshold is None:
        gaps = ((upper - lower, (lower + upper) / 2) for lower, upper in pairwise(heights.tolist()))
        gap, middle = max(gaps, default=(0, 0), key=itemgetter(0))
        threshold = middle if gap > 0 else None
    labels = [0] * len(distances) if threshold is None else fcluster(tree, threshold, criterion="distance").tolist()
    return torch.tensor(renumbered(labels)), threshold, reported(heights)


# Exact: above the noise.


def _above_noise(x: Any, tree: Tree, min_size: int, flips: float | None, rng: torch.Generator) -> Clustering:
    splits = tree.splits(min_size)
    heights = tree.heights[splits]
    draws = np.random.default_rng(draw_seed(rng))
    labels = np.zeros(len(x), dtype=np.int64)
    count = 0  # splits so far

    def split(count: int) -> Integers:
        return refined(x, joined(x, tree.labels_after(splits[:count], min_size)), min_size)

    while True:
        finer = split(count + 1) if count < len(splits) else labels
        level = max(noise_level(x, labels, finer, flips, draws), 1e-6 * float(tree.heights[-1]))
        above = int((heights > level).sum())
        if above <= count:
            break
        count = above
        labels = split(count)
    if not count:
        return clustering_of(tree, None, None, level)
    upper = float(heights[count - 1])
    lower = float(heights[count]) if count < len(heights) else min(level, upper)
    return clustering_of(tree, split(count), (upper + lower) / 2, level)


OWN_VARIANCE = 0.8  # added factor of the clients' own variance, in which columns are not independent, in the noise
MARGIN = 1.02  # factor of a noise level, as few draws miss the greatest height
_NOISE_SAMPLE = 500  # clients whose permuted embeddings are clustered, at most


def noise_level(x: Any, labels: Integers, finer: Integers, flips: float | None, draws: np.random.Generator) -> float:
    """Return the greatest height that a Ward tree would have if columns were independent inside clusters.

    It is the greatest height of Ward trees of the same points after every column was permuted inside of each cluster.
    Clients of one cluster also differ in ways that are not independent between columns; that part of their variance,
    all that flips do not cause, is multiplied by 1.8.

    For more than 500 clients the trees are those of a sample of 500, and the level is extrapolated by a power law in
    the number of clients, fitted to the growth of the mean height from a quarter of the sample to all of it.

    `labels` ``(n,)`` in ``0..k-1`` are the clusters of the points ``(n, d)`` found so far. `finer` are those after the
    next split, in which the clients' own variance is measured: before the split, the variance that it explains would
    count as noise. `flips` is the probability of a flip; if None, as for embeddings other than bits, all variance is
    taken to be the clients' own.
    """
    n = len(x)
    rows = draws.permutation(n)[:_NOISE_SAMPLE] if n > _NOISE_SAMPLE else np.arange(n)
    times = 20 if n <= 250 else 5  # heights of more clients vary less
    heights = _permuted_heights(x, labels, rows, times, draws)
    level = max(heights)
    if n > _NOISE_SAMPLE and level > 0:
        lower = _permuted_heights(x, labels, draws.permutation(rows)[: _NOISE_SAMPLE // 4], times, draws)
        if min(lower) > 0:
            power = np.log(np.mean(heights) / np.mean(lower)) / np.log(4)
            level *= (n / _NOISE_SAMPLE) ** (max(0.0, power) + 0.03)  # the exponent itself grows with n
    inside = _residuals(x[rows], finer[rows])
    variance = float((inside**2).sum() / max(1, len(inside) - len(np.unique(finer[rows]))) / inside.shape[1])
    fraction = 1.0 if flips is None or variance == 0 else float(np.clip(1 - flips * (1 - flips) / variance, 0, 1))
    return float(MARGIN * level * np.sqrt(1 + OWN_VARIANCE * fraction))


def _residuals(x: Any, labels: Integers) -> Floats:
    residuals: Floats = x.astype(np.float64)
    for number in np.unique(labels):
        residuals[labels == number] -= residuals[labels == number].mean(0)
    return residuals


def _permuted_heights(x: Any, labels: Integers, rows: Any, times: int, draws: np.random.Generator) -> list[float]:
    """Return heights of Ward trees of the points at `rows`, whose columns are permuted inside of each cluster."""
    inside, labels = _residuals(x[rows], labels[rows]), labels[rows]
    heights = []
    for _ in range(times):
        shuffled = inside.astype(np.float32)
        for number in np.unique(labels):
            shuffled[labels == number] = draws.permuted(shuffled[labels == number], axis=0)
        heights.append(top_height(shuffled))
    return heights


# Bayes: the threshold is searched by a Gaussian process, as in the authors' code (algorithm 2).


def _searched(tree: Tree, min_size: int) -> Clustering:
    """Return the best admissible cut that the search tried, of thresholds from 1 to 100, the paper's.

    If none was admissible, there is one cluster. The authors' code then takes the first threshold, whatever its
    clusters. It also does so if the index of all admissible cuts is above 500, as with many clients and few flips: the
    score of -500 that it gives to cuts that are not admissible is then higher.
    """
    scores = admissible(tree, min_size)

    def merges(threshold: float) -> int:
        return int(np.searchsorted(tree.heights, threshold, side="left"))  # scikit-learn merges below the threshold

    tried = _tried_thresholds(lambda threshold: float(np.nan_to_num(scores[merges(threshold)], nan=-500.0)))
    results = [scores[merges(threshold)] for threshold in tried]
    if np.isnan(results).all():
        return clustering_of(tree, None, None)
    best = tried[int(np.nanargmax(results))]
    return clustering_of(tree, tree.labels(merges(best)), best)


def admissible(tree: Tree, min_size: int) -> Floats:
    """Return minus the Calinski-Harabasz index of every cut of a tree, NaN for cuts that are not admissible.

    A cut is not admissible if it has 2 clusters or fewer, if one is too small, or between two merges of equal height.
    """
    score = -tree.calinski_harabasz()
    score[1:-1][tree.heights[1:] == tree.heights[:-1]] = np.nan
    score[tree.too_small(min_size) > 0] = np.nan
    score[tree.leaves - np.arange(tree.leaves) <= 2] = np.nan
    return score


def _tried_thresholds(value: Callable[[float], float]) -> list[float]:
    """Return the thresholds from 1 to 100 that the authors' code tries to maximise `value`, in order.

    30 are sampled with a fixed seed, 5 chosen by the upper confidence bound of a Gaussian process.
    """
    random = np.random.RandomState(1)
    tried = [float(threshold) for threshold in random.uniform(1.0, 100.0, 30)]
    values = [value(threshold) for threshold in tried]
    for _ in range(5):
        tried.append(_most_promising(tried, values, random))
        values.append(value(tried[-1]))
    return tried


def _most_promising(tried: list[float], values: list[float], random: np.random.RandomState) -> float:
    """Return the threshold with the greatest upper confidence bound (2.576 sigma) of a Gaussian process."""
    process = GaussianProcessRegressor(
        Matern(nu=2.5), alpha=1e-6, normalize_y=True, n_restarts_optimizer=5, random_state=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound, where all values are alike
        process.fit(np.array(tried)[:, None], np.array(values))

        def bound(thresholds: Any) -> Floats:
            mean, std = process.predict(np.reshape(thresholds, (-1, 1)), return_std=True)
            return np.asarray(mean + 2.576 * std)

        draws = random.uniform(1.0, 100.0, 10_000)
        bounds = bound(draws)
        best, highest = float(draws[bounds.argmax()]), float(bounds.max())
        for start in random.uniform(1.0, 100.0, 10):
            climb: Any = optimize.minimize(
                lambda threshold: -float(bound(threshold)[0]),
                np.array([start]),
                bounds=[(1.0, 100.0)],
                method="L-BFGS-B",
            )
            if climb.success and -climb.fun > highest:
                best, highest = float(np.clip(climb.x[0], 1.0, 100.0)), float(-climb.fun)
    return best


# The Ward tree, which is SciPy's, and what is read off it: sums of squares, cluster sizes, splits, cuts.


@dataclass(frozen=True)
class Tree:
    """Ward tree, whose leaves are points.

    `merges`, int64 ``(leaves - 1, 2)``, are nodes that merge, lowest merge first; nodes below ``leaves`` are leaves,
    and merge i makes node ``leaves + i``. `heights`, float64 ``(leaves - 1,)``, do not decrease, and are in SciPy's
    convention: a merge at height h adds h^2 / 2 to the sum of squares inside clusters. `sizes`, int64 ``(2 leaves -
    1,)``, are the points of every node.
    """

    merges: Integers
    heights: Floats
    sizes: Integers

    @property
    def leaves(self) -> int:
        return len(self.heights) + 1

    def calinski_harabasz(self) -> Floats:
        """Return the Calinski-Harabasz index of every cut, ``(leaves,)``, entry i for ``leaves - i`` clusters.

        As in scikit-learn it is 1 where clusters have no spread. It is NaN for one cluster and for n, where it is not
        defined.
        """
        within = np.concatenate([[0.0], np.cumsum(self.heights**2 / 2)])  # sums of squares after the first i merges
        n = self.leaves
        clusters = n - np.arange(n)
        with np.errstate(divide="ignore", invalid="ignore"):
            index = (within[-1] - within) / (clusters - 1) / (within / (n - clusters))
        index[within == 0.0] = 1.0
        index[(clusters < 2) | (clusters >= n)] = np.nan
        return np.asarray(index)

    def too_small(self, min_size: int) -> Integers:
        """Count the clusters of every cut with fewer than `min_size` points; entries as in `calinski_harabasz`."""
        small = (self.sizes < min_size).astype(np.int64)
        change = small[self.leaves :] - small[self.merges].sum(1)
        return np.asarray(np.concatenate([[0], np.cumsum(change)]) + small[: self.leaves].sum())

    def labels(self, done: int) -> Integers:
        """Return the clusters ``(n,)`` of the points after the first `done` merges."""
        above = self._parents()
        above[above >= self.leaves + done] = -1
        return self._gathered(above)

    def splits(self, min_size: int) -> Integers:
        """Return the merges of two nodes that both have `min_size` points or more, largest height first.

        Read from the top, clusters divide at these; every other merge only splits off points too few for a cluster.
        """
        stand = (self.sizes[self.merges] >= min_size).all(1)
        return np.flatnonzero(stand)[::-1]

    def labels_after(self, splits: Integers, min_size: int) -> Integers:
        """Return the clusters ``(n,)`` after `splits`, the first of `Tree.splits`; there is one more than splits.

        Points that leave a cluster in pieces below `min_size`, on the way down to a split, have -1.
        """
        broken = np.zeros(2 * self.leaves - 1, dtype=bool)  # a split is here or below
        broken[self.leaves + splits] = True
        for merge in range(self.leaves - 1):
            broken[self.leaves + merge] |= broken[self.merges[merge]].any()
        above = self._parents()
        above[broken[above]] = -1
        found = self._gathered(above)
        return np.where(np.bincount(found)[found] >= min_size, found, -1)

    def _parents(self) -> Integers:
        above = np.full(2 * self.leaves - 1, -1, dtype=np.int64)
        above[self.merges] = (self.leaves + np.arange(self.leaves - 1))[:, None]
        return above

    def _gathered(self, above: Integers) -> Integers:
        """Return the topmost node above every point, renumbered; `above` is each node's parent, -1 at topmost nodes."""
        top = np.arange(len(above))
        for node in range(len(above) - 1, -1, -1):
            if above[node] >= 0:
                top[node] = top[above[node]]
        return np.unique(top[: self.leaves], return_inverse=True)[1].astype(np.int64)


def ward_tree(points: NDArray[np.float32] | Floats) -> Tree:
    """Build the Ward tree of `points` ``(n, d)``, n at least 2.

    Memory is that of n squared distances in double precision and half as many twice: 1.6 GB at 10,000 points.
    """
    found = _linkage(points)
    sizes = np.concatenate([np.ones(len(points)), found[:, 3]]).astype(np.int64)
    return Tree(found[:, :2].astype(np.int64), found[:, 2].copy(), sizes)


def top_height(points: NDArray[np.float32] | Floats) -> float:
    """Return the height of the last merge of the Ward tree of `points`."""
    return float(_linkage(points)[-1, 2])


def _linkage(points: NDArray[np.float32] | Floats) -> Floats:
    # By matrix products, which take a small part of the time of SciPy's distances, and are exact for bits.
    distances = euclidean_distances(points.astype(np.float64))
    return np.asarray(linkage(squareform(distances, checks=False), "ward"))


# Clusters of a tree are corrected: it cannot take a merge back.


def _means(x: Any, labels: Integers) -> Floats:
    clusters = int(labels.max()) + 1
    return np.stack([x[labels == number].mean(0, dtype=np.float64) for number in range(clusters)])


def _nearest(x: Any, means: Floats) -> Integers:
    """Return the cluster with the nearest mean; ties: the lowest."""
    return np.asarray(((means**2).sum(1) - 2 * (x @ means.T)).argmin(1), dtype=np.int64)


def joined(x: Any, labels: Integers) -> Integers:
    """Renumber `labels` to 0..k-1, and assign points of no cluster (-1) to the nearest mean."""
    known = labels >= 0
    found = np.full(len(labels), -1, dtype=np.int64)
    found[known] = np.unique(labels[known], return_inverse=True)[1]
    if not known.all():
        found[~known] = _nearest(x[~known], _means(x[known], found[known]))
    return found


def refined(x: Any, labels: Integers, min_size: int) -> Integers:
    """Run k-means from `labels`, as long as no cluster falls below `min_size`."""
    for _ in range(50):  # it nearly always ends before
        moved = _nearest(x, _means(x, labels))
        if (moved == labels).all() or np.bincount(moved, minlength=int(labels.max()) + 1).min() < max(1, min_size):
            break
        labels = moved
    return labels
