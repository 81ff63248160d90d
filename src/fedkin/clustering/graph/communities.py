"""kin-graph's graph of nodes, and its communities: at several resolutions, how stable they are, and joined to a number.

Nodes, the micro-clusters of all clients, are linked to their nearest nodes; the weight of a link is the overlap of the
two neighbourhoods. A community is a set of nodes with more links among them than by chance; how many more is the
resolution. Communities are found by the Louvain method (Blondel et al. 2008), and are the more stable the less they
change when random nodes are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedkin.clustering.nearest import PAIRS, nearest_neighbours

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

MIN_NEIGHBOURS = 6
"""Nearest nodes at least: with fewer, a single cloud falls apart."""

_MIN_GAIN = 1e-12
"""Gains of modularity below it are errors of rounding: moving for them may never end."""

_FINE = 4.0
"""Resolution of the communities that all coarser ones are composed of: about 60 on images of ten classes."""

_LEFT = 0.8
"""Fraction of the nodes in a resample: as cross-validation in five parts leaves."""

FEW = 2_000
"""Nodes up to which partitions of resamples vary."""


def neighbour_graph(points: Tensor, counts: Tensor, neighbours: int) -> Any:
    """Link every node to its nearest neighbours, with weights by their common neighbours (Jaccard index).

    Two nodes are linked if either is among the other's nearest. The weight is the Jaccard index of their
    neighbourhoods, each node included in its own, times the root of the product of their counts relative to the mean
    count, so that links are proportional to samples. Time grows with the square of the number of nodes, memory does
    not: 6,000 nodes of 60 dimensions take a second, 20,000 about four.

    `points` are float32 ``(m, d)``, one or more, and `counts`, int64 ``(m,)``, the samples of each, at least 1.
    `neighbours`, at least 1, is reduced to the cube root of the number of nodes, or 6 if that is more, and to half of
    the nodes, since clusters of few nodes have few common neighbours. Return a float64 csr_matrix ``(m, m)``,
    symmetric, with an empty diagonal.
    """
    count = len(points)
    nearest = min(neighbours, max(MIN_NEIGHBOURS, round(count ** (1 / 3))), max(count // 2, 1), count - 1)
    if nearest < 1:
        return sparse.csr_matrix((count, count), dtype=np.float64)
    every = torch.arange(count)
    around = torch.cat([every[:, None], nearest_neighbours(points, every, every, nearest)], dim=1).numpy()
    rows = np.repeat(np.arange(count), nearest + 1)
    near = sparse.csr_matrix((np.ones(around.size), (rows, around.ravel())), shape=(count, count))
    linked = sparse.triu(near.maximum(near.T), k=1).tocoo()
    # A sparse product of matrices would hold all pairs with a common node: all pairs, if one node is near to all.
    parts = len(linked.row) * around.shape[1] ** 2 // PAIRS + 1
    pairs = zip(np.array_split(linked.row, parts), np.array_split(linked.col, parts), strict=True)
    common = np.concatenate([(around[a][:, :, None] == around[b][:, None, :]).sum((1, 2)) for a, b in pairs])
    samples = counts.double().numpy() / counts.double().mean().item()
    weights = common / (2 * (nearest + 1) - common) * np.sqrt(samples[linked.row] * samples[linked.col])
    graph = sparse.csr_matrix((weights, (linked.row, linked.col)), shape=(count, count))
    return (graph + graph.T).tocsr()


def canonical_order(graph: Any, size: Floats) -> Labels:
    """Return an order of nodes that does not depend on their numbering: by samples, strength and the neighbours'."""
    keys, strength = [size], np.ones(len(size))
    for _ in range(4):  # links up to which another node affects a node's place
        strength = graph @ strength
        strength = strength / max(float(strength.max()), np.finfo(float).tiny)
        keys.append(strength.round(9))
    order: Labels = np.lexsort(keys)
    return order


def louvain(graph: Any, resolution: float, rng: np.random.Generator) -> Labels:
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
        merged = _move_nodes(graph, weights, scale, rng.permutation(len(weights)))
        labels = merged[labels]
        if merged.max() + 1 == len(weights):
            return renumber(labels)
        graph, weights = condense(graph, merged), np.bincount(merged, weights=weights)


def _move_nodes(graph: Any, weights: Floats, scale: float, order: Labels) -> Labels:
    """Move single nodes between communities while modularity grows; on lists, as arrays are slow one at a time."""
    starts, columns, links = graph.indptr.tolist(), graph.indices.tolist(), graph.data.tolist()
    volumes: list[float] = weights.tolist()
    totals = weights.tolist()
    labels = list(range(len(volumes)))
    queued = [True] * len(volumes)
    queue: list[int] = order.tolist()
    for node in queue:
        queued[node] = False
        community, chance = labels[node], volumes[node] * scale
        neighbours = columns[starts[node] : starts[node + 1]]
        towards = {community: 0.0}
        for neighbour, link in zip(neighbours, links[starts[node] : starts[node + 1]], strict=True):
            if neighbour != node:
                towards[labels[neighbour]] = towards.get(labels[neighbour], 0.0) + link
        totals[community] -= volumes[node]
        best, highest = community, towards[community] - chance * totals[community] + _MIN_GAIN
        for candidate, link in towards.items():
            gain = link - chance * totals[candidate]
            if gain > highest:
                best, highest = candidate, gain
        totals[best] += volumes[node]
        if best != community:
            labels[node] = best
            for neighbour in neighbours:
                if not queued[neighbour] and labels[neighbour] != best:
                    queued[neighbour] = True
                    queue.append(neighbour)
    return renumber(np.array(labels, dtype=np.int64))


def condense(graph: Any, labels: Labels) -> Any:
    """Sum links between and within communities: csr ``(k, k)`` of the graph's ``(m, m)``; the diagonal counts twice."""
    count, index = len(labels), np.int32  # scipy's own type, which it need not look through then
    columns = (np.ones(count), labels.astype(index), np.arange(count + 1, dtype=index))
    membership = sparse.csr_matrix(columns, shape=(count, int(labels.max()) + 1))
    return (membership.T.tocsr() @ graph @ membership).tocsr()


def renumber(labels: Labels) -> Labels:
    """Renumber communities from 0 in the order of their first members."""
    first, place = np.unique(labels, return_index=True, return_inverse=True)[1:]
    rank: Labels = first.argsort().argsort()[place]
    return rank


def communities_at(graph: Any, resolutions: Sequence[float], rng: np.random.Generator) -> list[Labels]:
    """Find communities at every resolution, each composed of the same finer communities."""
    fine = louvain(graph, max(_FINE, 2 * max(resolutions)), rng)
    coarse = condense(graph, fine)
    return [louvain(coarse, resolution, rng)[fine] for resolution in resolutions]


def resample(
    size: Floats,
    partitions: Sequence[Labels],
    divide: Callable[[Labels], Sequence[Labels]],
    rng: np.random.Generator,
) -> tuple[Floats, list[Floats]]:
    """Return how well partitions are found again without a fifth of the nodes: each whole, and each cluster.

    Parameters
    ----------
    size : ndarray
        float64 ``(m,)``, the samples of each node.
    partitions : sequence of ndarray
        int64 ``(m,)`` each, from 0.
    divide : callable
        Takes the indices of nodes that are left, int64 ``(r,)`` in order, and returns as many partitions of these.
    rng : numpy.random.Generator
        Draws the nodes that are left, at most 8,000: with more the index hardly varies.

    Returns
    -------
    indices : ndarray
        float64 ``(resamples, partitions)``, adjusted Rand indices of each with what `divide` finds. Up to `FEW` nodes,
        which vary more, there are twenty resamples in place of five.
    overlaps : list of ndarray
        float64 ``(k,)`` of each partition: the mean Jaccard index of a cluster with the most alike one of a resample.
    """
    count = len(size)
    left, resamples = min(max(1, round(_LEFT * count)), 8_000), 20 if count <= FEW else 5
    indices = np.zeros((resamples, len(partitions)))
    overlaps = [np.zeros(int(labels.max()) + 1) for labels in partitions]
    for row in indices:
        nodes = np.sort(rng.permutation(count)[:left])
        for at, (labels, again) in enumerate(zip(partitions, divide(nodes), strict=True)):
            row[at], overlap = agreement(labels[nodes], again, size[nodes])
            overlaps[at][: len(overlap)] += overlap / resamples
    return indices, overlaps


def agreement(a: Labels, b: Labels, size: Floats) -> tuple[float, Floats]:
    """Return the adjusted Rand index of two partitions of nodes of `size` samples, and each cluster's overlap.

    The index is 1 if both have one cluster. The overlap of a cluster of `a` is the Jaccard index with the most alike
    one of `b`, ``(k,)``.
    """
    table = sparse.coo_matrix((size, (a, b)))
    table.sum_duplicates()
    first, second = np.bincount(a, weights=size), np.bincount(b, weights=size)
    overlap = np.zeros(len(first))
    np.maximum.at(overlap, table.row, table.data / (first[table.row] + second[table.col] - table.data))
    both, rows, columns, total = *(float((part**2).sum()) for part in (table.data, first, second)), size.sum() ** 2
    if not total or rows == columns == total:
        return 1.0, overlap
    chance, most = rows * columns / total, (rows + columns) / 2
    return (both - chance) / (most - chance) if most > chance else 1.0, overlap


def join_to(graph: Any, labels: Labels, n_clusters: int, points: Floats, size: Floats) -> Labels:
    """Merge communities until there are `n_clusters`: pairs with most links for their size first.

    Where no links are left between communities, those are merged that add least to the sum of squares within them, as
    in Ward's method. The nodes are at `points`, float64 ``(m, d)``, and have `size` samples, float64 ``(m,)``.
    """
    links, volume = (
        condense(graph, labels).toarray(),
        np.bincount(labels, weights=np.asarray(graph.sum(axis=1)).ravel()),
    )
    np.fill_diagonal(links, 0.0)
    while len(links) > n_clusters:
        first, second = np.triu_indices(len(links), 1)
        ratio = links[first, second] / np.maximum(volume[first] * volume[second], np.finfo(float).tiny)
        if not ratio.any():
            total = np.bincount(labels, weights=size)
            means = np.stack([np.bincount(labels, weights=size * column) for column in points.T], 1) / total[:, None]
            squares = ((means[first] - means[second]) ** 2).sum(1)
            ratio = -squares * total[first] * total[second] / (total[first] + total[second])
        keep, drop = first[ratio.argmax()], second[ratio.argmax()]
        links[keep] += links[drop]
        links[:, keep] += links[:, drop]
        links[keep, keep] = 0.0
        volume[keep] += volume[drop]
        links, volume = np.delete(np.delete(links, drop, 0), drop, 1), np.delete(volume, drop)
        labels = np.where(labels == drop, keep, labels)
        labels = labels - (labels > drop)
    return labels
