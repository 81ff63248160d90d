"""Scores of labels against the truth.

Scores of clusterings do not depend on how clusters are numbered; `accuracy` and `macro_f1` are for classifiers, whose
labels mean the same as the true ones. `truth` and `labels` are array-likes of int ``(n,)``. All raise a `FedkinError`
if these are empty, not integers, or differ in length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    completeness_score,
    homogeneity_score,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix

from fedkin.core.errors import FedkinError

Labels = NDArray[np.int64]


def clustering_accuracy(truth: ArrayLike, labels: ArrayLike) -> float:
    """Clustering accuracy (ACC): part of the samples with the right class under the best one-to-one matching.

    It is in (0, 1]. There may be more or fewer clusters than classes; samples of a cluster that is left without a
    class, or of a class left without a cluster, count as wrong.
    """
    table, rows, columns = _matched(truth, labels)
    return float(table[rows, columns].sum() / table.sum())


def match_labels(truth: ArrayLike, labels: ArrayLike) -> dict[int, int]:
    """Return the class that each cluster stands for under the best one-to-one matching.

    Clusters and classes are matched one to one so that as many samples as possible are right; a cluster that is left
    over stands for the class most frequent in it (the smallest such class on ties).
    """
    table, rows, columns = _matched(truth, labels)
    chosen = table.argmax(axis=0)
    chosen[columns] = rows
    classes, clusters = map(np.unique, _pair(truth, labels))
    return dict(zip(clusters.tolist(), classes[chosen].tolist(), strict=True))


def cohen_kappa(truth: ArrayLike, labels: ArrayLike) -> float:
    """Cohen's kappa between classes and clusters under the best one-to-one matching: at most 1, 0 by chance.

    Clusters and classes are matched as in `clustering_accuracy`. Samples of a cluster that is left without a class are
    wrong, as in the code of the papers that report it, so that splitting a class costs something.
    """
    table, rows, columns = _matched(truth, labels)
    total = float(table.sum())
    observed = float(table[rows, columns].sum()) / total
    expected = float((table.sum(axis=1)[rows] / total) @ (table.sum(axis=0)[columns] / total))
    return 1.0 if expected == 1.0 else (observed - expected) / (1.0 - expected)


def adjusted_rand(truth: ArrayLike, labels: ArrayLike) -> float:
    """Adjusted Rand index, in [-0.5, 1]: 1 for the same partition, 0 in expectation for a random one."""
    return float(adjusted_rand_score(*_pair(truth, labels)))


def normalized_mutual_information(truth: ArrayLike, labels: ArrayLike) -> float:
    """Normalised mutual information (NMI): MI over the arithmetic mean of the two entropies, in [0, 1]."""
    return float(min(1.0, normalized_mutual_info_score(*_pair(truth, labels))))


def adjusted_mutual_information(truth: ArrayLike, labels: ArrayLike) -> float:
    """Adjusted mutual information (AMI), at most 1: (MI - E) / (mean entropy - E), where E is the MI by chance."""
    return float(min(1.0, adjusted_mutual_info_score(*_pair(truth, labels))))


def homogeneity(truth: ArrayLike, labels: ArrayLike) -> float:
    """Homogeneity: how far each cluster holds one class only, in [0, 1]; splitting a class is not punished."""
    return float(np.clip(homogeneity_score(*_pair(truth, labels)), 0.0, 1.0))


def completeness(truth: ArrayLike, labels: ArrayLike) -> float:
    """Completeness: how far each class lies in one cluster only, in [0, 1]; merging classes is not punished."""
    return float(np.clip(completeness_score(*_pair(truth, labels)), 0.0, 1.0))


def purity(truth: ArrayLike, labels: ArrayLike) -> float:
    """Purity, in (0, 1]: fraction of samples that belong to the most frequent class of their cluster.

    Several clusters may stand for one class. It is how the paper behind `gradient-loss` judges clusters of clients.
    """
    table = contingency_matrix(*_pair(truth, labels))
    return float(table.max(axis=0).sum() / table.sum())


def accuracy(truth: ArrayLike, labels: ArrayLike) -> float:
    """Accuracy: fraction of samples whose label is their class, in [0, 1]."""
    true, found = _pair(truth, labels)
    return float(np.mean(true == found))


def macro_f1(truth: ArrayLike, labels: ArrayLike) -> float:
    """Macro F1: mean F1 of all classes that occur in the truth or among the labels.

    As scikit-learn's macro average, a twentieth of its time: a class that is predicted but never true counts as 0.

    Returns
    -------
    float
        In [0, 1].
    """
    true, found = _pair(truth, labels)
    names, codes = np.unique(np.concatenate([true, found]), return_inverse=True)
    true, found = codes[: len(true)], codes[len(true) :]
    hits = np.bincount(true[true == found], minlength=len(names))
    return float(np.mean(2 * hits / np.bincount(codes)))


def pooled(per_client: Sequence[ArrayLike]) -> Labels:
    """Concatenate the labels of all clients to one int64 array, clients in order.

    The same number means the same cluster everywhere. Raises FedkinError without clients.
    """
    if not per_client:
        raise FedkinError("There are no clients to pool labels of.")
    return np.concatenate([_integers(f"client {index}", labels) for index, labels in enumerate(per_client)])


def _matched(truth: ArrayLike, labels: ArrayLike) -> tuple[Labels, Labels, Labels]:
    """Return the contingency table of classes and clusters, and which of them match, by position."""
    table: Labels = np.asarray(contingency_matrix(*_pair(truth, labels)), dtype=np.int64)
    return table, *linear_sum_assignment(table, maximize=True)


def _pair(truth: ArrayLike, labels: ArrayLike) -> tuple[Labels, Labels]:
    true, found = _integers("truth", truth), _integers("labels", labels)
    if len(true) != len(found) or len(true) == 0:
        raise FedkinError(
            f"Truth and labels have {len(true)} and {len(found)} samples; they need the same number, at least 1."
        )
    return true, found


def _integers(name: str, values: ArrayLike) -> Labels:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise FedkinError(
            f"Labels of {name} are {array.dtype} of shape {array.shape}; they must be a 1-D array of integers."
        )
    return array.astype(np.int64)
