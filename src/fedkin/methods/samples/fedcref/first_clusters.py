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

COMPONENTS = 50  # principal components per sample
PERPLEXITY = 10
EXAGGERATION = 4
MAX_MAPPED = 3000  # maximum samples on the map; others are classified by their nearest mapped neighbours
MIN_MAPPED = 30  # with fewer samples, too few for t-SNE, principal components are the map
RELATIVE_HEIGHT = 0.3  # fraction of the tallest merge, above which a merge joins two clusters
SAMPLES_PER_CLUSTER = 5  # minimum, when the number of clusters is estimated


def initial_labels(x: Tensor, how: str, n_clusters: int | None, rng: torch.Generator, max_clusters: int = 10) -> Tensor:
    """Cluster one client's samples ``(n, ...)``, n >= 1, into local clusters; return labels ``0..k-1``, none empty.

    Three samples or fewer, and identical samples, are one cluster. `how` is ``"embedding"``, Ward's method on a map of
    neighbours; ``"kmeans"``, on principal components; or ``"dec"``, Deep Embedded Clustering, which may end with fewer
    clusters than asked for. `n_clusters` is at most the number of distinct samples. ``None`` estimates it from the map:
    a merge of Ward's tree joins two clusters if it is taller than 0.3 of the tallest and both have at least 5 samples.
    The estimate is 2 or more unless samples are very few, at most `max_clusters`, and tends to be too low above six.
    """
    rows = x.detach().flatten(1).numpy()
    distinct = len(np.unique(rows, axis=0))
    limit = min(max_clusters, len(rows) // SAMPLES_PER_CLUSTER) if n_clusters is None else n_clusters
    if len(rows) <= 3 or min(limit, distinct) <= 1:
        return torch.zeros(len(rows), dtype=torch.int64)
    labels = _cluster(rows, how, n_clusters, min(limit, distinct), rng)
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])


def _cluster(rows: SampleMatrix, how: str, n_clusters: int | None, limit: int, rng: torch.Generator) -> ClusterLabels:
    """Cluster rows into at most `limit` clusters, and exactly `limit` if `n_clusters` is given."""
    with threadpool_limits(1, user_api="openmp"):  # with several threads the order of sums varies
        points = _components(rows, rng)
        mapped = torch.randperm(len(points), generator=rng)[:MAX_MAPPED].sort().values.numpy()
        if how == "embedding" or n_clusters is None:
            plane = _map(points[mapped], rng)
        if n_clusters is None:
            limit = _count(plane, limit)
        found: ClusterLabels
        if how == "kmeans":
            found = KMeans(limit, n_init=10, random_state=draw_seed(rng)).fit_predict(points)
            return found
        if how == "embedding":
            found = AgglomerativeClustering(limit).fit_predict(plane)
            if len(mapped) < len(points):
                found = KNeighborsClassifier(PERPLEXITY).fit(points[mapped], found).predict(points)
            return found
    return DeepEmbeddedClustering().fit(torch.from_numpy(rows), limit, rng).numpy()


def _components(rows: SampleMatrix, rng: torch.Generator) -> SampleMatrix:
    """Return the samples' first principal components, which nearly preserve distances."""
    search = PCA(min(COMPONENTS, *rows.shape), random_state=draw_seed(rng))
    return np.asarray(search.fit_transform(rows), dtype=np.float32)


def _map(points: SampleMatrix, rng: torch.Generator) -> SampleMatrix:
    """Map samples to the plane by t-SNE; few samples, or a single feature, stay unchanged."""
    if len(points) < MIN_MAPPED or points.shape[1] < 2:
        return points
    search = TSNE(
        perplexity=min(PERPLEXITY, len(points) / 4),
        early_exaggeration=EXAGGERATION,
        max_iter=250,  # all in early exaggeration
        init="pca",
        random_state=draw_seed(rng),
    )
    return np.asarray(search.fit_transform(points), dtype=np.float32)


def _count(plane: SampleMatrix, limit: int) -> int:
    tree = linkage(plane, "ward")
    heights, sizes = tree[:, 2], np.concatenate([np.ones(len(plane)), tree[:, 3]])
    smaller_side = sizes[tree[:, :2].astype(np.int64)].min(axis=1)
    heights = heights[smaller_side >= SAMPLES_PER_CLUSTER]  # a single outlier is not a cluster
    tall = int((heights > RELATIVE_HEIGHT * heights.max(initial=0.0)).sum())
    return min(tall + 1, limit)
