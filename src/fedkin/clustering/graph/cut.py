"""kin-graph's cut: the clusters of nodes, micro-clusters of all clients, and how many there are.

1. Nodes are linked, and communities of their graph found at seventeen resolutions: the scales.
2. A scale counts if resamples of the nodes find it again, and another view does: Ward's tree or the density tree, cut
   into as many clusters. Of those that count the one that says most about a sample is taken. If none counts, there is
   one cluster.
3. Where the graph shows little, another view decides: on a line the modes of the density, in a plane or a space gaps
   that HDBSCAN finds, and for few nodes, or places of a grid of categories, Ward's tree with the silhouette.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import HDBSCAN
from sklearn.metrics import silhouette_score
from torch import Tensor

from fedkin.clustering.graph.communities import (
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
"""Dimensions up to which pieces of one cluster are as stable as clusters, so that gaps in the density count first."""

_STABLE, _FIRM, _AS_STABLE = 0.6, 0.85, 0.01
"""Stability from which a scale counts: halves of a cloud have 0.3 to 0.6, CIFAR-10's classes in embeddings 0.63; from
which, with `_ALIKE`, it is beyond doubt; and differences that do not count, where the lowest resolution is chosen."""

_ALIKE = 0.9
"""Agreement with another view that needs no more: views of even squares and cubes agree up to 0.86."""

_AGREEMENT = (0.77, 0.05)
"""Agreement with another view from which a scale counts, in one dimension, and what each doubling of the dimensions
takes off, in more than three: that of single clouds falls so, from 0.65 in a plane to 0.4 in twenty columns."""

_APART = 1.2
"""Agreement times relative length of links between clusters from which a scale counts in up to three dimensions: of
even squares and cubes, which views tile alike, it is 1.0 to 1.17."""

_FOUND_AGAIN = (0.8, 0.7)
"""Jaccard index with its most alike in resamples, from which a cluster says something: in up to three dimensions, where
pieces of long clusters have 0.7 to 0.8, and in more."""

_AS_MUCH = 0.9
"""Part of the most that a scale says, from which it says as much: the coarsest of these is taken."""

_MOST_NODES = 1_000
"""Nodes of a tree at most, more are merged first: trees take the square of their number."""

FEWEST_NODES, FEW_NODES, FEW_IN_SPACE = 6, 30, 60
"""Nodes from and up to which Ward's tree may decide; and in more than three dimensions, if it finds more clusters than
the graph, which finds too few where most nearest nodes are of other clusters."""

_PER_CLUSTER, _NODES_EACH = 2, 6
"""Mean nodes of a cluster at least where Ward's tree finds the number; and mean nodes of as many clusters as are given,
below which it finds them: it has an ARI of 0.92 on blobs then, and communities 0.68; from six on both are equal."""

_MIN_SHARE, _MAX_NOISE = 0.05, 0.15
"""Samples in a cluster of HDBSCAN's at least, and without one at most, as fractions of all: else gaps are of chance."""

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
        "nodes", "edges", "clusters"; "found_in": "graph", "modes", "density", "ward", "k-means", or "nothing" where no
        scale counts; "stability" of the clusters and "agreement" on the scale, if they are known; the lists
        "resolutions", "clusters_found" and "stabilities" of what was tried, and the "resolution" chosen; "scales", see
        `scales_of`; a "warning" or a "note".
    """
    graph = neighbour_graph(points, counts, neighbours)
    order = canonical_order(graph, counts.double().numpy())
    graph = graph[order][:, order].tocsr()
    graph.sort_indices()
    nodes = Nodes(points[order], counts[order])
    if exact and resolution is None and _is_line(nodes):
        labels, scales, values = _on_a_line(nodes, n_clusters, discrete == "all", rng)
    else:
        scales = _scales(graph, nodes, resolution, np.random.default_rng(draw_seed(rng)))
        labels, values = _in_space(graph, nodes, scales, n_clusters, resolution, rng, exact, discrete)
    at = scales.resolutions.index(values["resolution"])
    same = np.array_equal(renumber(labels), renumber(scales.partitions[at]))
    listed = scales_of(
        zip(scales.resolutions, scales.partitions, scales.stability, strict=True),
        nodes.size, labels, scales.stability[at] if same else None,
    )  # fmt: skip
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
    return Scales(resolutions, partitions, *resample(graph, nodes.size, partitions, resolutions, rng))


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
    """Return the clusters of nodes, the resolution chosen, and in what they were found."""
    if resolution is not None:
        return scales.partitions[scales.resolutions.index(resolution)], {"resolution": resolution, "found_in": "graph"}
    if n_clusters is None:
        best, values = _choose(graph, nodes, scales, rng, exact)
        at = best or 0
        labels = scales.partitions[at] if best is not None else np.zeros(len(nodes.x), dtype=np.int64)
        firm = best is not None and scales.stability[at] >= _FIRM and values.get("agreement", 0.0) >= _ALIKE
    else:
        at, values = _with_number(scales, n_clusters), {}
        labels, finer = scales.partitions[at], RESOLUTIONS[-1]
        firm = scales.numbers[at] == n_clusters and scales.stability[at] >= _FIRM
        while labels.max() + 1 < min(n_clusters, len(nodes.x)):
            finer *= 2
            labels = louvain(graph, finer, np.random.default_rng(draw_seed(rng)))
        labels = join_to(graph, labels, n_clusters, nodes.x, nodes.size)
    chosen = {"resolution": scales.resolutions[at]}
    if nodes.flat and discrete == "none" and not firm:
        gaps = _by_gaps(nodes)
        if gaps is not None and n_clusters in (None, int(gaps.max()) + 1):
            return gaps, {**chosen, "found_in": "density"}
    if exact and (divided := _by_ward(nodes, n_clusters, labels, firm, discrete, rng)) is not None:
        return divided, {**chosen, "found_in": "ward"}
    return labels, {**chosen, "found_in": "graph", **values}


def _choose(
    graph: Any, nodes: Nodes, scales: Scales, rng: torch.Generator, exact: bool
) -> tuple[int | None, dict[str, Any]]:
    """Return the index of the resolution to use, ``None`` if no scale counts, and the agreement on it."""
    stability, numbers = np.array(scales.stability), scales.numbers
    single = numbers >= len(nodes.x)  # nodes by themselves are always stable
    if not exact:  # noisy positions agree on little
        stability = np.where(single, -1.0, stability)
        return int(np.flatnonzero(stability >= stability.max() - _AS_STABLE)[0]), {}
    divided = (numbers > 1) & ~single
    agreements = np.zeros(len(numbers))
    agreements[divided] = _agreements(nodes, [scales.partitions[at] for at in np.flatnonzero(divided)], rng)
    alike = agreements >= _AGREEMENT[0] - _AGREEMENT[1] * np.log2(nodes.x.shape[1])
    if nodes.flat:
        lengths = np.array([_separation(graph, nodes.x, labels) for labels in scales.partitions])
        alike = (agreements >= _ALIKE) | (agreements * lengths >= _APART)
    needed = _STABLE if len(nodes.x) > FEW_NODES else _FIRM  # pieces of few nodes are found again by chance
    eligible = divided & alike & (stability >= needed)
    if not eligible.any():
        return None, {"found_in": "nothing", "agreement": float(agreements.max())}
    firm = eligible & (stability >= _FIRM) & (agreements >= _ALIKE)
    eligible, bits = firm if firm.any() else eligible, _information(nodes, scales)
    best = int(np.flatnonzero(eligible & (bits >= _AS_MUCH * bits[eligible].max()))[0])
    return best, {"agreement": float(agreements[best])}


def _information(nodes: Nodes, scales: Scales) -> Floats:
    """Return what each scale says about a sample, in bits: the entropy of its clusters, as far as they are found again.

    Stability alone prefers two clusters that are stable to fifteen that are nearly so.
    """
    least, bits = _FOUND_AGAIN[0 if nodes.flat else 1], []
    for labels, overlap in zip(scales.partitions, scales.overlaps, strict=True):
        share = np.bincount(labels, weights=nodes.size) / nodes.size.sum()
        bits.append(float((-share * np.log2(share) * np.maximum(0.0, (overlap - least) / (1 - least))).sum()))
    return np.array(bits)


def _separation(graph: Any, x: Floats, labels: Labels) -> float:
    """Return how long links between clusters are relative to those inside, geometric means; 10 without any between.

    Borders of clusters are sparse, and those of pieces of a sheet are not.
    """
    links = graph.tocoo()
    lengths = np.log(np.maximum(np.linalg.norm(x[links.row] - x[links.col], axis=1), np.finfo(float).tiny))
    between = labels[links.row] != labels[links.col]
    if between.all() or not between.any():
        return 10.0 if not between.all() else 0.0
    return float(np.exp(lengths[between].mean() - lengths[~between].mean()))


def _agreements(nodes: Nodes, partitions: Sequence[Labels], rng: torch.Generator) -> list[float]:
    """Return the adjusted Rand index of each partition with Ward's or the density tree cut into as many, the greater.

    Each view has its own favourite pieces of a single cloud; both agree where there are clusters.
    """
    merged = merged_nodes(nodes.points, nodes.counts, _MOST_NODES, rng)
    if len(merged.counts) == 1:
        return [0.0] * len(partitions)
    away = pdist(merged.centroids.double().numpy())
    ward, dense, place = linkage(away, "ward"), _density_cuts(squareform(away)), merged.labels.numpy()
    greatest = []
    for labels in partitions:
        number = int(labels.max()) + 1
        views = [fcluster(ward, number, "maxclust") - 1, *([dense[number]] if number in dense else [])]
        greatest.append(max(agreement(labels, view[place], nodes.size)[0] for view in views))
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


def _by_gaps(nodes: Nodes) -> Labels | None:
    """Return the clusters of HDBSCAN (Campello et al. 2013) if there are two or more, and none by chance.

    Noise joins the cluster of the nearest node that is none. They are by chance if a cluster is small, many nodes are
    noise, or there are at most ten nodes for each dimension.
    """
    count, dimensions = nodes.x.shape
    if count <= 10 * dimensions:
        return None
    found = HDBSCAN(min_cluster_size=max(4, round(count ** (1 / 3))), min_samples=3, copy=True).fit_predict(nodes.x)
    inside, total = found >= 0, nodes.size.sum()
    if found.max() < 1 or nodes.size[~inside].sum() > _MAX_NOISE * total:
        return None
    if np.bincount(found[inside], weights=nodes.size[inside]).min() < _MIN_SHARE * total:
        return None
    found[~inside] = found[inside][nearest_centroids(nodes.points[~inside], nodes.points[inside])]
    return np.asarray(found, dtype=np.int64)


def _by_ward(
    nodes: Nodes, n_clusters: int | None, labels: Labels, firm: bool, discrete: Discrete, rng: torch.Generator
) -> Labels | None:
    """Return the clusters of Ward's tree where it is more to be trusted than the graph, whose clusters are `labels`.

    It has the given number where nodes are few, or places of a grid. It has the number for few nodes, and for places in
    up to three dimensions: that with the greatest silhouette, if it is above the median of normal clouds with the same
    covariance, each with its own best number. If all columns are discrete that is one more than dimensions, since
    columns that vary independently within clusters share so many. For few nodes the graph's clusters stay where they
    are more and not doubted, for a silhouette is greatest where the nearest of three clusters are one.
    """
    count, dimensions = nodes.x.shape
    few, grid = count <= FEW_NODES, discrete != "none"
    if count < FEWEST_NODES or not np.ptp(nodes.x, axis=0).any():
        return None
    if n_clusters is not None:
        if not (few or grid or count < _NODES_EACH * n_clusters):
            return None
        merged = merged_nodes(nodes.points, nodes.counts, max(_MOST_NODES, _NODES_EACH * n_clusters), rng)
        return np.asarray(_ward_cut(linkage(merged.centroids.double().numpy(), "ward"), n_clusters)[merged.labels])
    if not (few or (nodes.flat and grid) or (count <= FEW_IN_SPACE and not nodes.flat)):
        return None
    merged = merged_nodes(nodes.points, nodes.counts, _MOST_NODES // 3, rng)
    x, most = merged.centroids.double().numpy(), min(10, len(merged.counts) // _PER_CLUSTER)
    every = grid and discrete == "all" and not few
    numbers = range(2, most + 1) if not every else range(dimensions + 1, dimensions + 2)
    height, divided = _best_cut(x, numbers)
    gained = int(divided.max() - labels.max())
    stays = gained < 0 and firm if few else gained <= 0 and not grid
    if stays:
        return None
    if not (every and gained < 0) and height <= _silhouette_by_chance(x, range(2, most + 1)):
        return None
    return np.asarray(divided[merged.labels])


def _ward_cut(tree: Floats, number: int) -> Labels:
    return np.asarray(fcluster(tree, number, "maxclust") - 1, dtype=np.int64)


def _best_cut(x: Floats, numbers: range) -> tuple[float, Labels]:
    """Return the greatest silhouette of the cuts of a Ward tree, and the clusters of that cut."""
    tree = linkage(x, "ward")
    return max(((silhouette(x, cut), cut) for cut in (_ward_cut(tree, k) for k in numbers)), key=lambda pair: pair[0])


def _silhouette_by_chance(x: Floats, numbers: range) -> float:
    """Return the median of the best silhouettes of normal points, as many as `x` and with its covariance."""
    rng = np.random.default_rng(0)
    centred = (x - x.mean(axis=0)) / np.sqrt(len(x) - 1)
    return median(_best_cut(rng.standard_normal((len(x), len(x))) @ centred, numbers)[0] for _ in range(21))


def silhouette(x: Floats, labels: Labels) -> float:
    """Return the mean silhouette of points ``(m, d)``; -1 of one cluster or single points."""
    if not 1 < len(np.unique(labels)) < len(labels):
        return -1.0
    return float(silhouette_score(x, labels))


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
