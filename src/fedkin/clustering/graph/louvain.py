"""Communities of a weighted graph by the Louvain method (Blondel et al. 2008), with a resolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
