"""Association graphs of FedCRef, which match local clusters of different clients (phases 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.methods.samples.fedcref import held_out_rule
from fedkin.methods.samples.fedcref.scored_linkage import connected_parts, match_scored

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

    def clusters(self) -> dict[int, list[int]]:
        """Return the clusters of each client's local clusters; communities come first, then unmatched ones."""
        members = [*self.communities, *([a] for a in self.unmatched)]
        cluster_of = {a: cluster for cluster, nodes in enumerate(members) for a in nodes}
        clusters: dict[int, list[int]] = {}
        for a, (client, _) in enumerate(self.nodes):
            clusters.setdefault(client, []).append(cluster_of[a])
        return clusters


def by_held_out_rule(nodes: list[LocalCluster], losses: Tensor, cut: float | None) -> AssociationGraph:
    """Associate local clusters by average linkage on held-out loss rates (see `held_out_rule`)."""
    clusters, cut = held_out_rule.match_by_linkage(losses.double().numpy(), [client for client, _ in nodes], cut)
    edges = [[a, b] for members in clusters for a in members for b in members if a < b]
    return _graph(nodes, clusters, sorted(edges), cut)


def by_threshold(nodes: list[LocalCluster], statistics: Tensor, threshold: float) -> AssociationGraph:
    """Associate pairs whose percentile is at most `threshold` in both directions, as in FedCRef's paper."""
    near = (statistics <= threshold).numpy()  # never true for NaN, as of pairs not scored
    return _components(nodes, near & near.T)


def by_scored_pairs(
    nodes: list[LocalCluster], pairs: Tensor, statistics: Tensor, cut: float | None, threshold: float | None = None
) -> AssociationGraph:
    """Associate local clusters by the held-out rule or the paper's, if only some pairs were scored.

    Only scored pairs can be associated: `pairs`, int64 ``(p, 2)``, positions in `nodes`, the lower one first, with
    `statistics`, float32 ``(p, 2)``, in both directions. `cut` is that of the held-out rule, see `match_scored`; if a
    `threshold` is given, the paper's rule is used.
    """
    clients = [client for client, _ in nodes]
    if threshold is not None:
        near = pairs[(statistics <= threshold).all(dim=1)]
        return _joined(nodes, [edge for edge in near.tolist() if clients[edge[0]] != clients[edge[1]]])
    clusters, cut = match_scored(pairs.numpy(), statistics.double().mean(1).numpy(), clients, cut)
    community = {a: number for number, members in enumerate(clusters) for a in members}
    return _graph(nodes, clusters, [[a, b] for a, b in pairs.tolist() if community[a] == community[b]], cut)


def by_class(nodes: list[LocalCluster], classes: Sequence[int]) -> AssociationGraph:
    """Associate local clusters of the same true class, known from an oracle, as an upper bound for evaluations."""
    return _components(nodes, np.equal.outer(classes, classes))


def known_statistics(
    before: Sequence[LocalCluster], statistics: Tensor, nodes: list[LocalCluster], trained: set[int]
) -> Tensor:
    """Return the last iteration's `statistics` for pairs of clients not trained since; NaN for others."""
    known = torch.full((len(nodes), len(nodes)), torch.nan)
    new, old = kept_positions(before, nodes, trained)
    if new:
        known[np.ix_(new, new)] = statistics[np.ix_(old, old)]
    return known


def kept_positions(
    before: Sequence[LocalCluster], nodes: list[LocalCluster], trained: set[int]
) -> tuple[list[int], list[int]]:
    """Return positions, now and `before`, of local clusters of clients that have not trained since."""
    position = {(client, local_cluster): a for a, (client, local_cluster) in enumerate(before)}
    kept = [
        (a, position[client, q])
        for a, (client, q) in enumerate(nodes)
        if client not in trained and (client, q) in position
    ]
    return [a for a, _ in kept], [a for _, a in kept]


def _components(nodes: list[LocalCluster], linked: NDArray[np.bool_]) -> AssociationGraph:
    clients = [client for client, _ in nodes]
    return _joined(nodes, np.argwhere(np.triu(linked & ~np.equal.outer(clients, clients))).tolist())


def _joined(nodes: list[LocalCluster], edges: list[list[int]]) -> AssociationGraph:
    """Return the graph of these `edges`, whose communities are its connected components."""
    return _graph(nodes, connected_parts(len(nodes), edges), sorted(edges))


def _graph(
    nodes: list[LocalCluster], clusters: list[list[int]], edges: list[list[int]], cut: float | None = None
) -> AssociationGraph:
    communities = [members for members in clusters if len(members) > 1]
    return AssociationGraph(
        nodes, edges, communities, sorted(members[0] for members in clusters if len(members) == 1), cut
    )


def percentile_difference(own: Tensor, foreign: Tensor, percentile: float) -> Tensor:
    """Return the percentile of differences in error, scaled to [0, 1] per pair (FedCRef, eq. 2 and line 14).

    `own` is ``(n,)``, `foreign` ``(m, n)``, the result ``(m,)``. A pair without any difference gives 0.
    """
    difference = (own - foreign).abs()
    low, high = difference.min(dim=1, keepdim=True).values, difference.max(dim=1, keepdim=True).values
    scaled = (difference - low) / (high - low).clamp_min(torch.finfo(difference.dtype).tiny)
    return torch.quantile(scaled, percentile / 100.0, dim=1)
