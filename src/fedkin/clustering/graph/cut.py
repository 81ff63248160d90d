"""kin-graph's cut: the clusters of nodes, micro-clusters of all clients, and how many there are.

A division is real if it is found again. Candidates are communities of the nodes' graph at seventeen resolutions, the
scales (of few nodes, cuts of Ward's tree), and in up to three dimensions the clusters between gaps of the density.

1. A scale counts if resamples find it again, and another view does, Ward's tree or the density tree cut into as many
   clusters: pieces of a single cloud are stable, too, but each view has its own. Of the scales that count, of those
   beyond doubt if there are any, the one that says most about a sample is taken.
2. If none is beyond doubt, gaps that resamples find again, or that are clear, come first: no other candidate follows
   long and bent clusters. If nothing counts, there is one cluster.

On a line, where each number of clusters has one division, the modes of the density decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import HDBSCAN
from torch import Tensor

from fedkin.clustering.graph.communities import (
    FEW,
    MIN_NEIGHBOURS,
    Floats,
    Labels,
    agreement,
    canonical_order,
    communities_at,
    join_to,
    louvain,
    neighbour_graph,
    renumber,
    resample,
)
from fedkin.clustering.graph.modes import divide_line
from fedkin.clustering.graph.scales import largest_first, scales_of
from fedkin.clustering.k_means import k_means
from fedkin.clustering.micro_clusters import merged_nodes
from fedkin.clustering.nearest import nearest_centroids
from fedkin.core.seeds import draw_seed

Discrete = Literal["none", "some", "all"]

RESOLUTIONS: tuple[float, ...] = tuple(float(r) for r in np.geomspace(0.05, 2.0, 17).round(4))
"""Resolutions to try. At the lowest, clusters with less than a twentieth of chance's links stay separate."""

FEW_DIMENSIONS = 3
"""Dimensions up to which nodes are dense enough to show gaps."""

FOUND_AGAIN = 0.6
"""Stability from which a division is found again. Halves of a single cloud, as communities, have 0.3 to 0.6, CIFAR-10's
classes in embeddings 0.63."""

_SMALL_SHARE, _OF_SMALL = 0.05, 0.7
"""Part of the samples below which a cluster between gaps is small, and the stability that counts then: small pieces of
a cloud are found again because neighbours stay together."""

_MAX_NOISE = 0.15
"""Part of the samples between clusters up to which gaps are clear if no cluster is small: of few nodes a fifth less is
too few to find long clusters again. Without it the suite's 25 small sets have an ARI of 0.70 and not of 0.79."""

_FIRM, _ALIKE = 0.85, 0.9
"""Stability and agreement with another view that are beyond doubt: pieces of three clouds of 20 nodes have less."""

_FEW_NODES = 3 * MIN_NEIGHBOURS
"""Nodes up to which scales are cuts of Ward's tree: of three clusters with six nodes each most nearest nodes are of
others. Pieces of a cloud are often found again by chance then, so that stability must be beyond doubt."""

_AGREEMENT, _PER_DOUBLING = 0.9, 0.07
"""Agreement with another view from which a scale counts, less so much for each doubling of the dimensions. Views tile a
single cloud alike up to 0.75 in two and three columns, and to 0.4 in twenty."""

_CLUSTER_AGAIN = 0.7
"""Jaccard index with its most alike in resamples from which a cluster says something: pieces of long ones have less."""

_AS_MUCH, _AS_STABLE = 0.9, 0.01
"""Part of the most that a scale says, from which it says as much: the coarsest of these is taken. And differences of
stability that do not count, where the lowest resolution is chosen."""

_FEWEST_IN_GAPS = 4
"""Nodes of a cluster between gaps at least, or the cube root of all nodes if that is more."""

_MOST_NODES = 1_000
"""Nodes of a tree at most, more are merged first: trees take the square of their number."""

_UNCLEAR, _TOO_FEW_NODES = 0.8, 100
"""Stability below which a note says that clusters are not clear: of the same rows at other clients they then agree to
an ARI of 0.6 on the mean of UCI's tables. And nodes below which ten clusters are often found as one."""


@dataclass(frozen=True)
class Nodes:
    """Nodes at `points`, float32 ``(m, d)``, of so many samples each, `counts`, int64 ``(m,)``."""

    points: Tensor
    counts: Tensor

    @cached_property
    def x(self) -> Floats:
        return np.asarray(self.points.double())

    @cached_property
    def size(self) -> Floats:
        return np.asarray(self.counts.double())

    @property
    def flat(self) -> bool:
        """Whether there are at most three dimensions."""
        return self.points.shape[1] <= FEW_DIMENSIONS


@dataclass(frozen=True)
class Scales:
    """Partitions of the nodes at several resolutions, from coarse to fine, and how stable they are."""

    resolutions: Sequence[float]
    partitions: list[Labels]
    stability: list[float]
    overlaps: list[Floats]

    @property
    def numbers(self) -> Labels:
        return np.array([labels.max() + 1 for labels in self.partitions])


def node_clusters(
    points: Tensor,
    counts: Tensor,
    neighbours: int,
    n_clusters: int | None,
    resolution: float | None,
    rng: torch.Generator,
    exact: bool,
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
        Given, or ``None`` to be found. The communities of a resolution are the clusters as they are. Of a number, those
        of the most stable resolution with so many; if there is none, communities of the lowest with more are joined.
        With fewer nodes each is a cluster.
    rng : torch.Generator
        Random generator of resamples.
    exact : bool
        Whether positions and samples are exact. If not, or with a resolution, the graph and gaps alone count.
    discrete : {"none", "some", "all"}
        Whether directions are made of the discrete columns of a table, whose grids have places that are no clusters.

    Returns
    -------
    clusters : Tensor
    values : dict
        "nodes", "edges", "clusters"; "found_in": "graph", "modes", "density", "k-means", or "nothing" where nothing is
        found again; "stability" of the clusters, "again", the mean Jaccard index of each with its most alike in
        resamples, and "agreement" on the scale, if they are known; the lists "resolutions", "clusters_found" and
        "stabilities" of what was tried, and the "resolution" chosen; "scales", see `scales_of`; a "warning" or a
        "note".
    """
    graph = neighbour_graph(points, counts, neighbours)
    order = canonical_order(graph, counts.double().numpy())
    graph = graph[order][:, order].tocsr()
    graph.sort_indices()
    nodes = Nodes(points[order], counts[order])
    if exact and resolution is None and _is_line(nodes):
        labels, scales, values = _on_a_line(nodes, n_clusters, discrete == "all", rng)
    else:
        few = exact and resolution is None and 2 < len(nodes.x) <= _FEW_NODES
        numpy_rng = np.random.default_rng(draw_seed(rng))
        scales = _cuts_of_few(nodes, numpy_rng) if few else _scales(graph, nodes, resolution, numpy_rng)
        labels, values = _in_space(graph, nodes, scales, n_clusters, resolution, rng, exact, discrete)
    at = scales.resolutions.index(values["resolution"])
    same = np.array_equal(renumber(labels), renumber(scales.partitions[at]))
    if same and scales.overlaps:
        values["again"] = scales.overlaps[at][scales.partitions[at][np.unique(labels, return_index=True)[1]]]
    if "again" in values:
        by_size = np.argsort(-np.bincount(labels, weights=nodes.size), kind="stable")
        values["again"] = values["again"][by_size].tolist()
    listed = scales_of(
        zip(scales.resolutions, scales.partitions, scales.stability, strict=True),
        nodes.size, labels, values.pop("stability", scales.stability[at] if same else None),
    )  # fmt: skip
    for scale in listed:
        scale["labels"] = scale["labels"][np.argsort(order)]
    stability = next(scale["stability"] for scale in listed if scale["chosen"])
    values = {
        "nodes": len(labels),
        "edges": int(graph.nnz // 2),
        "clusters": int(labels.max()) + 1,
        **values,
        **({} if stability is None else {"stability": stability}),
        "resolutions": list(scales.resolutions),
        "clusters_found": scales.numbers.tolist(),
        "stabilities": scales.stability,
        "scales": listed,
    }
    clusters = torch.empty(len(labels), dtype=torch.int64)
    clusters[torch.from_numpy(order)] = torch.from_numpy(largest_first(labels, nodes.size))
    return clusters, values | _remark(values, points.shape[1], n_clusters, resolution)


def _scales(graph: Any, nodes: Nodes, resolution: float | None, rng: np.random.Generator) -> Scales:
    resolutions = sorted({*RESOLUTIONS, *(() if resolution is None else (resolution,))})
    partitions = communities_at(graph, resolutions, rng)

    def divide(left: Labels) -> list[Labels]:
        return communities_at(graph[left][:, left].tocsr(), resolutions, rng)

    indices, overlaps = resample(nodes.size, partitions, divide, rng)
    # Communities that sometimes fall apart are not stable, nor are those of one resolution alone.
    lower = indices.mean(0) - (0.5 * indices.std(0) if len(nodes.x) <= FEW else 0.0)
    padded = np.pad(lower, 1, mode="edge")
    return Scales(resolutions, partitions, ((padded[:-2] + padded[1:-1] + padded[2:]) / 3).tolist(), overlaps)


def _cuts_of_few(nodes: Nodes, rng: np.random.Generator) -> Scales:
    """Return the cuts of Ward's tree into up to a third as many clusters as nodes, whose number is their resolution."""
    numbers = range(1, round(len(nodes.x) / 3) + 1)

    def divide(left: Labels) -> list[Labels]:
        tree = linkage(nodes.x[left], "ward")
        return [_cut(tree, number) for number in numbers]

    partitions = divide(np.arange(len(nodes.x)))
    indices, overlaps = resample(nodes.size, partitions, divide, rng)
    return Scales([float(number) for number in numbers], partitions, indices.mean(0).tolist(), overlaps)


def _cut(tree: Floats, number: int) -> Labels:
    return np.asarray(fcluster(tree, number, "maxclust") - 1, dtype=np.int64)


def _in_space(
    graph: Any,
    nodes: Nodes,
    scales: Scales,
    n_clusters: int | None,
    resolution: float | None,
    rng: torch.Generator,
    exact: bool,
    discrete: Discrete,
) -> tuple[Labels, dict[str, Any]]:
    """Return the clusters of nodes, the resolution chosen, in what they were found, and how well they are found."""
    if resolution is not None:
        return scales.partitions[scales.resolutions.index(resolution)], {"resolution": resolution, "found_in": "graph"}
    coarsest = {"resolution": scales.resolutions[0]}
    best, values, firm = _choose(nodes, scales, rng, exact) if n_clusters is None else (None, {}, False)
    if nodes.flat and discrete == "none" and not firm:  # a grid's gaps are no gaps between clusters
        labels, stability, again, counts = _by_gaps(nodes, np.random.default_rng(draw_seed(rng)))
        if n_clusters is not None and not counts:  # scales of that number may be found again more often
            counts = stability >= max(np.array(scales.stability)[scales.numbers == n_clusters], default=0.0)
        if counts and n_clusters in (None, int(labels.max()) + 1):
            return labels, {**coarsest, "found_in": "density", "stability": stability, "again": again}
    if n_clusters is not None:
        at = _with_number(scales, n_clusters)
        labels, finer = scales.partitions[at], RESOLUTIONS[-1]
        while labels.max() + 1 < min(n_clusters, len(nodes.x)):
            finer *= 2
            labels = louvain(graph, finer, np.random.default_rng(draw_seed(rng)))
        labels = join_to(graph, labels, n_clusters, nodes.x, nodes.size)
        return labels, {"resolution": scales.resolutions[at], "found_in": "graph"}
    if best is None:
        return np.zeros(len(nodes.x), dtype=np.int64), {**coarsest, "found_in": "nothing", **values}
    return scales.partitions[best], {"resolution": scales.resolutions[best], "found_in": "graph", **values}


def _choose(
    nodes: Nodes, scales: Scales, rng: torch.Generator, exact: bool
) -> tuple[int | None, dict[str, float], bool]:
    """Return the index of the scale to use, ``None`` if none counts, the agreement on it, and if it is beyond doubt."""
    stability, numbers = np.array(scales.stability), scales.numbers
    single = numbers >= len(nodes.x)  # nodes by themselves are always stable
    if not exact:  # noisy positions agree on little
        stability = np.where(single, -1.0, stability)
        return int(np.flatnonzero(stability >= stability.max() - _AS_STABLE)[0]), {}, False
    divided = (numbers > 1) & ~single
    agreements = np.zeros(len(numbers))
    agreements[divided] = _agreements(nodes, [scales.partitions[at] for at in np.flatnonzero(divided)], rng)
    alike = agreements >= _AGREEMENT - _PER_DOUBLING * np.log2(nodes.x.shape[1])
    eligible = divided & alike & (stability >= (FOUND_AGAIN if len(nodes.x) > _FEW_NODES else _FIRM))
    if not eligible.any():
        return None, {"agreement": float(agreements.max())}, False
    firm = eligible & (stability >= _FIRM) & (agreements >= _ALIKE)
    eligible, bits = firm if firm.any() else eligible, _information(nodes, scales)
    best = int(np.flatnonzero(eligible & (bits >= _AS_MUCH * bits[eligible].max()))[0])
    return best, {"agreement": float(agreements[best])}, bool(firm.any())


def _information(nodes: Nodes, scales: Scales) -> Floats:
    """Return what each scale says about a sample, in bits: the entropy of its clusters, as far as they are found again.

    Stability alone prefers two clusters that are stable to fifteen that are nearly so.
    """
    bits = []
    for labels, overlap in zip(scales.partitions, scales.overlaps, strict=True):
        share = np.bincount(labels, weights=nodes.size) / nodes.size.sum()
        bits.append(
            float((-share * np.log2(share) * np.maximum(0.0, (overlap - _CLUSTER_AGAIN) / (1 - _CLUSTER_AGAIN))).sum())
        )
    return np.array(bits)


def _agreements(nodes: Nodes, partitions: Sequence[Labels], rng: torch.Generator) -> list[float]:
    """Return the adjusted Rand index of each partition with Ward's or the density tree cut into as many, the greater.

    Each view has its own favourite pieces of a single cloud; both agree where there are clusters.
    """
    merged = merged_nodes(nodes.points, nodes.counts, _MOST_NODES, rng)
    if len(merged.counts) == 1:
        return [0.0] * len(partitions)
    away = pdist(merged.centroids.double().numpy())
    # Partitions of few nodes are cuts of Ward's tree themselves, and average linkage divides a cloud as that does.
    tree = linkage(away, "ward" if len(nodes.x) > _FEW_NODES else "single")
    dense, place = _density_cuts(squareform(away)), merged.labels.numpy()
    greatest = []
    for labels in partitions:
        number = int(labels.max()) + 1
        views = [dense[number]] if number in dense else []
        views.append(_cut(tree, number))
        greatest.append(max((agreement(labels, view[place], nodes.size)[0] for view in views), default=0.0))
    return greatest


def _density_cuts(distances: Floats) -> dict[int, Labels]:
    """Return cuts of the density tree by their number of clusters, int64 ``(m,)`` each.

    The tree is single linkage of mutual reachability (Campello et al. 2013). A cluster has three nodes, or the cube
    root of all if that is more; nodes that are in none join the nearest.
    """
    count = len(distances)
    core = np.partition(distances, min(3, count - 1), axis=1)[:, min(3, count - 1)]
    reach = np.maximum(distances, np.maximum(core[:, None], core))
    tree = linkage(reach[np.triu_indices(count, 1)], "single")
    cuts: dict[int, Labels] = {}
    for number in range(1, count):
        parts = fcluster(tree, number, "maxclust")
        large = np.bincount(parts) >= max(3, round(count ** (1 / 3)))
        inside, clusters = large[parts], int(large.sum())
        if clusters and clusters not in cuts:
            nearest = np.flatnonzero(inside)[distances[:, inside].argmin(1)]
            cuts[clusters] = np.unique(parts[nearest], return_inverse=True)[1].astype(np.int64)
    return cuts


def _with_number(scales: Scales, n_clusters: int) -> int:
    """Return the index of the most stable resolution with so many clusters, else the lowest with more, or the last."""
    numbers, stability = scales.numbers, np.array(scales.stability)
    if (same := numbers == n_clusters).any():
        return int(np.flatnonzero(same & (stability >= stability[same].max() - _AS_STABLE))[0])
    return int((numbers > n_clusters).argmax()) if (numbers > n_clusters).any() else len(numbers) - 1


def _by_gaps(nodes: Nodes, rng: np.random.Generator) -> tuple[Labels, float, Floats, bool]:
    """Return HDBSCAN's clusters (Campello et al. 2013), how well resamples find all and each again, if they count."""

    def divide(left: Labels) -> list[Labels]:
        return [_hdbscan(Nodes(nodes.points[left], nodes.counts[left]))[0]]

    labels, noise = _hdbscan(nodes)
    if not labels.any():
        return labels, 0.0, np.zeros(1), False
    indices, (overlap,) = resample(nodes.size, [labels], divide, rng)
    stability = float(indices.mean())
    small = np.bincount(labels, weights=nodes.size).min() < _SMALL_SHARE * nodes.size.sum()
    found_again = stability >= (_OF_SMALL if small else FOUND_AGAIN)
    return labels, stability, overlap, found_again or (not small and noise <= _MAX_NOISE)


def _hdbscan(nodes: Nodes) -> tuple[Labels, float]:
    """Return HDBSCAN's clusters, all 0 if it is one, with noise joined to the nearest, and the part of noise."""
    count = len(nodes.x)
    labels = np.zeros(count, dtype=np.int64)
    if count < 2 * _FEWEST_IN_GAPS:
        return labels, 0.0
    least = max(_FEWEST_IN_GAPS, round(count ** (1 / 3)))
    dense = HDBSCAN(min_cluster_size=least, min_samples=3, copy=True).fit_predict(nodes.x).astype(np.int64)
    if dense.max() < 1:
        return labels, 0.0
    inside = dense >= 0
    dense[~inside] = dense[inside][nearest_centroids(nodes.points[~inside], nodes.points[inside])]
    return dense, float(nodes.size[~inside].sum() / nodes.size.sum())


def _is_line(nodes: Nodes) -> bool:
    """Return whether nodes have one column, differ, and are enough to show a density."""
    return nodes.x.shape[1] == 1 and len(nodes.x) > 10 and bool(np.ptp(nodes.x))


def _on_a_line(
    nodes: Nodes, n_clusters: int | None, discrete: bool, rng: torch.Generator
) -> tuple[Labels, Scales, dict[str, Any]]:
    """Return the modes of nodes on a line, two at most of `discrete` columns; k-means' if it shows no such number.

    A resolution is one over a bandwidth, and a stability how sure the shallowest valley is, see `divide_line`.
    """
    most = max(12, min(n_clusters or 1, 30))
    divisions = divide_line(nodes.x[:, 0], nodes.size, most)
    shown = [number for number, division in divisions.items() if division.shows]
    number = n_clusters or (2 if discrete and max(shown) > 1 else max(shown))
    chosen = divisions.get(number, divisions[max(divisions)])
    scales = Scales(
        [division.resolution for division in divisions.values()],
        [division.labels for division in divisions.values()],
        [division.stability for division in divisions.values()],
        [],
    )
    if number in shown:
        return chosen.labels, scales, {"resolution": chosen.resolution, "found_in": "modes"}
    labels = k_means(nodes.points, number, rng, weights=nodes.counts).labels.numpy()
    return labels, scales, {"resolution": chosen.resolution, "found_in": "k-means"}


def _remark(
    values: Mapping[str, Any], dimensions: int, n_clusters: int | None, resolution: float | None
) -> dict[str, str]:
    """Return a warning or a note on the clusters of a record, if there is anything to say."""
    nodes = values["nodes"]
    if n_clusters is not None:
        return {"warning": more_than_nodes(n_clusters, nodes)} if n_clusters > nodes else {}
    if resolution is None and values["clusters"] == 1 and nodes < _TOO_FEW_NODES:
        number = "; set n_clusters if it is known" if nodes > 1 else ""
        return {
            "warning": f"One cluster was found among {nodes} micro-clusters, too few to separate clusters{number}. "
            "More come of more samples that differ and, where it is above 1, of a lower min_members."
        }
    if resolution is not None or values.get("stability", 1.0) >= _UNCLEAR or dimensions <= FEW_DIMENSIONS:
        return {}
    return {
        "note": f"No clusters are clear: those of resamples agree with these to {values['stability']:.2f} only, where "
        "1 is the same, so other samples like these would have others. The scales show coarser and finer ones."
    }


def more_than_nodes(n_clusters: int, nodes: int) -> str:
    """Return the sentence on a number of clusters that exceeds that of the nodes."""
    return f"n_clusters is {n_clusters:,}; here there can be at most {nodes:,}, the number of micro-clusters."
