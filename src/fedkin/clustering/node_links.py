"""kin-graph's graph of nodes, and the tree of what its links join.

Nodes, the micro-clusters of all clients, are linked to their nearest nodes; the weight of a link is the overlap of the
two neighbourhoods. A community is a set of nodes with more links among them than by chance; how many more is the
resolution. Fine communities, found by the Louvain method (Blondel et al. 2008), are joined in the order of their links
relative to chance, which gives coarser ones at all resolutions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist
from torch import Tensor

from fedkin.clustering.k_means import PAIRS, nearest_neighbours
from fedkin.clustering.matching import renumbered

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

FEWEST_NEIGHBOURS = 6  # measured on single clouds: with fewer they fall apart


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
    nearest = min(neighbours, max(FEWEST_NEIGHBOURS, round(count ** (1 / 3))), max(count // 2, 1), count - 1)
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
            return renumbered(labels)
        graph, weights = condense(graph, merged), np.bincount(merged, weights=weights)


def _move_nodes(graph: Any, weights: Floats, scale: float, order: Labels) -> Labels:
    """Move single nodes between communities while modularity grows; on lists, as arrays are slow one at a time."""
    starts, columns, links = graph.indptr.tolist(), graph.indices.tolist(), graph.data.tolist()
    volumes: list[float] = weights.tolist()
    totals = weights.tolist()
    labels = list(range(len(volumes)))
    queued = [True] * len(volumes)
    queue: list[int] = order.tolist()
    rounding = 1e-12  # of gains: moving for less may never end
    for node in queue:
        queued[node] = False
        community, chance = labels[node], volumes[node] * scale
        neighbours = columns[starts[node] : starts[node + 1]]
        towards = {community: 0.0}
        for neighbour, link in zip(neighbours, links[starts[node] : starts[node + 1]], strict=True):
            if neighbour != node:
                towards[labels[neighbour]] = towards.get(labels[neighbour], 0.0) + link
        totals[community] -= volumes[node]
        best, highest = community, towards[community] - chance * totals[community] + rounding
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
    return renumbered(labels)


def condense(graph: Any, labels: Labels) -> Any:
    """Sum links between and within communities: csr ``(k, k)`` of the graph's ``(m, m)``; the diagonal counts twice."""
    count, index = len(labels), np.int32  # scipy's own type, which it need not look through then
    columns = (np.ones(count), labels.astype(index), np.arange(count + 1, dtype=index))
    membership = sparse.csr_matrix(columns, shape=(count, int(labels.max()) + 1))
    return (membership.T.tocsr() @ graph @ membership).tocsr()


def link_tree(
    graph: Any,
    points: Floats,
    size: Floats,
    numbers: tuple[int, int],
    rng: np.random.Generator,
    resolution: float = 0.0,
) -> dict[int, tuple[Labels, float]]:
    """Join fine communities two at a time, those with most links relative to chance first.

    Where no links are left between communities, those are joined that add least to the sum of squares within them, as
    in Ward's method.

    Parameters
    ----------
    graph : csr_matrix
        See `neighbour_graph`.
    points, size : ndarray
        float64 ``(m, d)`` and ``(m,)``, positions and samples of the nodes.
    numbers : tuple of int
        The fewest and the most clusters of a partition to return. There are as many fine communities, or all nodes.
    rng : numpy.random.Generator
    resolution : float
        That of the fine communities at least.

    Returns
    -------
    dict
        By number of clusters the partition, int64 ``(m,)``, and the resolution from which on its communities are joined
        no further.
    """
    fewest, most = (min(number, len(size)) for number in numbers)
    resolution = max(resolution, 4.0)  # about 60 communities on images of ten classes
    while (labels := louvain(graph, resolution, rng)).max() + 1 < fewest:
        resolution *= 2
    links = condense(graph, labels).toarray()
    volume, total = links.sum(1), links.sum()
    weight = np.bincount(labels, weights=size)
    means = np.stack([np.bincount(labels, weights=size * column) for column in points.T], 1) / weight[:, None]
    ratio = links / np.maximum(np.outer(volume, volume), np.finfo(float).tiny)
    np.fill_diagonal(ratio, -1.0)
    left, cluster = np.arange(len(links)), np.arange(len(links))
    partitions = {}
    while True:
        first, second = divmod(int(ratio.argmax()), len(ratio))
        if len(left) <= most:
            partitions[len(left)] = np.searchsorted(left, cluster)[labels], total * max(0.0, ratio[first, second])
        if len(left) <= fewest:
            return partitions
        if ratio[first, second] <= 0:
            a, b = np.triu_indices(len(left), 1)
            grown = pdist(means[left], "sqeuclidean") / (1 / weight[left[a]] + 1 / weight[left[b]])
            first, second = left[a[grown.argmin()]], left[b[grown.argmin()]]
        links[first] += links[second]
        volume[first] += volume[second]
        means[first] = np.average(means[[first, second]], axis=0, weights=weight[[first, second]])
        weight[first] += weight[second]
        cluster[cluster == second] = first
        left = left[left != second]
        links[:, first] = links[first]
        ratio[[first, second]] = ratio[:, [first, second]] = -1.0
        others = left[left != first]
        ratio[first, others] = ratio[others, first] = links[first, others] / np.maximum(
            volume[first] * volume[others], np.finfo(float).tiny
        )
