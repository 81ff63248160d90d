"""Average linkage of local clusters of which only some pairs were scored.

Two communities are as far apart as the mean loss rate of the scored pairs between them; without such a pair they never
join, nor do two that both have a local cluster of one client. With all pairs scored it is
`held_out_rule.match_by_linkage`; its time and memory grow with the number of scored pairs.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import networkx
import numpy as np
from numpy.typing import NDArray

from fedkin.methods.samples.fedcref.held_out_rule import choose_cut

_Links = list[dict[int, tuple[float, int]]]
"""By community, its neighbours, with sum and number of the losses between both."""


def match_scored(
    pairs: NDArray[np.int64], losses: NDArray[np.float64], clients: Sequence[int], cut: float | None = None
) -> tuple[list[list[int]], float]:
    """Match local clusters by average linkage on the loss rates of scored pairs.

    Parameters
    ----------
    pairs : array
        ``(p, 2)``, positions of local clusters of different clients, each pair once.
    losses : array
        ``(p,)``, mean loss rate of both directions.
    clients : sequence of m ints
        The client of each local cluster.
    cut : float, optional
        Join while the average loss rate is at most this; by default `choose_cut` of the merge heights.

    Returns
    -------
    clusters : list of lists of int
        Members of every community, singletons included, largest first.
    cut : float
    """
    merges = _merges(pairs, losses, clients)
    if cut is None:
        cut = choose_cut(np.array([height for height, _, _ in merges]))
    joined = networkx.Graph()
    joined.add_nodes_from(range(len(clients)))
    joined.add_edges_from((a, b) for height, a, b in merges if height <= cut)
    clusters = [sorted(part) for part in networkx.connected_components(joined)]
    return sorted(clusters, key=lambda members: (-len(members), members)), float(cut)


def _merges(
    pairs: NDArray[np.int64], losses: NDArray[np.float64], clients: Sequence[int]
) -> list[tuple[float, int, int]]:
    """All merges as (height, a, b), in order: the community of local cluster a with that of b."""
    links: _Links = [{} for _ in clients]
    heap: list[tuple[float, int, int]] = []
    for (a, b), loss in zip(pairs.tolist(), losses.tolist(), strict=True):
        links[a][b] = links[b][a] = (loss, 1)
        heap.append((loss, min(a, b), max(a, b)))
    heapq.heapify(heap)
    members = [{client} for client in clients]
    merges: list[tuple[float, int, int]] = []
    while heap:
        height, a, b = heapq.heappop(heap)
        if b not in links[a] or _mean(links[a][b]) != height:  # one has joined another since
            continue
        if not members[a].isdisjoint(members[b]):
            del links[a][b], links[b][a]
            continue
        merges.append((height, a, b))
        kept, gone = (a, b) if len(links[a]) >= len(links[b]) else (b, a)
        members[kept] |= members[gone]
        for other in _take_over(links, kept, gone):
            heapq.heappush(heap, (_mean(links[kept][other]), min(kept, other), max(kept, other)))
    return merges


def _take_over(links: _Links, kept: int, gone: int) -> list[int]:
    """Make the links of community `gone` those of `kept`; returns the communities at their other ends."""
    del links[kept][gone], links[gone][kept]
    for other, (total, count) in links[gone].items():
        before, pairs = links[kept].get(other, (0.0, 0))
        del links[other][gone]
        links[kept][other] = links[other][kept] = (before + total, pairs + count)
    changed = list(links[gone])
    links[gone] = {}
    return changed


def _mean(link: tuple[float, int]) -> float:
    return link[0] / link[1]
