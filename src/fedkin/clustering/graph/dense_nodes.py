"""Density clustering of micro-clusters in two or three dimensions, where communities are only stretches of a sheet.

Long and bent clusters have no resolution at which their communities are stable. HDBSCAN finds them by the gaps between
them, and calls points in no cluster noise. In a single cloud, where it finds clusters too, most points are noise or one
of the clusters is tiny.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN
from torch import Tensor

from fedkin.clustering.nearest import nearest_centroids

_PER_DIMENSION = 10
"""Density tells nothing where there are no more nodes than this for every dimension."""

_MIN_NODES, _NEAREST = 4, 3
"""Minimum number of nodes in a cluster, or the cube root of all nodes if that is more; and the number of nearest nodes,
itself included, that tell the density at a node."""

_MAX_NOISE, _MIN_SHARE = 0.15, 0.05
"""Maximum fraction of samples that are noise, and minimum fraction in every cluster."""


def density_clusters(points: Tensor, counts: Tensor) -> NDArray[np.int64] | None:
    """Cluster nodes by HDBSCAN (Campello et al. 2013) if it finds two clusters or more, and none by chance.

    Afterwards noise joins the cluster of the nearest point that is none. `points` are float64 ``(m, d)``, and `counts`,
    float64 ``(m,)``, the samples of each. Clusters are int64 ``(m,)``, from 0; ``None`` if there is one cluster, one
    has less than 5 % of the samples, more than 15 % are noise, or there is one dimension or at most ten points for
    each.
    """
    if points.shape[1] == 1 or len(points) <= _PER_DIMENSION * points.shape[1]:
        return None
    smallest = max(_MIN_NODES, round(len(points) ** (1 / 3)))
    dense = HDBSCAN(min_cluster_size=smallest, min_samples=_NEAREST, copy=True)
    labels: NDArray[np.int64] = dense.fit_predict(points.numpy()).astype(np.int64)
    inside, size = labels >= 0, counts.numpy()
    if labels.max() < 1 or size[~inside].sum() > _MAX_NOISE * size.sum():
        return None
    if np.bincount(labels[inside], weights=size[inside]).min() < _MIN_SHARE * size.sum():
        return None
    labels[~inside] = labels[inside][nearest_centroids(points[~inside], points[inside])]
    return labels
