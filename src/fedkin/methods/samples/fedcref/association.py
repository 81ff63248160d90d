"""Association graphs of FedCRef, which match local clusters of different clients (phases 2 and 3)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from torch import Tensor

from fedkin.nn.stack import Autoencoder

#
# Held-out rule of FedCRef: tests whether two local clusters of different clients come from one distribution.
#
# Each local cluster is split into two halves, and one model is trained on each. A sample held out from one half is
# reconstructed by its own cluster's model of that half and by a half-model of a foreign cluster, trained on equally
# many samples and not on this one. If both clusters come from one distribution, the foreign model is worse for half
# of the samples; the more they differ, the closer this *loss rate* is to 1. It needs no scale: sample size, noise and
# the difficulty of the data affect both models alike.
#
# Local clusters are then matched by average linkage on the loss rates. Two local clusters of one client never join.
# The dendrogram is cut at the widest gap between merge heights.


MAX_HELD_OUT = 100
"""Maximum number of samples evaluated per local cluster; the standard error of a loss rate is then at most 0.05."""

UNLIKE = 1.0
"""Loss rate of pairs that were not scored."""

_CUTS = 0.6, 0.8
"""Lowest and highest cut that is chosen."""


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
    """Return the rows of at most `MAX_HELD_OUT` samples per cluster, equally many from each half."""
    chosen = [
        ((labels == cluster) & (halves == half)).nonzero()[: MAX_HELD_OUT // 2, 0]
        for cluster in labels.unique()
        for half in (0, 1)
    ]
    return torch.cat(chosen)


def loss_rates(own: Tensor, foreign: Tensor, labels: Tensor, n_clusters: int) -> Tensor:
    """Return the fraction of each own cluster's samples that each foreign model reconstructs worse; ties count half.

    `own` ``(n,)`` is the held-out error of each sample with its own cluster's model, and `foreign` ``(m, n)`` are the
    errors with the foreign models; `labels` are int64 ``(n,)``. The fractions are ``(n_clusters, m)``.
    """
    lost = (foreign > own).float() + 0.5 * (foreign == own).float()
    return torch.stack([lost[:, labels == cluster].mean(dim=1) for cluster in range(n_clusters)])


def match_by_linkage(
    losses: NDArray[np.float64], clients: Sequence[int], cut: float | None = None
) -> tuple[list[list[int]], float]:
    """Match local clusters by average linkage on their mutual loss rates; return the clusters, and the cut.

    ``losses[a, b]`` is the fraction of the samples of local cluster a for which b's model is worse; NaN if not scored.
    `clients` are those of the local clusters. Clusters merge while the average loss rate is below `cut`, by default
    `choose_cut` of the merge heights. Clusters are returned as lists of members, singletons included, largest first.
    """
    count = len(clients)
    if count < 2:
        return [[index] for index in range(count)], UNLIKE if cut is None else cut
    distance = np.nan_to_num((losses + losses.T) / 2, nan=UNLIKE)
    forbidden = np.equal.outer(clients, clients)
    distance[forbidden] = 2.0 * count**2  # one forbidden pair lifts a community's average above all loss rates
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    heights = tree[:, 2]
    if cut is None:
        cut = choose_cut(heights[heights <= 1.0])
    labels = cut_tree(tree, height=[cut])[:, 0]
    clusters = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    return sorted(clusters, key=lambda members: (-len(members), members)), float(cut)


def choose_cut(heights: NDArray[np.float64]) -> float:
    """Return the middle of the widest gap between merge heights within [0.6, 0.8].

    Local clusters of one distribution merge slightly above 0.5 and others near 1, so the correct cut lies between.
    Without heights in the interval the cut is its middle.
    """
    low, high = _CUTS
    inside = heights[(heights > low) & (heights < high)]
    edges = np.concatenate([[low], np.sort(inside), [high]])
    widest = int(np.argmax(np.diff(edges)))
    return float(edges[widest : widest + 2].mean())


#
# Average linkage of local clusters if only some pairs were scored.
#
# The distance of two communities is the mean loss rate of the scored pairs between them; without such a pair they
# never merge, nor do two that both have a local cluster of one client. A mean of few pairs is low by chance more
# often than one of many, so the order of merges is by means to which a pair of `DOUBT` is added; without it, false
# merges came first. With all pairs scored this is nearly `match_by_linkage`; time and memory grow with
# the number of pairs.


DOUBT = 0.75
"""Loss rate of the pair that is added: higher than of most pairs of one distribution, lower than of most others. Of the
values tried on MNIST (0.75 and 1, added as half a pair to four pairs), 0.75 added as one pair was the best, and also on
other data."""

_Links = list[dict[int, tuple[float, int]]]
"""For each community, its neighbours with the sum and the number of loss rates between both."""


def match_scored(
    pairs: NDArray[np.int64], losses: NDArray[np.float64], clients: Sequence[int], cut: float | None = None
) -> tuple[list[list[int]], float]:
    """Match local clusters by average linkage on the loss rates of scored pairs; return the clusters, and the cut.

    `pairs` ``(p, 2)`` are positions of local clusters of different clients, each pair once, and `losses` ``(p,)`` mean
    loss rates of both directions. `clients` are those of the local clusters. These merge if the average loss rate is at
    most `cut`, by default `choose_cut` of the merge heights. Clusters are returned as lists of members, singletons
    included, largest first.
    """
    if cut is None:
        cut = choose_cut(np.array([height for height, _, _ in _merges(pairs, losses, clients, np.inf)]))
    edges = [[a, b] for _, a, b in _merges(pairs, losses, clients, cut)]
    return connected_parts(len(clients), edges), float(cut)


def connected_parts(size: int, edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the connected components of the graph of nodes ``0..size-1``, largest first, each a sorted list."""
    rows, columns = np.asarray(edges, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    count, labels = connected_components(graph, directed=False)
    parts = [np.flatnonzero(labels == part).tolist() for part in range(count)]
    return sorted(parts, key=lambda members: (-len(members), members))


def _merges(
    pairs: NDArray[np.int64], losses: NDArray[np.float64], clients: Sequence[int], cut: float
) -> list[tuple[float, int, int]]:
    """Return the merges up to `cut` as (height, a, b), in order, of the communities of local clusters a and b."""
    links: _Links = [{} for _ in clients]
    heap: list[tuple[float, int, int]] = []
    for (a, b), loss in zip(pairs.tolist(), losses.tolist(), strict=True):
        links[a][b] = links[b][a] = (loss, 1)
        heap.append((_doubted((loss, 1)), min(a, b), max(a, b)))
    heapq.heapify(heap)
    members = [{client} for client in clients]
    merges: list[tuple[float, int, int]] = []
    while heap:
        order, a, b = heapq.heappop(heap)
        if b not in links[a] or _doubted(links[a][b]) != order:  # one has merged with another since
            continue
        height = links[a][b][0] / links[a][b][1]
        if not members[a].isdisjoint(members[b]):
            del links[a][b], links[b][a]
            continue
        if height > cut:
            continue
        merges.append((height, a, b))
        kept, merged = (a, b) if len(links[a]) >= len(links[b]) else (b, a)
        members[kept] |= members[merged]
        for other in _take_over(links, kept, merged):
            heapq.heappush(heap, (_doubted(links[kept][other]), min(kept, other), max(kept, other)))
    return merges


def _take_over(links: _Links, kept: int, merged: int) -> list[int]:
    """Move the links of community `merged` to `kept`; return the communities at their other ends."""
    del links[kept][merged], links[merged][kept]
    for other, (total, count) in links[merged].items():
        before, pairs = links[kept].get(other, (0.0, 0))
        del links[other][merged]
        links[kept][other] = links[other][kept] = (before + total, pairs + count)
    changed = list(links[merged])
    links[merged] = {}
    return changed


def _doubted(link: tuple[float, int]) -> float:
    """Return the mean loss rate of a link's pairs and one more pair of `DOUBT`."""
    return (link[0] + DOUBT) / (link[1] + 1)


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
    """Associate local clusters by average linkage on held-out loss rates."""
    clusters, cut = match_by_linkage(losses.double().numpy(), [client for client, _ in nodes], cut)
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
