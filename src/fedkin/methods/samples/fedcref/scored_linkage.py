"""Average linkage of local clusters if only some pairs were scored.

The distance of two communities is the mean loss rate of the scored pairs between them; without such a pair they never
merge, nor do two that both have a local cluster of one client. A mean of few pairs is low by chance more often than one
of many, so the order of merges is by means to which a pair of `DOUBT` is added; without it, false merges came first.
With all pairs scored this is nearly `held_out_rule.match_by_linkage`; time and memory grow with the number of pairs.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fedkin.methods.samples.fedcref.held_out_rule import choose_cut

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
