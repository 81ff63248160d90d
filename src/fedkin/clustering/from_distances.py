"""Ways to cluster clients by a matrix of distances between their updates; the clustering itself is scikit-learn's."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import torch
from sklearn.cluster import HDBSCAN, AffinityPropagation, KMeans, MeanShift, estimate_bandwidth
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.core.seeds import draw_seed

Clusterer = Literal["hdbscan", "meanshift", "affinity", "kmeans"]
Similarity = Literal["corrected", "paper"]
Noise = Literal["cluster", "nearest"]


def kmeans(distances: Tensor, n_clusters: int, rng: torch.Generator) -> list[int]:
    """k-means on the rows of the matrix: clients are alike if they are as far from everyone as each other."""
    search = KMeans(min(n_clusters, len(distances)), n_init=10, random_state=draw_seed(rng))
    # On one thread, for sums over several depend on which is first.
    with warnings.catch_warnings(), threadpool_limits(1, user_api="openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # that fewer rows than clusters differ
        return _plain(search.fit_predict(distances.numpy()))


def meanshift(distances: Tensor) -> list[int]:
    """Mean shift on the rows of the matrix, its bandwidth from the 0.3 quantile of their distances.

    Of six rows or fewer that quantile is the row itself, at distance 0, so that these are one cluster.
    """
    rows = distances.numpy()
    bandwidth = estimate_bandwidth(rows, quantile=0.3)
    if bandwidth <= 0:  # too few rows, or within that quantile no two differ: nothing to shift
        return [0] * len(rows)
    return _plain(MeanShift(bandwidth=bandwidth).fit_predict(rows))


def affinity(distances: Tensor, similarity: Similarity, rng: torch.Generator) -> list[int]:
    """Affinity propagation, damping 0.5, the median similarity as preference.

    "corrected" propagates minus the distances. "paper" hands the distances over as if they were similarities, as the
    authors' code does, so that clients seek those least like them. Where it does not converge, clusters are those of its
    last iteration, and all are one if that has no exemplar.
    """
    given = -distances if similarity == "corrected" else distances
    search = AffinityPropagation(affinity="precomputed", random_state=draw_seed(rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it does not converge, or that all are equally alike
        labels = search.fit_predict(given.numpy())
    return _plain(np.maximum(labels, 0))


def hdbscan(distances: Tensor, share: float, noise: Noise) -> list[int]:
    """HDBSCAN on the distances; no cluster smaller than `share` of the clients, nor than 2.

    Clients it calls noise become one cluster of their own, as in the paper, or ("nearest") join the cluster whose members
    are nearest on average. If all are noise, they are one cluster.
    """
    size = max(2, round(share * len(distances)))
    if len(distances) < size:
        return [0] * len(distances)
    labels = np.asarray(HDBSCAN(min_cluster_size=size, metric="precomputed", copy=True).fit_predict(distances.numpy()))
    clusters = np.unique(labels[labels >= 0])
    if not len(clusters):
        return [0] * len(labels)
    lone = labels < 0
    if noise == "cluster":
        return _plain(np.where(lone, len(clusters), labels))
    means = np.stack([distances.numpy()[:, labels == cluster].mean(1) for cluster in clusters], axis=1)
    return _plain(np.where(lone, clusters[means.argmin(1)], labels))


def _plain(labels: Any) -> list[int]:
    return [int(label) for label in labels]
