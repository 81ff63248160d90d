"""Ward clustering of few micro-clusters, whose graph shows too little for kin-graph.

Communities need neighbourhoods, and among a dozen micro-clusters, as two clients with forty rows each have, six nearest
are half of all. Their means alone say more.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import silhouette_score
from torch import Tensor

from fedkin.clustering.graph.scales import largest_first, scales_of

FEW_NODES, FEW_IN_SPACE = 30, 60
"""Maximum number of micro-clusters that are clustered by Ward's method; and in more than `FEW_DIMENSIONS` dimensions,
if it finds more clusters than the graph, which finds too few where most nearest nodes are of other clusters."""
TOO_FEW_NODES = 100
"""Number of nodes below which ten clusters are often found as one."""

MOST_FOUND, PER_CLUSTER = 10, 3
"""Clusters that are looked for at most, and micro-clusters of each on average at least."""

_DRAWS = 21

_STABLE = 0.9
"""Stability from which the graph's clusters stay where Ward's method finds fewer."""

_NODES_EACH = 6
"""Mean nodes of as many clusters as are given, below which Ward's method finds them. Where they are fewer, it has an
ARI of 0.92 on blobs, and communities that are joined or divided 0.68; from six on both are equal."""

Points = NDArray[np.float64]
ClusterLabels = NDArray[np.int64]


def clusters_of_few(
    points: Tensor, counts: Tensor, n_clusters: int | None, clusters: Tensor, evidence: dict[str, Any]
) -> tuple[Tensor, dict[str, Any]]:
    """Cluster few nodes by Ward's method, into the given number of clusters or that with the greatest silhouette.

    So are more nodes, if the number that is given leaves fewer than six to each cluster.

    Where no number is given, the silhouette must exceed the median of as many normal points with the same covariance,
    drawn 21 times, each with its own best number; else `clusters` stay. The median suffices, for micro-clusters of one
    cloud lie more evenly than points drawn from it: of 40 samples of 80 and 150 rows, normal, correlated and uniform,
    one had clusters by this. `clusters` also stay where there are more of them with a stability of 0.9: a silhouette is
    greatest where the nearest of three clusters are one. With more than `FEW_NODES` nodes they stay where Ward's method
    finds no more of them.

    `points` are ``(m, d)``, and `counts`, int64 ``(m,)``, the samples of each. `n_clusters` is at least 1; with fewer
    nodes each is a cluster. `clusters`, int64 ``(m,)``, are what the graph shows, and `evidence` that for them, see
    `communities`. Clusters are returned as int64 ``(m,)``, from 0, the one with most samples first, with the given
    evidence and, where Ward's method decides, "linkage" and, if it found the number, the "silhouette".
    """
    x = points.double().numpy()
    if len(x) < 2 * PER_CLUSTER or not np.ptp(x, axis=0).any():
        return clusters, evidence
    if n_clusters is not None:
        if len(x) > FEW_NODES and not len(x) < _NODES_EACH * n_clusters < _NODES_EACH * len(x):
            return clusters, evidence
        labels, more = cut_of(tree_of(x), n_clusters), {}
    else:
        best, labels = _best(x)
        gained = int(labels.max() - clusters.max())
        stay = gained <= 0 if len(x) > FEW_NODES else gained < 0 and evidence["stability"] >= _STABLE
        if stay or best <= _by_chance(x):
            return clusters, evidence
        more = {"silhouette": best}
    return as_found(labels, counts, evidence, linkage="ward", **more)


def tree_of(x: Points) -> Points:
    """Return the tree of Ward's method, of points ``(m, d)``, in scipy's form."""
    tree: Points = linkage(x, "ward")
    return tree


def cut_of(tree: Points, number: int) -> ClusterLabels:
    """Return the clusters of a tree, int64 ``(m,)``, from 0: so many, or as many as there are points."""
    labels: ClusterLabels = fcluster(tree, number, "maxclust").astype(np.int64) - 1
    return labels


def silhouette(x: Points, labels: ClusterLabels, metric: str = "euclidean") -> float:
    """Return the mean silhouette of points or, with "precomputed", of distances; -1 of one cluster or single points."""
    if not 1 < len(np.unique(labels)) < len(labels):
        return -1.0
    return float(silhouette_score(x, labels, metric=metric))


def as_found(
    labels: ClusterLabels, counts: Tensor, evidence: dict[str, Any], **how: Any
) -> tuple[Tensor, dict[str, Any]]:
    """Return clusters of nodes, the one with most samples first, and the evidence with `how` they were found.

    The stability of the graph's clusters is that of others, and left out.
    """
    size = counts.double().numpy()
    labels = largest_first(labels, size)
    of_graph = {name: value for name, value in evidence.items() if name != "stability"}
    return torch.from_numpy(labels), {**of_graph, **how, "scales": scales_of((), size, labels, how.get("stability"))}


def _best(x: Points) -> tuple[float, ClusterLabels]:
    """Return the greatest silhouette of the cuts of a Ward tree, and the clusters of that cut."""
    tree = tree_of(x)
    cuts = [cut_of(tree, number) for number in range(2, min(MOST_FOUND, len(x) // PER_CLUSTER) + 1)]
    scored = [(silhouette(x, labels), labels) for labels in cuts]
    return max(scored, key=lambda pair: pair[0])


def _by_chance(x: Points) -> float:
    """Return the median of the best silhouettes of normal points, as many as `x` and with its covariance."""
    rng = np.random.default_rng(0)
    centred = (x - x.mean(axis=0)) / np.sqrt(len(x) - 1)
    return median(_best(rng.standard_normal((len(x), len(x))) @ centred)[0] for _ in range(_DRAWS))


def one_of_few(nodes: int) -> str:
    """Return the warning that a single cluster was found among few `nodes`."""
    known = "; set n_clusters if it is known" if nodes > 1 else ""
    return (
        f"One cluster was found among {nodes} micro-clusters, too few to separate clusters{known}. More come of more "
        "samples that differ and, where it is above 1, of a lower min_members."
    )
