"""Ward tree of points, and what is read off it: sums of squares, cluster sizes, splits, cuts, and the nearest means.

The tree itself is SciPy's (`scipy.cluster.hierarchy`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import euclidean_distances

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
