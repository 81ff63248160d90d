"""Which communities of kin-graph's graph are one cluster.

Chance is what communities are measured by, and where points lie along a line or on a sheet, any stretch of it has more
links than chance gives: a single cloud in two dimensions falls into twenty. There two communities stay apart only if
they are further from each other than the two halves of one. That is relative interconnectivity of Chameleon (Karypis,
Han and Kumar 1999): the links between two, over those between the halves of either. In many dimensions chance is the
better measure: communities that overlap have as many links between them as their halves, and are two all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from fedkin.clustering.louvain import CommunityLabels, condensed

CommunityLinks = NDArray[np.float64]

FEW_DIMENSIONS = 3
"""Up to here stretches of one cloud pass for communities."""

_AS_MANY = 0.5
"""Links between two communities, over those between halves: from here on they are one. Communities meet where links are
fewest, so that even stretches of one line have less than 1."""

_INSIDE = 4
"""Nodes that a community needs to have halves."""

_SIDE = 0.25
"""Of a community's links, the least share of either half."""

_DENSE, _CLOSE, _BASIS = 1000, 1e-8, 40
"""Nodes up to which the slowest vector comes from a full matrix; else, its exactness, and vectors it is sought by."""


def join_alike(graph: Any, partitions: Sequence[CommunityLabels]) -> list[CommunityLabels]:
    """Of each partition, communities joined, those with most links for those inside first, as long as two have half as
    many or more.

    None of fewer than four nodes is joined. 6,000 nodes take a few seconds, ten where they lie on a line.

    Parameters
    ----------
    graph : scipy.sparse.csr_matrix
        float64 ``(m, m)``, symmetric, non-negative, with an empty diagonal.
    partitions : sequence of array
        int64 ``(m,)``, communities from 0.

    Returns
    -------
    list of array
        int64 ``(m,)``, from 0.
    """
    # Partitions of one graph have many communities in common, and each takes an eigenvector.
    known: dict[bytes, float] = {}

    def thinnest(members: NDArray[np.bool_]) -> float:
        key = np.packbits(members).tobytes()
        if key not in known:
            known[key] = _thinnest(graph, members)
        return known[key]

    return [_alike_joined(graph, labels, thinnest) for labels in partitions]


def _alike_joined(
    graph: Any, labels: CommunityLabels, thinnest: Callable[[NDArray[np.bool_]], float]
) -> CommunityLabels:
    """One partition's communities, joined."""
    links = _between(graph, labels)
    inside = np.array([thinnest(labels == community) for community in range(len(links))])
    while len(links) > 1:
        halves = (inside[:, None] + inside) / 2
        ratio = np.divide(links, halves, out=np.where(links > 0, np.inf, 0.0), where=halves > 0)
        keep, drop = _greatest(ratio)
        if ratio[keep, drop] < _AS_MANY:
            break
        labels, links = _joined(labels, links, keep, drop)
        inside = np.delete(inside, drop)
        inside[keep] = thinnest(labels == keep)
    return labels


def join_to(graph: Any, labels: CommunityLabels, n_clusters: int) -> CommunityLabels:
    """Communities joined until there are `n_clusters`, those with most links for their size first, without links the
    smallest; graph, labels and result are those of `join_alike`.
    """
    links = _between(graph, labels)
    volume = np.bincount(labels, weights=np.asarray(graph.sum(axis=1)).ravel())
    while len(links) > n_clusters:
        chance = np.outer(volume, volume)
        ratio = np.divide(links, chance, out=np.zeros_like(links), where=chance > 0)
        keep, drop = _greatest(ratio)
        if ratio[keep, drop] == 0.0:
            keep, drop = sorted(np.argsort(volume, kind="stable")[:2].tolist())
        labels, links = _joined(labels, links, keep, drop)
        volume[keep] += volume[drop]
        volume = np.delete(volume, drop)
    return labels


def _between(graph: Any, labels: CommunityLabels) -> CommunityLinks:
    """Links between communities, ``(k, k)`` with an empty diagonal."""
    links: CommunityLinks = condensed(graph, labels).toarray()
    np.fill_diagonal(links, 0.0)
    return links


def _greatest(of_pairs: CommunityLinks) -> tuple[int, int]:
    """The pair with the greatest number, the smaller first."""
    first, second = divmod(int(np.triu(of_pairs, 1).argmax()), len(of_pairs))
    return first, second


def _joined(
    labels: CommunityLabels, links: CommunityLinks, keep: int, drop: int
) -> tuple[CommunityLabels, CommunityLinks]:
    """The community `drop` as part of `keep`, and those behind it renumbered."""
    links[keep] += links[drop]
    links[:, keep] += links[:, drop]
    links[keep, keep] = 0.0
    labels = np.where(labels == drop, keep, labels)
    return labels - (labels > drop), np.delete(np.delete(links, drop, 0), drop, 1)


def _thinnest(graph: Any, members: NDArray[np.bool_]) -> float:
    """Links between the halves of a community: the fewest along its slowest vector; infinite where it has none."""
    count = int(members.sum())
    if count < _INSIDE:
        return np.inf
    within = graph[members][:, members].tocsr()
    if connected_components(within, directed=False, return_labels=False) > 1:
        return 0.0
    strength = np.asarray(within.sum(axis=1)).ravel()
    order = np.argsort(_slowest(within, strength), kind="stable")
    sorted_links = sparse.triu(within[order][:, order], 1).tocoo()
    # A link crosses every place between its two ends.
    crossing = np.bincount(sorted_links.row, sorted_links.data, count)
    crossing -= np.bincount(sorted_links.col, sorted_links.data, count)
    share = np.cumsum(strength[order]) / strength.sum()
    balanced = (share >= _SIDE) & (share <= 1 - _SIDE)
    cuts = np.cumsum(crossing)
    return float(cuts[balanced].min()) if balanced.any() else float(cuts[count // 2 - 1])


def _slowest(graph: Any, strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """The second eigenvector of a random walk on a connected graph: where nodes lie along its longest way."""
    root = 1 / np.sqrt(strength)
    even = sparse.diags(root) @ graph @ sparse.diags(root)
    if len(strength) <= _DENSE:
        second = len(strength) - 2
        vector = eigh(even.toarray(), subset_by_index=(second, second))[1][:, 0]
    else:
        start = np.linspace(-1, 1, len(strength))
        values, vectors = eigsh(even, k=2, which="LA", tol=_CLOSE, v0=start, ncv=_BASIS)
        vector = vectors[:, np.argmin(values)]
    slowest: NDArray[np.float64] = vector * root
    return slowest
