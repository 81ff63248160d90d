"""Trees of nodes, each with its partitions into 1, 2, 3, ... clusters.

Three standard ones, which see different clusters: Ward's (round), the links of the neighbour graph relative to chance
(communities at all resolutions), and density (any shape and size, the tree of HDBSCAN).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform

from fedkin.clustering.graph.neighbour_graph import neighbour_graph

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

_NEAREST = 3
"""Nearest nodes, besides itself, that tell the density at a node: nodes are means of samples, and smooth already."""


def partitions(points: Floats, counts: Floats, neighbours: int, most: int) -> list[list[Labels]]:
    """Return the partitions of each tree into 1, 2, ... clusters, at most `most`; int64 ``(m,)``, from 0.

    `points` are ``(m, d)``, m at least 2, and `counts` ``(m,)`` the samples of each, at least 1; `neighbours` is the
    maximum number of nearest nodes that a node is linked to. A cluster of the density tree has three nodes, or the cube
    root of all if that is more; what is outside joins the nearest.
    """
    away = pdist(points)
    distances = squareform(away)
    nearest = min(_NEAREST, len(points) - 1)
    core = np.partition(distances, nearest, axis=1)[:, nearest]
    reach = squareform(np.maximum(distances, np.maximum(core[:, None], core[None])), checks=False)
    graph = neighbour_graph(torch.from_numpy(points).float(), torch.from_numpy(counts).long(), neighbours)
    smallest = max(3, round(len(points) ** (1 / 3)))
    return [
        cuts(linkage(away, "ward")[:, :2].astype(np.int64), most),
        cuts(links_tree(graph), most),
        cuts(linkage(reach, "single")[:, :2].astype(np.int64), most, smallest, distances),
    ]


def links_tree(graph: Any) -> Labels:
    """Merge the two clusters with most links relative to chance, again and again (Bonald et al. 2018).

    Return the merges in SciPy's numbering, int64 ``(m - 1, 2)``. Parts of the graph without links between them merge
    last, small ones first.
    """
    m = graph.shape[0]
    volume = np.asarray(graph.sum(axis=1)).ravel().tolist()
    links: dict[int, dict[int, float]] = {}
    for i, (start, end) in enumerate(zip(graph.indptr[:-1], graph.indptr[1:], strict=True)):
        links[i] = dict(zip(graph.indices[start:end].tolist(), graph.data[start:end].tolist(), strict=True))
    merges: list[tuple[int, int]] = []
    waiting = [(-weight / (volume[a] * volume[b]), a, b) for a in links for b, weight in links[a].items() if a < b]
    heapq.heapify(waiting)
    while waiting:
        _, a, b = heapq.heappop(waiting)
        if a not in links or b not in links:
            continue
        joined, merged = m + len(merges), links.pop(a)
        for node, weight in links.pop(b).items():
            merged[node] = merged.get(node, 0.0) + weight
        del merged[a], merged[b]
        merges.append((a, b))
        volume.append(volume[a] + volume[b])
        links[joined] = merged
        for node, weight in merged.items():
            links[node].pop(a, None)
            links[node].pop(b, None)
            links[node][joined] = weight
            heapq.heappush(waiting, (-weight / (volume[node] * volume[joined]), node, joined))
    top, *others = sorted(links, key=lambda part: (volume[part], part))
    for part in others:
        merges.append((top, part))
        top = m + len(merges) - 1
    return np.array(merges, dtype=np.int64).reshape(-1, 2)


def cuts(merges: Labels, most: int, smallest: int = 1, distances: Floats | None = None) -> list[Labels]:
    """Return the partitions of a tree ``(m - 1, 2)`` into 1, 2, ... clusters, at most `most`.

    Only merges of two clusters that both have `smallest` nodes divide; others leave the smaller one outside, and its
    nodes join the cluster of the nearest by `distances` ``(m, m)``.
    """
    m = len(merges) + 1
    size, start = np.ones(2 * m - 1, dtype=np.int64), np.zeros(2 * m - 1, dtype=np.int64)
    for i, (a, b) in enumerate(merges):
        size[m + i] = size[a] + size[b]
    for i in range(m - 2, -1, -1):  # leaves below a node are side by side
        a, b = merges[i]
        start[a], start[b] = start[m + i], start[m + i] + size[a]
    labels, found, clusters = np.zeros(m, dtype=np.int64), [np.zeros(m, dtype=np.int64)], {2 * m - 2: 0}
    for node in range(2 * m - 2, m - 1, -1):
        if node not in clusters or len(found) == most:
            continue
        cluster, (few, many) = clusters.pop(node), sorted(merges[node - m].tolist(), key=size.__getitem__)
        clusters[many] = cluster
        here = slice(start[few], start[few] + size[few])
        if size[few] < smallest:
            labels[here] = -1
            continue
        clusters[few] = len(found)
        labels[here] = np.where(labels[here] < 0, -1, len(found))
        found.append(_with_nearest(labels[start[:m]], distances))
    return found


def _with_nearest(labels: Labels, distances: Floats | None) -> Labels:
    outside = labels < 0
    if distances is not None and outside.any():
        others = np.flatnonzero(~outside)
        labels[outside] = labels[others[distances[np.ix_(outside, others)].argmin(1)]]
    return labels
