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

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
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
        return cls.of(nodes, edges, connected_parts(len(nodes), edges))

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


@dataclass(frozen=True)
class Scores:
    """Statistics of the scored pairs of local clusters, of which none occurs twice: float32 ``(e,)``.

    `pairs` are int64 ``(e, 2)``: the local cluster of the samples and that of the model, as positions among the nodes.
    """

    pairs: Tensor = field(default_factory=lambda: torch.zeros(0, 2, dtype=torch.int64))
    statistics: Tensor = field(default_factory=lambda: torch.zeros(0))

    def both_ways(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the pairs that were scored in both directions, int64 ``(p, 2)``, and both statistics ``(p, 2)``.

        The lower position comes first, and the statistic of its samples. `count` is the number of local clusters.
        """
        first, second = self.pairs.unbind(1)
        forth, order = (first * count + second).sort()
        back = (second * count + first)[order]
        place = torch.searchsorted(forth, back).clamp_max(max(0, len(forth) - 1))
        both = (forth[place] == back) & (first < second)[order]
        statistics = self.statistics[order]
        return self.pairs[order][both], torch.stack([statistics, statistics[place]], dim=1)[both]

    def known(self, before: Sequence[LocalCluster], nodes: list[LocalCluster], trained: set[int]) -> Scores:
        """Return the scores of clients that have not trained since, by positions among the present `nodes`."""
        position = {(client, q): a for a, (client, q) in enumerate(nodes) if client not in trained}
        present = torch.tensor([position.get((client, q), -1) for client, q in before], dtype=torch.int64)
        pairs = present[self.pairs]
        both = (pairs >= 0).all(dim=1)
        return Scores(pairs[both], self.statistics[both])

    def and_then(self, pairs: Tensor, statistics: Tensor, count: int) -> Scores:
        """Return these scores together with new ones, which replace those of the same pair."""
        pairs, statistics = torch.cat([pairs, self.pairs]), torch.cat([statistics, self.statistics])
        first = np.unique((pairs[:, 0] * count + pairs[:, 1]).numpy(), return_index=True)[1]
        return Scores(pairs[first], statistics[first])


def by_threshold(nodes: list[LocalCluster], scores: Scores, threshold: float) -> AssociationGraph:
    """Associate pairs whose percentile is at most `threshold` in both directions, as in FedCRef's paper."""
    pairs, statistics = scores.both_ways(len(nodes))
    return AssociationGraph.joined(nodes, pairs[(statistics <= threshold).all(dim=1)].tolist())


def by_held_out_rule(
    nodes: list[LocalCluster], scores: Scores, cut: float | None, all_pairs: bool = True
) -> AssociationGraph:
    """Associate local clusters by average linkage on held-out loss rates; only scored pairs unless `all_pairs` were."""
    clients = [client for client, _ in nodes]
    pairs, statistics = scores.both_ways(len(nodes))
    match = match_by_linkage if all_pairs else match_scored
    parts, cut = match(pairs.numpy(), statistics.double().mean(1).numpy(), clients, cut)
    community = {a: number for number, members in enumerate(parts) for a in members}
    possible = combinations(range(len(nodes)), 2) if all_pairs else pairs.tolist()
    return AssociationGraph.of(nodes, [[a, b] for a, b in possible if community[a] == community[b]], parts, cut)


def match_by_linkage(
    pairs: NDArray[np.int64], losses: NDArray[np.float64], clients: Sequence[int], cut: float | None = None
) -> tuple[list[list[int]], float]:
    """Match local clusters by average linkage on their mutual loss rates; return the clusters, and the cut.

    `pairs` ``(p, 2)`` are positions of local clusters, each pair once, and `losses` ``(p,)`` mean loss rates of both
    directions; pairs that were not scored count as unlike. `clients` are those of the local clusters. Clusters merge
    while the average loss rate is below `cut`, by default `choose_cut` of the merge heights. Clusters are returned as
    lists of members, singletons included, largest first.
    """
    count = len(clients)
    if count < 2:
        return [[index] for index in range(count)], 1.0 if cut is None else cut
    distance = np.ones((count, count))
    distance[pairs[:, 0], pairs[:, 1]] = distance[pairs[:, 1], pairs[:, 0]] = losses
    distance[np.equal.outer(clients, clients)] = 2.0 * count**2  # one such pair lifts an average above all loss rates
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    heights = tree[:, 2]
    if cut is None:
        cut = choose_cut(heights[heights <= 1.0])
    labels = cut_tree(tree, height=[cut])[:, 0]
    return _largest_first(labels), float(cut)


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


def connected_parts(size: int, edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the connected components of the graph of nodes ``0..size-1``, largest first, each a sorted list."""
    rows, columns = np.asarray(edges, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    return _largest_first(connected_components(graph, directed=False)[1])


def _largest_first(labels: NDArray[np.int64]) -> list[list[int]]:
    parts = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    return sorted(parts, key=lambda members: (-len(members), members))


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


def match_scored(
    pairs: NDArray[np.int64], losses: NDArray[np.float64], clients: Sequence[int], cut: float | None = None
) -> tuple[list[list[int]], float]:
    """Match local clusters as `match_by_linkage` does, but only by the pairs that were scored."""
    if cut is None:
        cut = choose_cut(np.array([height for height, _, _ in _merges(pairs, losses, clients, np.inf)]))
    edges = [[a, b] for _, a, b in _merges(pairs, losses, clients, cut)]
    return connected_parts(len(clients), edges), float(cut)


def _merges(
    pairs: NDArray[np.int64], losses: NDArray[np.float64], clients: Sequence[int], cut: float
) -> list[tuple[float, int, int]]:
    """Return the merges up to `cut` as (height, a, b), in order, of the communities of local clusters a and b."""
    # For each community, its neighbours with the sum and the number of loss rates between both.
    links: list[dict[int, tuple[float, int]]] = [{} for _ in clients]
    heap: list[tuple[float, int, int]] = []

    def link(a: int, b: int, total: float, count: int) -> None:
        links[a][b] = links[b][a] = (total, count)
        heapq.heappush(heap, ((total + DOUBT) / (count + 1), min(a, b), max(a, b)))

    for (a, b), loss in zip(pairs.tolist(), losses.tolist(), strict=True):
        link(a, b, loss, 1)
    members = [{client} for client in clients]
    merges: list[tuple[float, int, int]] = []
    while heap:
        order, a, b = heapq.heappop(heap)
        total, count = links[a].get(b, (np.inf, 1))
        if (total + DOUBT) / (count + 1) != order:  # one has merged with another since
            continue
        if not members[a].isdisjoint(members[b]):
            del links[a][b], links[b][a]
            continue
        if total / count > cut:
            continue
        merges.append((total / count, a, b))
        large, small = (a, b) if len(links[a]) >= len(links[b]) else (b, a)
        members[large] |= members[small]
        del links[large][small], links[small][large]
        taken, links[small] = links[small], {}
        for other, (more, number) in taken.items():
            del links[other][small]
            total, count = links[large].get(other, (0.0, 0))
            link(large, other, total + more, count + number)
    return merges


# Candidate pairs of local clusters to compare, so that not every model is sent to every client.
#
# A client describes each of its local clusters by the mean and the standard deviation of every feature, its
# *profile*. A local cluster is compared with those of other clients whose profiles are nearest, and with those at
# doubling ranks: the nearest mostly have the same content, and the others connect what nearest ones alone leave
# separate, and show which local clusters differ. So the comparisons of a local cluster grow with the logarithm of the
# number of local clusters.


def profiles_of(x: Tensor, labels: Tensor) -> Tensor:
    """Return each cluster's mean and standard deviation of every feature: ``(clusters, 2 * features)``."""
    parts = [x[labels == cluster] for cluster in range(int(labels.max()) + 1)]
    return torch.stack([torch.cat([part.mean(0), part.std(0, correction=0)]) for part in parts])


def candidate_pairs(profiles: Tensor, clients: Sequence[int], count: int) -> Tensor:
    """Return the pairs of local clusters to compare, by the distances of their profiles ``(m, width)``.

    Pairs are int64 ``(p, 2)``, the lower position first, in order. `clients` has the client of each local cluster. Each
    is compared with the `count` nearest ones of other clients, and with those at 2, 4, 8, ... times this rank.
    """
    points, owners = profiles.double(), torch.tensor(clients)
    ranks = list(range(min(count, len(points))))
    while 2 * count <= len(points):
        count *= 2
        ranks.append(count - 1)
    pairs = [torch.zeros(0, 2, dtype=torch.int64)]
    for rows in torch.arange(len(points)).split(256) if len(points) else ():  # distances that are in memory at once
        same_client = owners[rows, None] == owners
        order = torch.cdist(points[rows], points).masked_fill_(same_client, torch.inf).argsort(dim=1, stable=True)
        foreign = torch.tensor(ranks) < (~same_client).sum(1, keepdim=True)
        pairs.append(torch.stack([rows[:, None].expand_as(foreign), order[:, ranks]], dim=2)[foreign])
    distinct: Tensor = torch.cat(pairs).sort(dim=1).values.unique(dim=0)
    return distinct
