"""Initial clustering of one client's samples into local clusters, which federated methods then refine.

``embedding`` maps the samples to the plane (t-SNE, stopped during its early exaggeration, which keeps clusters compact)
and cuts the tree of Ward's method over that map. It follows curved clusters that k-means on pixels splits. If the
number of clusters is not given, it is estimated from the same tree.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.core.seeds import draw_seed
from fedkin.nn.deep_clustering import DeepEmbeddedClustering

SampleMatrix = NDArray[np.float32]
ClusterLabels = NDArray[np.int64]

PERPLEXITY = 10
SAMPLES_PER_CLUSTER = 5
"""Minimum, where the number of clusters is estimated."""


def initial_labels(x: Tensor, how: str, n_clusters: int | None, rng: torch.Generator, max_clusters: int = 10) -> Tensor:
    """Cluster one client's samples ``(n, ...)``, n >= 1, into local clusters; return labels ``0..k-1``, none empty.

    Three samples or fewer, and identical samples, are one cluster. `how` is ``"embedding"``, Ward's method on a map of
    neighbours; ``"kmeans"``, on principal components; or ``"dec"``, Deep Embedded Clustering, which may end with fewer
    clusters than asked for. `n_clusters` is at most the number of distinct samples. ``None`` estimates it from the map:
    a merge of Ward's tree joins two clusters if it is taller than 0.3 of the tallest and both have at least 5 samples.
    The estimate is 2 or more unless samples are very few, at most `max_clusters`, and tends to be too low above six.
    """
    rows = x.detach().flatten(1).numpy()
    limit = min(max_clusters, len(rows) // SAMPLES_PER_CLUSTER) if n_clusters is None else n_clusters
    limit = min(limit, len(np.unique(rows, axis=0)))
    if len(rows) <= 3 or limit <= 1:
        return torch.zeros(len(rows), dtype=torch.int64)
    labels = _cluster(rows, how, n_clusters, limit, rng)
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])


def _cluster(rows: SampleMatrix, how: str, n_clusters: int | None, limit: int, rng: torch.Generator) -> ClusterLabels:
    """Cluster rows into at most `limit` clusters, and exactly `limit` if `n_clusters` is given."""
    with threadpool_limits(1, user_api="openmp"):  # with several threads the order of sums varies
        # The first principal components nearly preserve distances.
        search = PCA(min(50, *rows.shape), random_state=draw_seed(rng))
        points = np.asarray(search.fit_transform(rows), dtype=np.float32)
        # Of many samples some are on the map, and others are classified by their nearest neighbours there.
        mapped = torch.randperm(len(points), generator=rng)[:3000].sort().values.numpy()
        if how == "embedding" or n_clusters is None:
            plane = _map(points[mapped], rng)
        if n_clusters is None:
            limit = _count(plane, limit)
        labels: ClusterLabels
        if how == "kmeans":
            labels = KMeans(limit, n_init=10, random_state=draw_seed(rng)).fit_predict(points)
            return labels
        if how == "embedding":
            labels = AgglomerativeClustering(limit).fit_predict(plane)
            if len(mapped) < len(points):
                labels = KNeighborsClassifier(PERPLEXITY).fit(points[mapped], labels).predict(points)
            return labels
    return DeepEmbeddedClustering().fit(torch.from_numpy(rows), limit, rng).numpy()


def _map(points: SampleMatrix, rng: torch.Generator) -> SampleMatrix:
    """Map samples to the plane by t-SNE; few samples, too few for it, or a single feature, stay unchanged."""
    if len(points) < 30 or points.shape[1] < 2:
        return points
    search = TSNE(
        perplexity=min(PERPLEXITY, len(points) / 4),
        early_exaggeration=4,
        max_iter=250,  # all in early exaggeration
        init="pca",
        random_state=draw_seed(rng),
    )
    return np.asarray(search.fit_transform(points), dtype=np.float32)


def _count(plane: SampleMatrix, limit: int) -> int:
    """Return the number of clusters: tall merges of Ward's tree, and one."""
    tree = linkage(plane, "ward")
    heights, sizes = tree[:, 2], np.concatenate([np.ones(len(plane)), tree[:, 3]])
    smaller_side = sizes[tree[:, :2].astype(np.int64)].min(axis=1)
    heights = heights[smaller_side >= SAMPLES_PER_CLUSTER]  # a single outlier is not a cluster
    tall = int((heights > 0.3 * heights.max(initial=0.0)).sum())
    return min(tall + 1, limit)
