"""Graph of kin-graph, and its communities at several resolutions.

Nodes, the micro-clusters of all clients, are linked to their nearest nodes; the weight of a link is the overlap of the
two neighbourhoods. Communities are found by the Louvain method (Blondel et al. 2008), are the more stable the less they
change when random nodes are left out, and are joined where they are stretches of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from torch import Tensor

from fedkin.clustering.nearest import PAIRS, nearest_neighbours

CommunityLabels = NDArray[np.int64]

_MIN_GAIN = 1e-12
"""Gains below it are errors of rounding: moving for them may never end."""


def louvain(graph: Any, resolution: float, rng: np.random.Generator) -> CommunityLabels:
    """Find communities by the Louvain method: sets of nodes with more links among them than by chance.

    Maximises modularity (Reichardt and Bornholdt 2006): links within communities, less `resolution` times what chance
    would place there. Nodes move, one at a time, to the neighbouring community where it gains most, until none gains;
    then communities become nodes, and so on. Only nodes whose neighbours moved are visited again, so that 6,000 nodes
    with 20 links each need about a second. The `graph` is a float64 csr_matrix ``(m, m)``, symmetric, non-negative, of
    one node or more; its diagonal is links within a node, counted twice. `resolution` is positive, and `rng` draws the
    order in which nodes are visited. Communities are int64 ``(m,)``, from 0 in the order of each one's first node. A
    node without links is a community by itself.
    """
    weights = np.asarray(graph.sum(axis=1)).ravel()
    total = float(weights.sum())
    scale = resolution / total if total else 0.0
    labels = np.arange(graph.shape[0])
    while True:
        joined = _moved(graph, weights, scale, rng.permutation(len(weights)))
        labels = joined[labels]
        if joined.max() + 1 == len(weights):
            return renamed(labels)
        graph, weights = condensed(graph, joined), np.bincount(joined, weights=weights)


def condensed(graph: Any, labels: CommunityLabels) -> Any:
    """Sum links between and within communities: csr ``(k, k)`` of the graph's ``(m, m)``; the diagonal counts twice."""
    count, ones = len(labels), np.ones(len(labels))
    sizes, index = np.bincount(labels), np.int32  # scipy's own, which it need not look through then
    starts = np.concatenate([[0], sizes.cumsum()]).astype(index)
    members = (ones, np.argsort(labels, kind="stable").astype(index), starts)
    membership = (ones, labels.astype(index), np.arange(count + 1, dtype=index))
    rows = sparse.csr_matrix(members, shape=(len(sizes), count)) @ graph
    return rows @ sparse.csr_matrix(membership, shape=(count, len(sizes)))


def renamed(labels: CommunityLabels) -> CommunityLabels:
    """Renumber communities from 0 in the order of their first members."""
    count = len(labels)
    first = np.full(int(labels.max()) + 1, count)
    first[labels[::-1]] = np.arange(count)[::-1]
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))  # unused names come last
    return rank[labels]


def _moved(graph: Any, volume: NDArray[np.float64], scale: float, order: CommunityLabels) -> CommunityLabels:
    """Move single nodes between communities while modularity grows; on lists, as arrays are slow one at a time."""
    starts, ends_of, links = graph.indptr.tolist(), graph.indices.tolist(), graph.data.tolist()
    volumes: list[float] = volume.tolist()
    totals = volume.tolist()
    labels = list(range(len(volumes)))
    waiting = [True] * len(volumes)
    queue: list[int] = order.tolist()
    for node in queue:
        waiting[node] = False
        own, weight = labels[node], volumes[node] * scale
        neighbours = ends_of[starts[node] : starts[node + 1]]
        towards = {own: 0.0}
        for other, link in zip(neighbours, links[starts[node] : starts[node + 1]], strict=True):
            if other != node:
                towards[labels[other]] = towards.get(labels[other], 0.0) + link
        totals[own] -= volumes[node]
        best, highest = own, towards[own] - weight * totals[own] + _MIN_GAIN
        for community, link in towards.items():
            gain = link - weight * totals[community]
            if gain > highest:
                best, highest = community, gain
        totals[best] += volumes[node]
        if best != own:
            labels[node] = best
            for other in neighbours:
                if not waiting[other] and labels[other] != best:
                    waiting[other] = True
                    queue.append(other)
    return renamed(np.array(labels, dtype=np.int64))


_MIN_NEIGHBOURS = 6
"""Minimum number of nearest points: with fewer, a single cloud falls apart."""


def neighbour_graph(points: Tensor, counts: Tensor, neighbours: int) -> Any:
    """Link every point to its nearest neighbours, with weights by their common neighbours (Jaccard index).

    Two points are linked if either is among the other's nearest. The weight is the Jaccard index of their
    neighbourhoods, each point included in its own, times the root of the product of their counts relative to the mean
    count, so that links are proportional to samples. Distances are computed in blocks: time grows with the square of
    the number of points, memory does not. 6,000 points of 60 dimensions take a second, 20,000 about four.

    `points` are float32 ``(m, d)``, one or more, and `counts`, int64 ``(m,)``, the samples of each, at least 1.
    `neighbours`, at least 1, is reduced to the cube root of the number of points, or 6 if that is more, and to half of
    the points, since clusters of few points have few common neighbours. Return a float64 csr_matrix ``(m, m)``,
    symmetric, with an empty diagonal.
    """
    count = len(points)
    nearest = min(neighbours, max(_MIN_NEIGHBOURS, round(count ** (1 / 3))), max(count // 2, 1), count - 1)
    if nearest < 1:
        return sparse.csr_matrix((count, count), dtype=np.float64)
    every = torch.arange(count)
    around = torch.cat([every[:, None], nearest_neighbours(points, every, every, nearest)], dim=1).numpy()
    rows = np.repeat(np.arange(count), nearest + 1)
    near = sparse.csr_matrix((np.ones(around.size), (rows, around.ravel())), shape=(count, count))
    linked = sparse.triu(near.maximum(near.T), k=1).tocoo()
    common = _in_common(around, linked.row, linked.col)
    samples = counts.double().numpy() / counts.double().mean().item()
    weights = common / (2 * (nearest + 1) - common) * np.sqrt(samples[linked.row] * samples[linked.col])
    graph = sparse.csr_matrix((weights, (linked.row, linked.col)), shape=(count, count))
    return (graph + graph.T).tocsr()


def _in_common(around: CommunityLabels, first: CommunityLabels, second: CommunityLabels) -> CommunityLabels:
    """Count the common neighbours of pairs of nodes: int64 ``(pairs,)``.

    A sparse product of matrices would hold all pairs with a common node: all pairs, if one node is near to all.
    """
    parts = max(1, len(first) * around.shape[1] ** 2 // PAIRS + 1)
    pairs = zip(np.array_split(first, parts), np.array_split(second, parts), strict=True)
    return np.concatenate([(around[a][:, :, None] == around[b][:, None, :]).sum((1, 2)) for a, b in pairs])


# Communities of a graph at several resolutions, and how stable they are when random nodes are left out.


_RESAMPLES, _OF_FEW, _FEW = 5, 20, 2_000
"""Number of resamples; the number for small graphs, which vary more; and the maximum nodes of a small graph."""

_KEPT, _MAX_KEPT = 0.8, 8_000
"""Fraction of the nodes in a resample, and their maximum number."""

_FINE = 4.0
"""Resolution of the communities that all others are composed of: about 60 on images of ten classes."""

_CAUTION = 0.5
"""Standard deviations subtracted from a mean of twenty indices: clusters that sometimes fall apart are not stable. With
five resamples the estimate is too rough."""


def at_resolutions(graph: Any, rng: np.random.Generator, resolutions: Sequence[float]) -> list[CommunityLabels]:
    """Find communities at every resolution, each composed of the same finer communities."""
    found: list[CommunityLabels] = []
    usual = [resolution for resolution in resolutions if 2 * resolution <= _FINE]
    higher = [resolution for resolution in resolutions if 2 * resolution > _FINE]
    for fineness, composed in ((_FINE, usual), (2 * resolutions[-1], higher)):
        if composed:
            fine = louvain(graph, fineness, rng)
            coarse = condensed(graph, fine)
            found += [louvain(coarse, resolution, rng)[fine] for resolution in composed]
    return found


def stabilities(
    graph: Any,
    size: NDArray[np.float64],
    partitions: Sequence[CommunityLabels],
    rng: np.random.Generator,
    resolutions: Sequence[float],
) -> list[float]:
    """Return each resolution's stability: the mean ARI to resamples, smoothed over neighbouring resolutions."""
    kept = min(max(1, round(_KEPT * len(size))), _MAX_KEPT)
    resamples, caution = (_OF_FEW, _CAUTION) if len(size) <= _FEW else (_RESAMPLES, 0.0)
    indices = np.zeros((resamples, len(partitions)))
    for row in indices:
        stayed = np.sort(rng.permutation(len(size))[:kept])
        again = at_resolutions(graph[stayed][:, stayed].tocsr(), rng, resolutions)
        row[:] = [weighted_rand(a[stayed], b, size[stayed]) for a, b in zip(partitions, again, strict=True)]
    lower = np.pad(indices.mean(0) - caution * indices.std(0), 1, mode="edge")
    return [float(value) for value in (lower[:-2] + lower[1:-1] + lower[2:]) / 3]


def consensus(partitions: Sequence[CommunityLabels], size: NDArray[np.float64]) -> list[float]:
    """Return the mean adjusted Rand index of every resolution's clusters to those of all resolutions."""
    return [float(np.mean([weighted_rand(clusters, others, size) for others in partitions])) for clusters in partitions]


def weighted_rand(a: CommunityLabels, b: CommunityLabels, size: NDArray[np.float64]) -> float:
    """Return the adjusted Rand index of two partitions of nodes of `size` samples; 1 if both have one cluster."""
    _, pairs = np.unique(a * (b.max() + 1) + b, return_inverse=True)
    total = size.sum() ** 2
    both = float((np.bincount(pairs, weights=size) ** 2).sum())
    first, second = (float((np.bincount(part, weights=size) ** 2).sum()) for part in (a, b))
    if not total or first == second == total:
        return 1.0
    chance = first * second / total
    most = (first + second) / 2
    return (both - chance) / (most - chance) if most > chance else 1.0


#
# Merging of communities of kin-graph's graph into clusters.
#
# Communities have more links than expected by chance, and so has any stretch of points on a line or a sheet: a single
# cloud in two dimensions falls into twenty communities. There two communities stay separate only if they have fewer
# links between them than the halves of one: the relative interconnectivity of Chameleon (Karypis, Han and Kumar
# 1999). In many dimensions chance is the better measure: communities that overlap have as many links between them as
# their halves, and yet are two.


CommunityLinks = NDArray[np.float64]
Points = NDArray[np.float64]

FEW_DIMENSIONS = 3
"""Maximum dimensions in which stretches of one cloud are found as communities."""

_MIN_RATIO = 0.5
"""Minimum ratio of links between two communities to links between halves at which they are one cluster. Communities
meet where links are fewest, so that even stretches of one line have less than 1."""

_MIN_NODES = 4
"""Minimum nodes of a community that is halved."""

_MIN_HALF = 0.25
"""Minimum fraction of a community's links in either half."""

_DENSE, _CLOSE, _BASIS = 1000, 1e-8, 40
"""Maximum nodes for a dense eigensolver; tolerance and basis size of the sparse one."""


def join_similar(graph: Any, partitions: Sequence[CommunityLabels]) -> list[CommunityLabels]:
    """Merge communities of each partition while two have at least half as many links between them as inside.

    Pairs with the highest ratio are joined first. Communities of fewer than four nodes are not joined. 6,000 nodes take
    a few seconds, ten if they lie on a line. The `graph` is a float64 csr_matrix ``(m, m)``, symmetric, non-negative,
    with an empty diagonal. Partitions, given and returned, are int64 ``(m,)``, communities from 0.
    """
    # Partitions of one graph share many communities, and each needs an eigenvector.
    known: dict[bytes, float] = {}

    def halving_links(members: NDArray[np.bool_]) -> float:
        key = np.packbits(members).tobytes()
        if key not in known:
            known[key] = _halving_links(graph, members)
        return known[key]

    return [_join_similar(graph, labels, halving_links) for labels in partitions]


def _join_similar(
    graph: Any, labels: CommunityLabels, halving_links: Callable[[NDArray[np.bool_]], float]
) -> CommunityLabels:
    """Run `join_similar` for one partition."""
    links = _between(graph, labels)
    inside = np.array([halving_links(labels == community) for community in range(len(links))])
    while len(links) > 1:
        halves = (inside[:, None] + inside) / 2
        ratio = np.divide(links, halves, out=np.where(links > 0, np.inf, 0.0), where=halves > 0)
        keep, drop = _greatest(ratio)
        if ratio[keep, drop] < _MIN_RATIO:
            break
        labels, links = _joined(labels, links, keep, drop)
        inside = np.delete(inside, drop)
        inside[keep] = halving_links(labels == keep)
    return labels


def join_to(graph: Any, labels: CommunityLabels, n_clusters: int, points: Points, size: Points) -> CommunityLabels:
    """Merge communities until there are `n_clusters`: pairs with most links for their size first.

    Where no links are left between communities, those are merged that add least to the sum of squares within them, as
    in Ward's method. Graph, labels and result are those of `join_similar`; the nodes are at `points`, float64 ``(m,
    d)``, and have `size` samples, float64 ``(m,)``.
    """
    links = _between(graph, labels)
    volume = np.bincount(labels, weights=np.asarray(graph.sum(axis=1)).ravel())
    while len(links) > n_clusters:
        chance = np.outer(volume, volume)
        ratio = np.divide(links, chance, out=np.zeros_like(links), where=chance > 0)
        keep, drop = _greatest(ratio)
        if ratio[keep, drop] == 0.0:
            keep, drop = _greatest(-_added_squares(labels, points, size))
        labels, links = _joined(labels, links, keep, drop)
        volume[keep] += volume[drop]
        volume = np.delete(volume, drop)
    return labels


def _added_squares(labels: CommunityLabels, points: Points, size: Points) -> Points:
    """Return what merging each two communities adds to the sum of squares within them, ``(k, k)``."""
    total = np.bincount(labels, weights=size)
    means = np.stack([np.bincount(labels, weights=size * column) for column in points.T], 1) / total[:, None]
    squares = ((means[:, None] - means) ** 2).sum(-1)
    return np.asarray(squares * np.outer(total, total) / (total[:, None] + total))


def _between(graph: Any, labels: CommunityLabels) -> CommunityLinks:
    """Return the links between communities, ``(k, k)`` with an empty diagonal."""
    links: CommunityLinks = condensed(graph, labels).toarray()
    np.fill_diagonal(links, 0.0)
    return links


def _greatest(of_pairs: CommunityLinks) -> tuple[int, int]:
    """Return the pair with the largest number, the lower index first."""
    firsts, seconds = np.triu_indices(len(of_pairs), 1)
    best = int(of_pairs[firsts, seconds].argmax())
    return int(firsts[best]), int(seconds[best])


def _joined(
    labels: CommunityLabels, links: CommunityLinks, keep: int, drop: int
) -> tuple[CommunityLabels, CommunityLinks]:
    """Merge the community `drop` into `keep`, and renumber those after it."""
    links[keep] += links[drop]
    links[:, keep] += links[:, drop]
    links[keep, keep] = 0.0
    labels = np.where(labels == drop, keep, labels)
    return labels - (labels > drop), np.delete(np.delete(links, drop, 0), drop, 1)


def _halving_links(graph: Any, members: NDArray[np.bool_]) -> float:
    """Return the links between halves of a community, at its best cut by the Fiedler vector; infinite if too small."""
    count = int(members.sum())
    if count < _MIN_NODES:
        return np.inf
    within = graph[members][:, members].tocsr()
    if connected_components(within, directed=False, return_labels=False) > 1:
        return 0.0
    strength = np.asarray(within.sum(axis=1)).ravel()
    order = np.argsort(fiedler_vector(within, strength), kind="stable")
    sorted_links = sparse.triu(within[order][:, order], 1).tocoo()
    # A link crosses every cut between its two ends.
    crossing = np.bincount(sorted_links.row, sorted_links.data, count)
    crossing -= np.bincount(sorted_links.col, sorted_links.data, count)
    fraction = np.cumsum(strength[order]) / strength.sum()
    balanced = (fraction >= _MIN_HALF) & (fraction <= 1 - _MIN_HALF)
    cuts = np.cumsum(crossing)
    return float(cuts[balanced].min()) if balanced.any() else float(cuts[count // 2 - 1])


def fiedler_vector(graph: Any, strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Fiedler vector of a connected graph (random walk), which orders nodes along its longest extent."""
    root = 1 / np.sqrt(strength)
    even = sparse.diags(root) @ graph @ sparse.diags(root)
    if len(strength) <= _DENSE:
        second = len(strength) - 2
        vector = eigh(even.toarray(), subset_by_index=(second, second))[1][:, 0]
    else:
        start = np.linspace(-1, 1, len(strength))
        values, vectors = eigsh(even, k=2, which="LA", tol=_CLOSE, v0=start, ncv=_BASIS)
        vector = vectors[:, np.argmin(values)]
    fiedler: NDArray[np.float64] = vector * root
    return fiedler
