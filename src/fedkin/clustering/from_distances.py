"""Clustering of a matrix of distances by scikit-learn's and SciPy's algorithms."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import HDBSCAN, AffinityPropagation, MeanShift, estimate_bandwidth
from sklearn.metrics import silhouette_score
from torch import Tensor

from fedkin.clustering.matching import renumbered
from fedkin.core.seeds import draw_seed

Clusterer = Literal["hdbscan", "meanshift", "affinity", "kmeans", "linkage"]
Similarity = Literal["corrected", "paper"]
Labels = NDArray[np.int64]


def meanshift(distances: Tensor) -> Labels:
    """Cluster the rows of a distance matrix by mean shift, its bandwidth from the 0.3 quantile of their distances.

    Of six rows or fewer that quantile is the row itself, at distance 0, so that these are one cluster.
    """
    rows = distances.numpy()
    bandwidth = estimate_bandwidth(rows, quantile=0.3)
    if bandwidth <= 0:  # too few rows, or within that quantile no two differ: nothing to shift
        return np.zeros(len(rows), dtype=np.int64)
    return np.asarray(MeanShift(bandwidth=bandwidth).fit_predict(rows))


def affinity(distances: Tensor, similarity: Similarity, rng: torch.Generator) -> Labels:
    """Cluster by affinity propagation, damping 0.5, the median similarity as preference.

    "corrected" propagates the negative distances. "paper" passes the distances as if they were similarities, as OCFL's
    authors' code does, so that each seeks those most unlike it. Without convergence, clusters are those of the last
    iteration, or a single one if that has no exemplar.
    """
    given = -distances if similarity == "corrected" else distances
    search = AffinityPropagation(affinity="precomputed", random_state=draw_seed(rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it does not converge, or that all are equally alike
        labels = search.fit_predict(given.numpy())
    return np.asarray(np.maximum(labels, 0))


def hdbscan(distances: Tensor) -> Labels:
    """Cluster by HDBSCAN, as in OCFL's paper; no cluster is smaller than a fifth of the rows, nor than 2.

    Rows that it calls noise become one cluster of their own.
    """
    size = max(2, round(0.2 * len(distances)))
    if len(distances) < size:
        return np.zeros(len(distances), dtype=np.int64)
    labels = np.asarray(HDBSCAN(min_cluster_size=size, metric="precomputed", copy=True).fit_predict(distances.numpy()))
    return np.where(labels < 0, labels.max() + 1, labels)


def average_linkage(distances: Tensor, n_clusters: int | None = None) -> Labels:
    """Cluster cosine distances by average linkage, cut into `n_clusters`, or the number of rows if these are fewer.

    Without that number, the cut is that of the greatest silhouette into 2 to 10 clusters. They are one cluster if
    clusters point the same way: the mean cosine between rows of different clusters, over that of rows of the same
    cluster, estimates the cosine of the clusters' own directions without the noise of single rows. Above 0.5, the rows
    are not divided.
    """
    n, square, whole = len(distances), distances.numpy(), np.zeros(len(distances), dtype=np.int64)
    if n < 2:
        return whole
    tree = linkage(squareform(square, checks=False), "average")
    if n_clusters is not None:
        return np.asarray(hierarchy.cut_tree(tree, min(n_clusters, n))[:, 0])
    found: dict[float, Labels] = {}
    for count in range(2, min(10, n - 1) + 1):
        labels = fcluster(tree, count, "maxclust")
        if 1 < len(np.unique(labels)) < n:
            found.setdefault(float(silhouette_score(square, labels, metric="precomputed")), labels)
    if not found:
        return whole
    best = found[max(found)]
    same = best[:, None] == best
    between, within = 1 - square[~same].mean(), 1 - square[same & ~np.eye(n, dtype=bool)].mean()
    return best - 1 if between <= 0.5 * within else whole


def cut_tree(distances: Tensor, method: str, threshold: float | None) -> Tensor:
    """Cut the tree of `distances` ``(n, n)`` at height `threshold`, or in the middle of the widest gap of its heights.

    `method` is one of SciPy's linkages. Return the labels, int64 ``(n,)`` in order of first appearance; all are 0 if
    there is no gap.
    """
    if len(distances) < 2:
        return torch.zeros(len(distances), dtype=torch.int64)
    tree = linkage(squareform(distances.numpy(), checks=False), method)
    if threshold is None:
        lower, upper = max(pairwise(tree[:, 2].tolist()), key=lambda gap: gap[1] - gap[0], default=(0.0, 0.0))
        threshold = (lower + upper) / 2 if upper > lower else np.inf
    return torch.from_numpy(renumbered(fcluster(tree, threshold, criterion="distance")))
