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
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize
from scipy.cluster.hierarchy import fcluster, linkage, maxRstat
from scipy.spatial.distance import squareform
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import calinski_harabasz_score, euclidean_distances
from torch import Tensor

from fedkin.clustering.matching import renumbered
from fedkin.core.seeds import draw_seed

Mode = Literal["bayes", "exact"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def cluster(bits: Tensor, mode: Mode, min_size: int, rng: torch.Generator, *, flips: float = 0.0) -> Tensor:
    """Cluster clients by the bits of their embeddings, with a Ward tree; `mode` is explained in the module.

    `bits` ``(n, d)`` are 0 and 1, of any dtype. `rng` draws the permutations; the search of ``bayes`` has the authors'
    fixed seed. A tree of 10,000 clients takes 1.6 GB, of twice as many four times as much. `flips`, in [0, 0.5], is the
    probability with which each was flipped: variance that flips do not cause is the clients' own.

    Return the clusters, int64 ``(n,)`` in order of first appearance; all are 0 if nothing separates them, or n is below
    twice `min_size`.
    """
    x: Any = bits.numpy().astype(np.float32)
    if len(x) < max(2, 2 * min_size):
        return torch.zeros(len(x), dtype=torch.int64)
    tree = ward_tree(x)
    labels = _searched(x, tree, min_size) if mode == "bayes" else _above_noise(x, tree, min_size, flips, rng)
    return torch.from_numpy(renumbered(labels))


# The Ward tree, and what clusters it divides into.


def ward_tree(points: NDArray[np.float32] | Floats) -> Floats:
    """Return SciPy's Ward tree of `points` ``(n, d)``, n at least 2: a row ``(4,)`` for each merge, lowest first.

    A merge at height h adds h^2 / 2 to the sum of squares inside clusters.
    """
    # By matrix products, which take a small part of the time of SciPy's distances, and are exact for bits.
    distances = euclidean_distances(points.astype(np.float64))
    return np.asarray(linkage(squareform(distances, checks=False), "ward"))


def tree_splits(tree: Floats, min_size: int) -> Integers:
    """Return the merges of two nodes that both have `min_size` points or more, largest height first.

    Read from the top, clusters divide at these; every other merge only splits off points too few for a cluster.
    """
    sizes = np.concatenate([np.ones(len(tree) + 1), tree[:, 3]])
    return np.flatnonzero((sizes[tree[:, :2].astype(np.int64)] >= min_size).all(1))[::-1]


def divided(x: Any, tree: Floats, splits: Integers, min_size: int) -> Integers:
    """Return the clusters 0..k-1 ``(n,)`` of points after `splits`, the first of `tree_splits`, which are k - 1.

    Pieces below `min_size` that come off on the way down join the cluster with the nearest mean. Then k-means corrects
    the clusters, as long as none falls below `min_size`.
    """
    marks = np.zeros((len(tree), 4))
    marks[splits, 0] = 1.0
    parts = fcluster(tree, 0.5, "monocrit", monocrit=maxRstat(tree, marks, 0))  # nodes with no split in them
    large = np.bincount(parts)[parts] >= min_size
    inside = np.unique(parts[large], return_inverse=True)[1]
    labels = _nearest(x, _means(x[large], inside))
    labels[large] = inside
    for _ in range(50):  # it nearly always ends before
        moved = _nearest(x, _means(x, labels))
        if (moved == labels).all() or np.bincount(moved, minlength=len(splits) + 1).min() < max(1, min_size):
            break
        labels = moved
    return labels


def _means(x: Any, labels: Integers) -> Floats:
    clusters = int(labels.max()) + 1
    return np.stack([x[labels == number].mean(0, dtype=np.float64) for number in range(clusters)])


def _nearest(x: Any, means: Floats) -> Integers:
    """Return the cluster with the nearest mean; ties: the lowest."""
    return np.asarray(((means**2).sum(1) - 2 * (x @ means.T)).argmin(1), dtype=np.int64)


# Exact: above the noise.


def _above_noise(x: Any, tree: Floats, min_size: int, flips: float, rng: torch.Generator) -> Integers:
    splits = tree_splits(tree, min_size)
    heights = tree[splits, 2]
    draws = np.random.default_rng(draw_seed(rng))
    labels = np.zeros(len(x), dtype=np.int64)
    count = 0  # splits so far
    while True:
        finer = divided(x, tree, splits[: count + 1], min_size) if count < len(splits) else labels
        level = max(noise_level(x, labels, finer, flips, draws), 1e-6 * float(tree[-1, 2]))
        above = int((heights > level).sum())
        if above <= count:
            return labels
        count = above
        labels = divided(x, tree, splits[:count], min_size)


OWN_VARIANCE = 0.8  # added factor of the clients' own variance, in which columns are not independent, in the noise
MARGIN = 1.02  # factor of a noise level, as few draws miss the greatest height
_NOISE_SAMPLE = 500  # clients whose permuted embeddings are clustered, at most


def noise_level(x: Any, labels: Integers, finer: Integers, flips: float, draws: np.random.Generator) -> float:
    """Return the greatest height that a Ward tree would have if columns were independent inside clusters.

    It is the greatest height of Ward trees of the same points after every column was permuted inside of each cluster.
    Clients of one cluster also differ in ways that are not independent between columns; that part of their variance,
    all that flips do not cause, is multiplied by 1.8.

    For more than 500 clients the trees are those of a sample of 500, and the level is extrapolated by a power law in
    the number of clients, fitted to the growth of the mean height from a quarter of the sample to all of it.

    `labels` ``(n,)`` in ``0..k-1`` are the clusters of the points ``(n, d)`` found so far. `finer` are those after the
    next split, in which the clients' own variance is measured: before the split, the variance that it explains would
    count as noise. `flips` is the probability of a flip.
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
    fraction = 1.0 if variance == 0 else float(np.clip(1 - flips * (1 - flips) / variance, 0, 1))
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
        heights.append(float(ward_tree(shuffled)[-1, 2]))
    return heights


# Bayes: the threshold is searched by a Gaussian process, as in the authors' code (algorithm 2).


def _searched(x: Any, tree: Floats, min_size: int) -> Integers:
    """Return the best admissible cut that the search tried, of thresholds from 1 to 100, the paper's.

    A cut is admissible if it has more than 2 clusters, and none below `min_size`; the best has the least
    Calinski-Harabasz index. If none was admissible, there is one cluster. The authors' code then takes the first
    threshold, whatever its clusters. It also does so if the index of all admissible cuts is above 500, as with many
    clients and few flips: the score of -500 that it gives to cuts that are not admissible is then higher.
    """
    scores: dict[float, float] = {}

    def labels_at(threshold: float) -> Integers:
        merged_below = np.nextafter(threshold, 0)  # scikit-learn, which the authors use, leaves a merge at it out
        return np.asarray(fcluster(tree, merged_below, "distance"), dtype=np.int64)

    def score(threshold: float) -> float:
        labels = labels_at(threshold)
        sizes = np.bincount(labels)[1:]
        if not 2 < len(sizes) < len(x) or sizes.min() < min_size:
            return -500.0
        scores[threshold] = -float(calinski_harabasz_score(x, labels))
        return scores[threshold]

    _search_thresholds(score)
    return labels_at(max(scores, key=scores.__getitem__)) if scores else np.zeros(len(x), dtype=np.int64)


def _search_thresholds(value: Callable[[float], float]) -> None:
    """Try the thresholds from 1 to 100 that the authors' code tries: 30 by a fixed seed, 5 by a Gaussian process."""
    random = np.random.RandomState(1)
    tried = [float(threshold) for threshold in random.uniform(1.0, 100.0, 30)]
    values = [value(threshold) for threshold in tried]
    for _ in range(5):
        tried.append(_most_promising(tried, values, random))
        values.append(value(tried[-1]))


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
