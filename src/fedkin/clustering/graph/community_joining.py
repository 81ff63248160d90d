"""Merging of communities of kin-graph's graph into clusters.

Communities have more links than expected by chance, and so has any stretch of points on a line or a sheet: a single
cloud in two dimensions falls into twenty communities. There two communities stay separate only if they have fewer links
between them than the halves of one: the relative interconnectivity of Chameleon (Karypis, Han and Kumar 1999). In many
dimensions chance is the better measure: communities that overlap have as many links between them as their halves, and
yet are two.
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

from fedkin.clustering.graph.louvain import CommunityLabels, condensed

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
