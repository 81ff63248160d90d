"""A division is real if another tree finds it again when some nodes are left out.

Each tree of nodes has its favourite pieces of a single cloud, and finds them again in resamples, where pairs of nearest
nodes stay together. Another tree has other favourites: both agree where there are clusters. There are three standard
trees, which see different clusters: Ward's (round), the links of the neighbour graph relative to chance (communities at
all resolutions), and density (any shape and size, the tree of HDBSCAN).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform
from torch import Tensor

from fedkin.clustering.graph.communities import neighbour_graph, weighted_rand
from fedkin.clustering.graph.ward import as_found
from fedkin.clustering.micro_clusters import merged_nodes
from fedkin.core.seeds import draw_seed

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


#
_NOWHERE = 0.6
"""Agreement below which there is no division. Of log-normal clouds, whose tails the graph divides, it is 0.3 to 0.6;
sets whose clusters the graph finds have 0.7 and more."""
_DRAWS, _KEPT = 5, 0.8
"""Resamples, and fraction of the nodes in each."""
_MOST_NODES, _MOST_CLUSTERS, _NODES_EACH = 1_000, 30, 5
"""Nodes at most, more are merged first; clusters at most, and nodes of each on average at least."""
FEWEST_NODES = 4 * _NODES_EACH
"""Nodes among which agreement means something: two clusters, and as many nodes again."""


def found_again(
    points: Tensor, counts: Tensor, neighbours: int, clusters: Tensor, evidence: dict[str, Any], rng: torch.Generator
) -> tuple[Tensor, dict[str, Any]]:
    """Return `clusters`, or one cluster where trees agree on no division into half as many or more.

    The agreement on a tree's partition into k clusters is the adjusted Rand index over samples with the partition into
    k by the most alike of the other trees without a fifth of the nodes, mean over five resamples. There is one cluster
    if none reaches 0.6.

    `points` are ``(m, d)``, and `counts`, int64 ``(m,)``, the samples of each; `neighbours` is the maximum number of
    nearest nodes that a node is linked to. `clusters`, int64 ``(m,)``, are those found before, and `evidence` that for
    them, see `communities`. `rng` draws the resamples. One cluster has the evidence and "agreement", the greatest.
    """
    if not clusters.any() or len(points) < FEWEST_NODES:
        return clusters, evidence
    nodes = merged_nodes(points, counts, _MOST_NODES, rng)
    x, size = nodes.centroids.double().numpy(), nodes.counts.double().numpy()
    found = _agreements(x, size, neighbours, np.random.default_rng(draw_seed(rng)))
    near = [agreement for number, agreement in found if 2 * number > clusters.max()]
    if not near or max(near) >= _NOWHERE:
        return clusters, evidence
    return as_found(np.zeros(len(points), dtype=np.int64), counts, evidence, agreement=max(near))


def _agreements(x: Floats, size: Floats, neighbours: int, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Return the numbers of clusters of each tree's partitions, with the agreement of other trees on them."""
    most = min(_MOST_CLUSTERS, len(x) // _NODES_EACH)
    trees = partitions(x, size, neighbours, most)
    sums: dict[tuple[int, int], float] = {}
    for _ in range(_DRAWS):
        kept = np.sort(rng.permutation(len(x))[: round(_KEPT * len(x))])
        again = partitions(x[kept], size[kept], neighbours, most)
        for tree, found in enumerate(trees):
            others = [other for i, other in enumerate(again) if i != tree]
            for k, labels in enumerate(found[1:], 1):
                indices = [weighted_rand(labels[kept], other[k], size[kept]) for other in others if k < len(other)]
                sums[tree, k] = sums.get((tree, k), 0.0) + max(indices, default=0.0)
    return [(k + 1, total / _DRAWS) for (_, k), total in sums.items()]
