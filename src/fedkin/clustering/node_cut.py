"""kin-graph's cut: the clusters of nodes, micro-clusters of all clients, and how many there are.

A division is real if it is found again better than the pieces of a single cloud would be: without a fifth of the
nodes, and by another tree.

1. Candidates are the cuts of the tree of links, see `link_tree`; Ward's tree is the other one. Few nodes have no links
   that tell, so that Ward's tree is cut, and single linkage the other. How well a division is found again is the least
   of three: the stability of either tree's cut into as many, and the agreement of both. Pieces of a cloud are found
   again, too, since neighbours stay together: the better, the fewer nodes a piece has and the fewer columns there are.
2. In up to three columns the density may show gaps between clusters (HDBSCAN), which follow long and bent ones.
3. On a line, where each number of clusters has one division, the modes of the density decide.

If nothing is found again, there is one cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.ndimage import fourier_gaussian
from scipy.stats import norm
from sklearn.cluster import HDBSCAN
from torch import Tensor

from fedkin.clustering.k_means import k_means, nearest_centroids
from fedkin.clustering.matching import renumbered
from fedkin.clustering.micro_clusters import merged_nodes
from fedkin.clustering.node_links import (
    FEWEST_NEIGHBOURS,
    Floats,
    Labels,
    canonical_order,
    link_tree,
    neighbour_graph,
)
from fedkin.core.seeds import draw_seed

Discrete = Literal["none", "some", "all"]

FEW_DIMENSIONS = 3  # nodes in more are not dense enough to show gaps
SMALL = 0.05  # of the samples: less is a bump in the tail of a cloud, or a few nodes that stay neighbours
MAX_CLUSTERS = 100  # of a division that is looked at: a page of the report shows no more
_FEW_NODES = 3 * FEWEST_NEIGHBOURS  # of three clusters with six nodes each most nearest nodes are of others
_MORE_THAN_PIECES = 0.25  # of the way from what pieces of a cloud mostly have to 1: some clouds have more
_BINS = 1_024  # of a line: ten to each of a hundred modes


class Cut(NamedTuple):
    """Clusters of nodes, int64 ``(m,)``, in what they were found, how well they are found again, and other divisions.

    `found_in` is "graph", "density", "modes", "k-means", or "nothing" if there is one cluster as no other division
    counts. `agreement` of the trees is of the division, or of those that do not count the greatest.
    """

    labels: Labels
    found_in: str
    stability: float | None
    divisions: list[tuple[Labels, float | None]]
    agreement: float | None = None


@dataclass(frozen=True)
class Nodes:
    """Nodes at `points`, float32 ``(m, d)``, of so many samples each, `counts`, int64 ``(m,)``, and their `graph`."""

    points: Tensor
    counts: Tensor
    graph: Any

    @cached_property
    def x(self) -> Floats:
        return np.asarray(self.points.double())

    @cached_property
    def size(self) -> Floats:
        return np.asarray(self.counts.double())

    def at(self, rows: Labels) -> Nodes:
        return Nodes(self.points[rows], self.counts[rows], self.graph[rows][:, rows].tocsr())


def node_clusters(
    points: Tensor,
    counts: Tensor,
    neighbours: int,
    n_clusters: int | None,
    resolution: float | None,
    rng: torch.Generator,
    discrete: Discrete = "none",
) -> tuple[Tensor, dict[str, Any]]:
    """Return the cluster of each node, int64 ``(m,)``, from 0, that with most samples first, and values for the record.

    The order of nodes affects only the names of clusters, except among nodes with the same links. 6,000 nodes take some
    seconds; memory is some copies of the graph.

    Parameters
    ----------
    points, counts : Tensor
        float32 ``(m, d)`` and int64 ``(m,)``, positions and samples of the nodes.
    neighbours : int
        Maximum number of nearest nodes that a node is linked to.
    n_clusters, resolution : number or None
        Given, or ``None`` to be found. With fewer nodes than clusters each is one. A resolution is where the tree of
        links is cut: what has fewer links than so many times chance stays apart.
    rng : torch.Generator
        Random generator of resamples.
    discrete : {"none", "some", "all"}
        Whether directions are made of the discrete columns of a table, whose grids have places that are no clusters.

    Returns
    -------
    clusters : Tensor
    values : dict
        "nodes", "edges", "clusters", "found_in", and "stability" and "agreement" if they are known, see `Cut`;
        "scales", see `scales_of`; a "warning" or a "note".
    """
    graph = neighbour_graph(points, counts, neighbours)
    order = canonical_order(graph, counts.double().numpy())
    graph = graph[order][:, order].tocsr()
    graph.sort_indices()
    nodes = Nodes(points[order], counts[order], graph)
    if resolution is None and nodes.x.shape[1] == 1 and len(order) > 10 and np.ptp(nodes.x):
        cut = _on_a_line(nodes, n_clusters, discrete == "all", rng)
    else:
        cut = _in_space(nodes, n_clusters, resolution, rng, gaps=discrete == "none")
    scales = scales_of(cut.divisions, nodes.size, (cut.labels, cut.stability))
    for scale in scales:
        scale["labels"] = scale["labels"][np.argsort(order)]
    values: dict[str, Any] = {"nodes": len(order), "edges": int(graph.nnz // 2), "clusters": int(cut.labels.max()) + 1}
    values |= {"found_in": cut.found_in, "scales": scales}
    values |= {name: getattr(cut, name) for name in ("stability", "agreement") if getattr(cut, name) is not None}
    clusters = torch.empty(len(order), dtype=torch.int64)
    clusters[torch.from_numpy(order)] = torch.from_numpy(largest_first(cut.labels, nodes.size))
    return clusters, values | _remark(values, points.shape[1], n_clusters, resolution)


def _in_space(
    nodes: Nodes, n_clusters: int | None, resolution: float | None, torch_rng: torch.Generator, gaps: bool
) -> Cut:
    rng, count = np.random.default_rng(draw_seed(torch_rng)), len(nodes.x)
    few = resolution is n_clusters is None and 2 < count <= _FEW_NODES
    most = min(MAX_CLUSTERS, max(1, round(count / 3)))  # with fewer nodes to a cluster each division is stable

    def divide(part: Nodes) -> list[Labels]:
        if few:
            return _tree_cuts(part.x, "ward", most)
        cuts = link_tree(part.graph, part.x, part.size, (1, most), rng)
        return [cuts[min(number, len(cuts))][0] for number in range(1, most + 1)]

    def divide_otherwise(part: Nodes) -> list[Labels]:
        merged = merged_nodes(part.points, part.counts, 1_000, torch_rng)  # trees take the square of their number
        cuts = _tree_cuts(merged.centroids.double().numpy(), "single" if few else "ward", most)
        return [labels[merged.labels.numpy()] for labels in cuts]

    candidates = divide(nodes)
    candidates = candidates[: int(candidates[-1].max()) + 1]
    stability = _stability(nodes, candidates, lambda part: divide(part)[: len(candidates)], rng)
    peaks = np.pad(stability[1:], 1)  # one cluster is always found again
    divisions: list[tuple[Labels, float | None]] = [(candidates[0], None)]
    divisions += [
        (candidates[i], float(stability[i]))
        for i in range(1, len(candidates))
        if peaks[i] >= peaks[i - 1] and peaks[i] > peaks[i + 1]
    ]
    if resolution is not None:
        cuts = link_tree(nodes.graph, nodes.x, nodes.size, (1, count), rng, 2 * resolution)
        number = max(number for number, (_, joined) in cuts.items() if joined < resolution)
        return Cut(cuts[number][0], "graph", None, divisions)
    best, agreements, firm = 0, np.zeros(1), False
    if n_clusters is None and len(candidates) > 1:
        others = divide_otherwise(nodes)[: len(candidates)]
        stable = _stability(nodes, others, lambda part: divide_otherwise(part)[: len(candidates)], rng)
        agreements = np.array([agreement(*pair, nodes.size) for pair in zip(candidates, others, strict=True)])
        again = np.minimum(agreements, np.minimum(stability, stable))
        best = _choose(nodes, candidates, again)
        firm = best > 0 and again[best] >= 0.9
    if gaps and not firm and nodes.x.shape[1] <= FEW_DIMENSIONS:
        labels, share = _gaps(nodes)
        if labels.max() + 1 == n_clusters:
            return Cut(labels, "density", None, divisions)
        if (
            n_clusters is None
            and labels.any()
            and np.bincount(labels, weights=nodes.size).min() >= SMALL * nodes.size.sum()
        ):
            (found,) = _stability(nodes, [labels], lambda part: [_gaps(part)[0]], rng)
            # Of few nodes a fifth less is too few to find long clusters again: the suite's small sets lose 0.1 of ARI.
            if found >= 0.6 or share <= 0.15:  # pieces of a cloud have up to 0.6
                return Cut(labels, "density", float(found), divisions)
    if n_clusters is not None and n_clusters > len(candidates):
        number = min(n_clusters, count)
        labels = link_tree(nodes.graph, nodes.x, nodes.size, (number, number), rng)[number][0]
        return Cut(labels, "graph", None, divisions)
    if n_clusters is not None:
        return Cut(candidates[n_clusters - 1], "graph", float(stability[n_clusters - 1]), divisions)
    if not best:
        return Cut(candidates[0], "nothing", None, divisions, float(agreements[1:].max(initial=0.0)))
    return Cut(candidates[best], "graph", float(stability[best]), divisions, float(agreements[best]))


def _choose(nodes: Nodes, candidates: Sequence[Labels], again: Floats) -> int:
    """Return the candidate that says most of those found `again` better than pieces of a cloud; 0 if none is.

    Candidate i has i + 1 clusters. Pieces of normal, uniform, lognormal and t distributed clouds in 2 to 60 columns are
    mostly found again less than to 1.2 (pieces / nodes)^(1/6) / columns^(1/5).
    """
    pieces = 1.2 * (np.arange(1, len(candidates) + 1) / len(nodes.x)) ** (1 / 6) / nodes.x.shape[1] ** (1 / 5)
    clear = ((again - pieces) / (1 - pieces).clip(1e-9) - _MORE_THAN_PIECES).clip(0)
    clear[0] = 0.0
    shares = [np.bincount(labels, weights=nodes.size) / nodes.size.sum() for labels in candidates]
    bits = np.array([-(share * np.log2(share)).sum() for share in shares])
    # Clarity alone prefers two clusters to fifteen that are nearly as clear; its product with the bits prefers pieces.
    says = bits * clear**2
    if not says.any():
        return 0
    return int(np.flatnonzero(says >= 0.97 * says.max())[0])  # the coarsest that says as much


def _tree_cuts(x: Floats, method: str, most: int) -> list[Labels]:
    """Return the cuts of SciPy's tree into 1 to `most` clusters, or all points if they are fewer: int64 ``(m,)``.

    Its own `cut_tree` begins at the leaves, which takes twenty times as long.
    """
    labels, count = np.zeros(len(x), dtype=np.int64), len(x)
    if count < 2:
        return [labels] * most
    tree = linkage(x, method)
    order, sizes = leaves_list(tree), np.concatenate([np.ones(count), tree[:, 3]]).astype(np.int64)
    begins, cuts = np.zeros(2 * count - 1, dtype=np.int64), [labels]
    for number, (left, right) in enumerate(tree[::-1, :2][: most - 1].astype(np.int64), 1):
        begins[left] = begins[2 * count - 1 - number]  # leaves below a merge are side by side
        begins[right] = begins[left] + sizes[left]
        labels = labels.copy()
        labels[order[begins[right] : begins[right] + sizes[right]]] = number
        cuts.append(labels)
    return cuts + [labels] * (most - len(cuts))


def _stability(
    nodes: Nodes, divisions: Sequence[Labels], divide: Callable[[Nodes], Sequence[Labels]], rng: np.random.Generator
) -> Floats:
    """Return the adjusted Rand index of each division with what `divide` finds without a fifth of the nodes.

    It is the mean of twenty resamples, or of five where it hardly varies; of at most 8,000 nodes.
    """
    count = len(nodes.x)
    found = np.zeros(len(divisions))
    repeats = 20 if count <= 2_000 else 5
    for _ in range(repeats):
        rows = np.sort(rng.permutation(count)[: min(max(1, round(0.8 * count)), 8_000)])
        pairs = zip(divisions, divide(nodes.at(rows)), strict=True)
        found += [agreement(labels[rows], other, nodes.size[rows]) / repeats for labels, other in pairs]
    return found


def agreement(a: Labels, b: Labels, size: Floats) -> float:
    """Return the adjusted Rand index of two partitions of nodes of `size` samples; 1 if both have one cluster."""
    width = int(b.max()) + 1
    table = np.bincount(a * width + b, weights=size, minlength=(int(a.max()) + 1) * width).reshape(-1, width)
    both, rows, columns, total = (float((part**2).sum()) for part in (table, table.sum(1), table.sum(0), table.sum()))
    chance, most = rows * columns / total, (rows + columns) / 2
    return (both - chance) / (most - chance) if most > chance else 1.0


def _gaps(nodes: Nodes) -> tuple[Labels, float]:
    """Return HDBSCAN's clusters (Campello et al. 2013), all 0 if it is one, with noise joined, and its part."""
    count = len(nodes.x)
    labels = np.zeros(count, dtype=np.int64)
    if count < 8:
        return labels, 0.0
    dense = HDBSCAN(min_cluster_size=max(4, round(count ** (1 / 3))), min_samples=3, copy=True).fit_predict(nodes.x)
    if dense.max() < 1:
        return labels, 0.0
    inside = dense >= 0
    labels[inside] = dense[inside]
    labels[~inside] = dense[inside][nearest_centroids(nodes.points[~inside], nodes.points[inside])]
    return labels, float(nodes.size[~inside].sum() / nodes.size.sum())


def _on_a_line(nodes: Nodes, n_clusters: int | None, discrete: bool, rng: torch.Generator) -> Cut:
    """Return the modes of nodes on a line, two at most of `discrete` columns; k-means' if it shows no such number."""
    found = divide_line(nodes.x[:, 0], nodes.size, max(12, min(n_clusters or 1, 30)))
    divisions: list[tuple[Labels, float | None]] = [(each.labels, each.stability) for each in found.values()]
    number = n_clusters or max(number for number, each in found.items() if each.shows)
    number = 2 if discrete and n_clusters is None and number > 1 else number
    if number in found and found[number].shows:
        return Cut(found[number].labels, "modes", found[number].stability, divisions)
    return Cut(k_means(nodes.points, number, rng, weights=nodes.counts).labels.numpy(), "k-means", None, divisions)


class Modes(NamedTuple):
    """A line divided into modes: int64 labels ``(m,)`` from left to right, and how sure they are.

    `stability`, from 0.5 to 1, is how sure it is that the shallowest valley is more than chance, 1 without any; `shows`
    whether all modes are more than chance, each with its share of the samples.
    """

    labels: Labels
    stability: float
    shows: bool


def divide_line(points: Floats, counts: Floats, most: int) -> dict[int, Modes]:
    """Divide points ``(m,)``, not all equal, with so many samples ``(m,)`` each, at valleys of their density.

    On a line communities of nearest neighbours are stretches of equal numbers of points, wherever the density is low.
    With a Gaussian kernel the number of modes never grows with the bandwidth, so that each number, 1 to `most`, has a
    critical bandwidth, the least with no more modes (Silverman 1981). There valleys are compared with what chance makes
    of an even density. Return divisions by number of modes; a line of fewer different values has fewer.
    """
    from scipy.signal import find_peaks  # scipy.signal takes as long as all of fedkin.clustering to import

    span = float(np.ptp(points))
    step = 1.5 * span / (_BINS - 1)  # a quarter of the range is empty at either end, so that the ends' modes are modes
    bins: Labels = np.rint((points - points.min() + span / 4) / step).astype(np.int64)
    spectrum = np.fft.rfft(np.bincount(bins, weights=counts, minlength=_BINS), 2 * _BINS)
    # Values of a grid are no modes; the spectrum of a kernel narrower than 2.2 bins is cut off, and ripples would be.
    narrowest = max(_grid_step(points, counts) / 2, 2.2 * step)
    found: dict[int, Modes] = {}
    for bandwidth in np.geomspace(step * _BINS, narrowest, 300):  # the last of a number of modes is its critical one
        density = np.fft.irfft(fourier_gaussian(spectrum, bandwidth / step, 2 * _BINS))[:_BINS]
        tops = find_peaks(density, prominence=1e-9 * density.max())[0]
        if len(tops) > most:
            break
        valleys = np.array([a + int(density[a:b].argmin()) for a, b in pairwise(tops)], dtype=np.int64)
        labels: Labels = np.searchsorted(valleys, bins, side="right").astype(np.int64)
        sizes = np.bincount(labels, weights=counts, minlength=len(tops))
        modes, lows = np.minimum(density[tops[:-1]], density[tops[1:]]), density[valleys]
        # The variance of a Gaussian kernel's estimate is the density over 2 sqrt(pi) bandwidths.
        deviation = np.sqrt((modes + lows) * step / (2 * math.sqrt(math.pi) * bandwidth))
        sure = float(min((modes - lows) / deviation, default=math.inf))
        # Two deviations are chance in one of forty; of many samples even shallow valleys are sure; tails have bumps.
        clear = sure >= 2 and (lows <= 0.85 * modes).all() and sizes.min() >= SMALL * sizes.sum()
        found[len(tops)] = Modes(labels, float(norm.cdf(sure)), bool(clear) or len(tops) == 1)
    return found


def _grid_step(points: Floats, counts: Floats) -> float:
    """Return the median distance of samples to the next different value."""
    places, place = np.unique(points, return_inverse=True)
    gaps = np.concatenate([[np.inf], np.diff(places), [np.inf]])
    near = np.minimum(gaps[1:], gaps[:-1])[place]
    order = np.argsort(near)
    return float(near[order][np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)])


def scales_of(
    divisions: Iterable[tuple[Labels, float | None]], size: Floats, chosen: tuple[Labels, float | None]
) -> list[dict[str, Any]]:
    """List the distinct divisions, from the fewest clusters to the most, with stability and parents of clusters.

    Data can have clusters of clusters; the choice among them is a judgement, so that all are kept for the user to see.

    `divisions`, and the one `chosen`, are labels, int64 ``(m,)`` from 0, and their stability, where it is known.
    `size`, float64 ``(m,)``, is the number of samples in each node.

    Returns
    -------
    list of dict
        ``n_clusters``; ``stability``, ``None`` where it is not known; ``samples`` of each cluster, most first;
        ``parents``, for each cluster the one of the entry before that has most of its samples, and empty in the first
        entry; whether it is the one ``chosen``; and the ``labels`` of the nodes.
    """
    # The same labels but for names are one division; the one chosen is last, and its stability counts.
    distinct = {renumbered(labels).tobytes(): (labels, stability) for labels, stability in [*divisions, chosen]}
    listed: list[dict[str, Any]] = []
    for labels, stability in sorted(distinct.values(), key=lambda division: int(division[0].max())):
        labels = largest_first(labels, size)
        parents = []
        if listed:
            table = np.zeros((int(labels.max()) + 1, listed[-1]["n_clusters"]))
            np.add.at(table, (labels, listed[-1]["labels"]), size)
            parents = table.argmax(1).tolist()  # ties: the largest
        listed.append(
            {
                "n_clusters": int(labels.max()) + 1,
                "stability": stability,
                "samples": np.bincount(labels, weights=size).astype(np.int64).tolist(),
                "parents": parents,
                "chosen": np.array_equal(renumbered(labels), renumbered(chosen[0])),
                "labels": labels,
            }
        )
    return listed


def largest_first(labels: Labels, size: Floats) -> Labels:
    """Renumber clusters by their number of samples, largest first."""
    rank: Labels = np.argsort(np.argsort(-np.bincount(labels, weights=size), kind="stable"), kind="stable")
    return np.asarray(rank[labels])


def _remark(
    values: Mapping[str, Any], dimensions: int, n_clusters: int | None, resolution: float | None
) -> dict[str, str]:
    """Return a warning or a note on the clusters of a record, if there is anything to say."""
    nodes, stability = values["nodes"], values.get("stability", 1.0)
    if n_clusters is not None:
        return {"warning": more_than_nodes(n_clusters, nodes)} if n_clusters > nodes else {}
    if values["clusters"] == 1 and nodes < 100 and resolution is None:  # of fewer ten clusters are often one
        return {
            "warning": f"One cluster was found among {nodes} micro-clusters, too few to separate clusters. More come "
            "of more samples that differ and of a lower min_members; or set n_clusters."
        }
    if stability >= 0.8 or dimensions <= FEW_DIMENSIONS:  # on UCI's tables those below are found again to 0.6 elsewhere
        return {}
    return {
        "note": f"No clusters are clear: without a fifth of the micro-clusters they are found again to {stability:.2f} "
        "only, where 1 is the same. The scales show coarser and finer ones."
    }


def more_than_nodes(n_clusters: int, nodes: int) -> str:
    """Return the sentence on a number of clusters that exceeds that of the nodes."""
    return f"n_clusters is {n_clusters:,}; here there can be at most {nodes:,}, the number of micro-clusters."
