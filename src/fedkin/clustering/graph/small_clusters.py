"""Clusters of so few micro-clusters each that kin-graph's graph cannot separate them.

A node is linked to its fifteen nearest ones. Where a cluster has only five nodes, most links leave it, and communities
of the graph are several clusters. Ward's method sees them; whether they are clusters or pieces of larger ones is
decided by their stability, as for communities.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import pdist, squareform
from torch import Tensor

from fedkin.clustering.graph.few_nodes import ClusterLabels, Points, as_found, cut_of, silhouette, tree_of
from fedkin.clustering.graph.left_out_nodes import STABLE, stability_without_some
from fedkin.core.seeds import draw_seed

_MAX_NODES = 2_000
"""Nodes up to which small clusters are looked for; beyond, distances take too long, and clusters have more nodes."""

_NODES_EACH = 6
"""Mean nodes of as many clusters as are given, below which Ward's method finds them. Where they are fewer, it has an
ARI of 0.92 on blobs, and communities that are joined or divided 0.68; from six on both are equal."""

_OWN, _NEAR = 0.93, 5
"""Minimum fraction of a node's nearest nodes, up to five and as many as its cluster has, that are of its cluster.
Pieces of a cloud or of a curved cluster have 0.7 to 0.91, though some are stable to 0.9."""

_CLEAR_OWN, _CLEAR_SILHOUETTE, _CLEAR_STABLE = 0.89, 0.53, 0.9
"""The same, silhouette and stability from which clusters count, too, unless density shows others. Where clients have
few rows of a cluster, some nodes hold rows of several, and fewer of the nearest are of one cluster. No single cloud of
197 had all three."""

_FEWEST_NODES = 3
"""Nodes of a cluster, on average at least."""

_COARSE = 16
"""Numbers of clusters that are tried first; then all between the neighbours of the best."""

_SAME_PLACE, _MOST_IN_PLACES = 1e-3, 0.05
"""Distance of a node from its nearest, in median distances, up to which both are in one place, and the most nodes that
may be. Columns of answers from 1 to 5 make places, which are no clusters."""


def small_clusters(
    points: Tensor,
    counts: Tensor,
    neighbours: int,
    n_clusters: int | None,
    clusters: Tensor,
    evidence: dict[str, Any],
    rng: torch.Generator,
) -> tuple[Tensor, dict[str, Any]]:
    """Return clusters by Ward's method where they are small and stable, else `clusters` as they are.

    If `n_clusters` is given, clusters are those of Ward's method where that leaves fewer than six nodes to each.

    If not, the number is that with the greatest silhouette, with three nodes each on average at least. Clusters are
    taken if none has more nodes than a node has neighbours, there are more of them than of `clusters`, their silhouette
    is greater, and they are neither pieces of larger clusters nor places of a grid:

    * their stability without a fifth of the nodes is 0.85, see `stability_without_some`;
    * of each node's nearest nodes, at most five and as many as its cluster has, 0.93 are of its cluster on average; or
      0.89, if the silhouette is 0.53, the stability 0.9, and `clusters` are not those of the density;
    * at most one node in twenty lies where another does.

    `points` are ``(m, d)``, and `counts`, int64 ``(m,)``, the samples of each; `neighbours` is the number of nearest
    nodes that a node is linked to at most. `clusters`, int64 ``(m,)``, are what the graph shows, and `evidence` that
    for them, see `communities`. `rng` draws the resamples. Clusters are returned as int64 ``(m,)``, from 0, the one
    with most samples first, with the evidence, "linkage" and, if the number was found, "silhouette" and "stability".
    """
    x = points.double().numpy()
    if n_clusters is not None:
        if not len(x) < _NODES_EACH * n_clusters < _NODES_EACH * len(x):
            return clusters, evidence
        return as_found(cut_of(tree_of(x), n_clusters), counts, evidence, linkage="ward")
    if not 2 * neighbours <= len(x) <= _MAX_NODES:
        return clusters, evidence
    distances = squareform(pdist(x))
    found = _most_separate(tree_of(x), distances, neighbours)
    if found is None or found.max() <= int(clusters.max()):
        return clusters, evidence
    reached = silhouette(distances, found, "precomputed")
    if reached <= max(silhouette(distances, clusters.numpy(), "precomputed"), 0.0):
        return clusters, evidence
    away = distances + np.diag(np.full(len(x), np.inf))
    if _are_places(away, float(np.median(distances))):
        return clusters, evidence
    own = _own_nearest(away, found)
    is_clear = own >= _CLEAR_OWN and reached >= _CLEAR_SILHOUETTE and not evidence["by_density"]
    if own < _OWN and not is_clear:
        return clusters, evidence
    numbers = np.random.default_rng(draw_seed(rng))
    orders = (numbers.permutation(len(x)) for _ in count())
    stability = stability_without_some(
        found, orders, lambda kept: cut_of(tree_of(x[kept]), len(np.unique(found[kept])))
    )
    if stability < (STABLE if own >= _OWN else _CLEAR_STABLE):
        return clusters, evidence
    how = {"linkage": "ward", "silhouette": reached, "stability": stability, "by_density": False}
    return as_found(found, counts, evidence, **how)


def _most_separate(tree: Points, distances: Points, neighbours: int) -> ClusterLabels | None:
    """Return the cut of a Ward tree with the greatest silhouette, ``None`` if one of its clusters is not small."""
    most = len(distances) // _FEWEST_NODES
    numbers = np.unique(np.geomspace(2, most, _COARSE).round().astype(int))
    scores = {int(number): silhouette(distances, cut_of(tree, number), "precomputed") for number in numbers}
    at = int(np.searchsorted(numbers, max(scores, key=scores.__getitem__)))
    low, high = numbers[max(at - 1, 0)], numbers[min(at + 1, len(numbers) - 1)]
    if high * neighbours < len(distances):
        return None
    between = [number for number in range(low, high) if number not in scores]
    scores |= {number: silhouette(distances, cut_of(tree, number), "precomputed") for number in between}
    best = cut_of(tree, max(scores, key=scores.__getitem__))
    return best if np.bincount(best).max() <= neighbours else None


def _are_places(away: Points, usual: float) -> bool:
    """Return whether nodes, so far `away` from each other and endlessly from themselves, are in the places of a grid.

    `usual` is the median distance.
    """
    return bool(np.mean(away.min(axis=1) <= _SAME_PLACE * usual) > _MOST_IN_PLACES)


def _own_nearest(away: Points, labels: ClusterLabels) -> float:
    """Return the mean fraction of a node's nearest nodes that are of its cluster."""
    nearest = labels[away.argsort(axis=1)[:, :_NEAR]] == labels[:, None]
    looked_at = np.arange(_NEAR) < np.minimum(np.bincount(labels)[labels] - 1, _NEAR)[:, None]
    own = (nearest & looked_at).sum(axis=1) / np.maximum(looked_at.sum(axis=1), 1)
    return float(own.mean())
