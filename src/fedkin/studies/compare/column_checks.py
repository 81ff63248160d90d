"""What may be wrong with clusters of a table: one column explains them, or chance does as well."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from fedkin.clustering.louvain import louvain
from fedkin.clustering.metrics import Labels
from fedkin.studies.compare.criteria import cohesion
from fedkin.studies.compare.prepared_samples import Block
from fedkin.studies.compare.spaces import Space, points_of, space_of_points

EXPLAINED, NOT_BY_OTHERS = 0.8, 0.5
"""Adjusted mutual information of clusters with those predicted from one column, at least, and from all others, at most,
where that column explains them."""
_FOLDS, _FEWEST = 3, 30
_NUMBERS = (2, 3, 4, 6, 8)
"""Numbers of clusters of the k-means on shuffled columns."""
MARGIN = 0.02
"""Cohesion by which clusters are better than chance at least."""

Numbers = NDArray[np.float64]


def explaining_column(x: Numbers, blocks: Sequence[Block], labels: Labels) -> str | None:
    """The column from which alone clusters can be predicted, while all others together cannot; ``None`` if none can.

    Predictions are of samples that the predicting tree, or trees, had not seen.

    Parameters
    ----------
    x : ndarray
        float64 ``(m, width)``.
    blocks : sequence of (str, int, int)
        Which of its columns belong to which original one; of a single one nothing is said.
    labels : ndarray
        int64 ``(m,)``: the clusters, -1 for none. Those with fewer than three samples are left out.
    """
    values, counts = np.unique(labels[labels >= 0], return_counts=True)
    known = np.isin(labels, values[counts >= _FOLDS])
    x, labels = x[known], labels[known]
    if len(blocks) < 2 or len(labels) < _FEWEST or len(np.unique(labels)) < 2:
        return None
    tree = DecisionTreeClassifier(max_leaf_nodes=max(8, 4 * len(values)), random_state=0)
    found = {name: _predictable(tree, x[:, start:end], labels) for name, start, end in blocks}
    name, start, end = max(blocks, key=lambda block: found[block[0]])
    if found[name] < EXPLAINED:
        return None
    trees = ExtraTreesClassifier(50, min_samples_leaf=3, random_state=0)
    others = _predictable(trees, np.delete(x, np.s_[start:end], axis=1), labels)
    return name if others <= NOT_BY_OTHERS else None


def _predictable(model: DecisionTreeClassifier | ExtraTreesClassifier, x: Numbers, labels: Labels) -> float:
    """Adjusted mutual information of clusters and their predictions by cross-validation."""
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    return float(adjusted_mutual_info_score(labels, cross_val_predict(model, x, labels, cv=folds)))


def chance_cohesion(x: Numbers, blocks: Sequence[Block], sizes: Sequence[int], times: int = 5) -> float:
    """Cohesion that clusters of data without structure are expected to stay below.

    The columns of `x` are shuffled independently of each other, which leaves each column's values and ends all that
    they have in common. The best clusters of k-means with several numbers, and of Louvain's method on the graph of
    neighbours, are found; returned is the mean of their cohesion over the shuffles, plus two standard deviations and
    0.02.

    Parameters
    ----------
    x : ndarray
        float64 ``(m, width)``, samples in order of client.
    blocks : sequence of (str, int, int)
        Which of its columns are shuffled together, for they come from one original column.
    sizes : sequence of int
        Samples of each client.
    times : int
        How often, at least 2.
    """
    rng = np.random.default_rng(0)
    best = []
    floors = None
    for _ in range(times):
        shuffled = x.copy()
        for _, start, end in blocks:
            shuffled[:, start:end] = x[rng.permutation(len(x)), start:end]
        points = points_of(torch.from_numpy(shuffled))
        space = space_of_points(np.arange(len(x)), points, sizes, floors)
        floors = space.floors  # hardly differ from one shuffle to the next
        best.append(_best_cohesion(space, rng))
    return mean(best) + 2 * stdev(best) + MARGIN


def _best_cohesion(space: Space, rng: np.random.Generator) -> float:
    distinct = len(np.unique(space.points, axis=0))
    numbers = [number for number in _NUMBERS if number < len(space.rows) and number <= distinct]
    found = [KMeans(number, n_init=2, random_state=0).fit_predict(space.points).astype(np.int64) for number in numbers]
    return max(cohesion(space, labels) for labels in (*found, _communities(space, rng)))


def _communities(space: Space, rng: np.random.Generator) -> Labels:
    """Communities of the graph of neighbours among all clients."""
    count, links = len(space.rows), space.links[0]
    graph = sparse.csr_matrix((np.ones(len(links.here)), (links.here, links.there)), shape=(count, count))
    return louvain(graph + graph.T, 1.0, rng)
