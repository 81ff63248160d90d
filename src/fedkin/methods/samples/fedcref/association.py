"""Association of local clusters of different clients by their models' errors (FedCRef, phases 2 and 3).

The paper's rule compares errors directly, by a percentile of their differences. The held-out rule tests whether two
local clusters come from one distribution: each is split into two halves, and one model is trained on each. A sample
held out from one half is reconstructed by its own cluster's model of that half and by a half-model of a foreign
cluster, trained on equally many samples and not on this one. If both clusters come from one distribution, the foreign
model is worse for half of the samples; the more they differ, the closer this *loss rate* is to 1. It needs no scale:
sample size, noise and the difficulty of the data affect both models alike. Local clusters are then matched by average
linkage on the loss rates, cut at the widest gap between merge heights. Two of one client never join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from torch import Tensor

from fedkin.nn.stack import Autoencoder

LocalCluster = list[int]
"""A local cluster: ``[client, local cluster]``."""


@dataclass(frozen=True)
class AssociationGraph:
    """Graph of local clusters of all clients, with edges between associated ones.

    Edges are positions in `nodes`, a < b. `communities` have two or more nodes, largest first; all others are
    `unmatched`. `cut` is the height at which the dendrogram was cut, if there was one.
    """

    nodes: list[LocalCluster]
    edges: list[list[int]]
    communities: list[list[int]]
    unmatched: list[int]
    cut: float | None = None

    @classmethod
    def of(
        cls, nodes: list[LocalCluster], edges: list[list[int]], parts: list[list[int]], cut: float | None = None
    ) -> AssociationGraph:
        """Return the graph of these `edges`, whose nodes are divided into these parts, largest first."""
        unmatched = sorted(members[0] for members in parts if len(members) == 1)
        return cls(nodes, edges, [members for members in parts if len(members) > 1], unmatched, cut)

    @classmethod
    def joined(cls, nodes: list[LocalCluster], edges: list[list[int]]) -> AssociationGraph:
        """Return the graph of these `edges`, whose communities are its connected components."""
        edges = sorted([a, b] for a, b in edges if nodes[a][0] != nodes[b][0])
        rows, columns = np.asarray(edges, dtype=np.int64).reshape(-1, 2).T
        graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(nodes), len(nodes)))
        return cls.of(nodes, edges, _largest_first(connected_components(graph, directed=False)[1]))

    def clusters(self) -> dict[int, list[int]]:
        """Return the clusters of each client's local clusters; communities come first, then unmatched ones."""
        members = [*self.communities, *([a] for a in self.unmatched)]
        cluster_of = {a: cluster for cluster, nodes in enumerate(members) for a in nodes}
        clusters: dict[int, list[int]] = {}
        for a, (client, _) in enumerate(self.nodes):
            clusters.setdefault(client, []).append(cluster_of[a])
        return clusters


def by_class(nodes: list[LocalCluster], classes: Sequence[int]) -> AssociationGraph:
    """Associate local clusters of the same class, such as the true one as an upper bound for evaluations."""
    return AssociationGraph.joined(nodes, np.argwhere(np.triu(np.equal.outer(classes, classes), 1)).tolist())


# What clients measure.


def percentile_difference(errors: Tensor, foreign: Tensor, percentile: float) -> Tensor:
    """Return the percentile of differences in error, scaled to [0, 1] per pair (FedCRef, eq. 2 and line 14).

    `errors` are ``(n,)`` with the cluster's own model, `foreign` ``(m, n)``, the result ``(m,)``. A pair without any
    difference gives 0.
    """
    difference = (errors - foreign).abs()
    low, high = difference.min(dim=1, keepdim=True).values, difference.max(dim=1, keepdim=True).values
    scaled = (difference - low) / (high - low).clamp_min(torch.finfo(difference.dtype).tiny)
    return torch.quantile(scaled, percentile / 100.0, dim=1)


def split_halves(labels: Tensor, rng: torch.Generator) -> Tensor:
    """Return a random half, 0 or 1, for every sample, balanced within every cluster: int64 ``(n,)``."""
    halves = torch.empty_like(labels)
    for cluster in labels.unique():
        rows = (labels == cluster).nonzero()[:, 0]
        halves[rows[torch.randperm(len(rows), generator=rng)]] = torch.arange(len(rows)) % 2
    return halves


def held_out_errors(model: Autoencoder, pairs: Tensor, x: Tensor, halves: Tensor) -> Tensor:
    """Return errors ``(clusters, n)`` of all clusters' models, by half-models not trained on the sample's half.

    `pairs` ``(clusters, 2, size)`` are each cluster's two half-models, `x` is ``(n, features)``, and `halves` are int64
    ``(n,)``. Samples of half 0 are reconstructed by models of half 1, and vice versa.
    """
    errors = torch.empty(len(pairs), len(x))
    for half in (0, 1):
        rows = (halves == half).nonzero()[:, 0]
        errors[:, rows] = model.errors(pairs[:, 1 - half], x[rows])
    return errors


def held_out_rows(labels: Tensor, halves: Tensor) -> Tensor:
    """Return the rows of at most 50 samples of each half of each cluster.

    The standard error of a loss rate of 100 samples is at most 0.05.
    """
    rows = [
        ((labels == cluster) & (halves == half)).nonzero()[:50, 0] for cluster in labels.unique() for half in (0, 1)
    ]
    return torch.cat(rows)


def loss_rates(errors: Tensor, foreign: Tensor, labels: Tensor, n_clusters: int) -> Tensor:
    """Return the fraction of each own cluster's samples that each foreign model reconstructs worse; ties count half.

    `errors` ``(n,)`` are the held-out errors of each sample with its own cluster's model, and `foreign` ``(m, n)``
    those with the foreign models; `labels` are int64 ``(n,)``. The fractions are ``(n_clusters, m)``.
    """
    lost = (foreign > errors).float() + 0.5 * (foreign == errors).float()
    return torch.stack([lost[:, labels == cluster].mean(dim=1) for cluster in range(n_clusters)])


# What the server makes of it.


def by_threshold(nodes: list[LocalCluster], statistics: Tensor, threshold: float) -> AssociationGraph:
    """Associate pairs whose percentile is at most `threshold` in both directions, as in FedCRef's paper."""
    near = statistics <= threshold  # never true for NaN, as of pairs not scored
    return AssociationGraph.joined(nodes, (near & near.T).triu(1).nonzero().tolist())


def by_held_out_rule(nodes: list[LocalCluster], statistics: Tensor) -> AssociationGraph:
    """Associate local clusters by average linkage on held-out loss rates."""
    parts, cut = match_by_linkage(statistics.double().numpy(), [client for client, _ in nodes])
    edges = sorted([a, b] for members in parts for a, b in combinations(members, 2))
    return AssociationGraph.of(nodes, edges, parts, cut)


def match_by_linkage(losses: NDArray[np.float64], clients: Sequence[int]) -> tuple[list[list[int]], float]:
    """Match local clusters by average linkage on their mutual loss rates; return the clusters, and the cut.

    ``losses[a, b]`` is the fraction of the samples of local cluster a for which b's model is worse; NaN, which counts
    as unlike, if not scored. `clients` are those of the local clusters. Clusters, lists of members and largest first,
    merge while the average loss rate is below `choose_cut` of the merge heights.
    """
    count = len(clients)
    if count < 2:
        return [[index] for index in range(count)], 1.0
    distance = np.nan_to_num((losses + losses.T) / 2, nan=1.0)
    distance[np.equal.outer(clients, clients)] = 2.0 * count**2  # one such pair lifts an average above all loss rates
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    heights = tree[:, 2]
    cut = choose_cut(heights[heights <= 1.0])
    return _largest_first(cut_tree(tree, height=[cut])[:, 0]), cut


def choose_cut(heights: NDArray[np.float64]) -> float:
    """Return the middle of the widest gap between merge heights within [0.6, 0.8].

    Local clusters of one distribution merge slightly above 0.5 and others near 1, so the correct cut lies between.
    Without heights in the interval the cut is its middle.
    """
    low, high = 0.6, 0.8
    inside = heights[(heights > low) & (heights < high)]
    edges = np.concatenate([[low], np.sort(inside), [high]])
    widest = int(np.argmax(np.diff(edges)))
    return float(edges[widest : widest + 2].mean())


def _largest_first(labels: NDArray[np.int64]) -> list[list[int]]:
    parts = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    return sorted(parts, key=lambda members: (-len(members), members))
