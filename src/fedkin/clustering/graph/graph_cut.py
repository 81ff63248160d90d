"""Community detection on kin-graph's graph, at a resolution that is chosen by stability.

A community, a cluster of kin-graph, is a set of nodes with more links among them than expected by chance. How many more
is the resolution, which determines the number of communities. The resolution chosen is the one whose communities change
least when random nodes are left out: a clustering that depends on which samples were drawn is no property of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.clustering.graph.communities import (
    FEW_DIMENSIONS,
    CommunityLabels,
    at_resolutions,
    condensed,
    consensus,
    join_similar,
    join_to,
    louvain,
    renamed,
    stabilities,
)
from fedkin.clustering.graph.density import density_clusters
from fedkin.clustering.graph.scales import chosen_stability, largest_first, scales_of
from fedkin.core.seeds import draw_seed

RESOLUTIONS: tuple[float, ...] = tuple(float(r) for r in np.geomspace(0.05, 2.0, 17).round(4))
"""Resolutions to try. At the lowest, clusters with less than a twentieth of chance's links stay separate."""

_FINER: tuple[float, ...] = tuple(float(r) for r in np.geomspace(RESOLUTIONS[-1], 8.0, 7).round(4))[1:]
"""Resolutions to try besides for flat points, to see whether finer communities are less stable."""

_AS_STABLE = 0.01
"""Differences in stability that do not count; the lowest of such resolutions is chosen, which has fewest clusters."""

_STABLE = 0.85
"""Minimum stability of flat points: communities that are only stretches of a sheet have less."""

_PEAK, _CERTAIN = 0.1, 0.95
"""Stability that is lost at finer resolutions, and stability, from which flat communities are clusters and no stretches
of a sheet. On clouds, squares, rings and moons of 1,000 and 3,000 samples no more than 0.03 is lost, and none is above
0.85, unless a cluster is a community."""

_FEW_NODES = 64
"""Among fewer flat nodes even stretches lose stability, so that only `_CERTAIN` tells clusters from them."""

_STRIDE = 4
"""Of flat points every fourth resolution is tried: joining takes time, and five resolutions suffice."""

_RADIUS = 4
"""Distance in links up to which other nodes affect a node's place in the canonical order."""


def communities(
    graph: Any,
    points: Tensor,
    counts: Tensor,
    n_clusters: int | None,
    rng: torch.Generator,
    *,
    resolution: float | None = None,
) -> tuple[Tensor, dict[str, Any]]:
    """Find clusters of nodes, as many as the graph shows or as given.

    Communities are found at every resolution of `RESOLUTIONS`, and again in five resamples with a fifth of the nodes
    left out; up to 2,000 nodes in twenty resamples. The stability of a resolution is the mean adjusted Rand index over
    samples between both, averaged with the neighbouring resolutions; with twenty resamples, half the standard deviation
    is subtracted. The most stable resolution is chosen; of those within 0.01 of it the lowest. Resolutions that leave
    every node single are excluded, since they are always stable.

    If `resolution` is given, its communities are the clusters, neither joined nor divided.

    If `n_clusters` is given, the choice is among the resolutions with that many communities. If there is none, the
    communities of the lowest resolution with more are joined, see `join_to`. Where the density of flat points shows as
    many clusters, these are taken unless so many communities have a stability of 0.95.

    If it is not given, the communities of flat points, with at most three dimensions, are first asked whether they are
    clusters or stretches of a sheet. Stretches are the more stable the more there are, clusters more stable than their
    parts: where the most stable resolution is followed by finer ones whose stability is less by 0.1, or has 0.95, its
    communities are the clusters, unless one is a single node, which is always stable. Otherwise, and among fewer than
    64 nodes that do not reach 0.95, clusters are those of the density, see `density_clusters`. If it shows none,
    communities are joined while they are no more separate than halves of one, at every fourth resolution. If none of
    these five has a stability of 0.85, the one with the highest mean index to all five is chosen: stretches of a sheet
    vary, but join to the same clusters.

    The order of nodes affects only the names of clusters, except among nodes with the same links. Resamples have at
    most 8,000 nodes. 6,000 nodes take two seconds, 20,000 a few, and half a minute if they are flat; memory is some
    copies of the graph.

    The `graph` is a float64 csr_matrix ``(m, m)``, symmetric, non-negative, with an empty diagonal, see
    `neighbour_graph`. Its nodes are at `points` ``(m, d)``, each with so many samples, at least 1, as `counts`, int64
    ``(m,)``, say. `n_clusters` is at least 1; with fewer nodes each is a cluster. A `resolution` is greater than 0, and
    given only without `n_clusters`. `rng` draws the resamples, and the order in which nodes are visited.

    Returns
    -------
    clusters : Tensor
        int64 ``(m,)``, from 0, the cluster with most samples first. A node without links is a cluster, unless
        fewer clusters are given.
    evidence : dict
        "resolution", before communities are joined or split further to reach `n_clusters`; "stability" of the clusters,
        at most 1, if it is known; "by_density", whether clusters are those of `density_clusters` instead;
        "modularity", the fraction of links within clusters above chance; the lists "resolutions", "clusters_found" (for
        flat points after joining) and "stabilities" of all resolutions tried; and "scales", see `scales_of`,
        before joining.
    """
    size = counts.double().numpy()
    order = _canonical_order(graph, size)
    graph, size, places = graph[order][:, order].tocsr(), size[order], points.double().numpy()[order]
    graph.sort_indices()
    numbers = np.random.default_rng(draw_seed(rng))
    flat = points.shape[1] <= FEW_DIMENSIONS
    by_shape = flat and n_clusters is None and resolution is None
    levels = tried = _levels(graph, size, numbers, _FINER if by_shape else () if resolution is None else (resolution,))
    peak = _peak(levels) if by_shape else None
    sure = _is_sure(levels, peak, len(size)) if by_shape else levels.has_certain(n_clusters)
    dense = _by_density(places, size, n_clusters) if flat and resolution is None and not sure else None
    if by_shape and peak is None and dense is None:
        levels = _joined(levels, graph, size)
    if resolution is not None:
        chosen = levels.resolutions.index(resolution)
    else:
        chosen = _choose(levels, n_clusters, len(size)) if peak is None else peak
    labels = levels.partitions[chosen]
    if dense is not None:
        labels = dense
    elif n_clusters is not None:
        fine = _with_at_least(graph, labels, min(n_clusters, len(size)), numbers)
        labels = join_to(graph, fine, n_clusters, places, size)
    is_level = np.array_equal(renamed(labels), renamed(levels.partitions[chosen]))
    stable = levels.stability[chosen] if is_level else None
    listed = zip(tried.resolutions, tried.partitions, tried.stability, strict=True)
    scales = scales_of(listed, size, labels, stable)
    evidence = {
        "resolution": levels.resolutions[chosen],
        **chosen_stability(scales),
        "by_density": dense is not None,
        "modularity": modularity(graph, labels),
        "resolutions": list(levels.resolutions),
        "clusters_found": levels.found,
        "stabilities": levels.stability,
        "scales": scales,
    }
    clusters = torch.empty(len(size), dtype=torch.int64)
    clusters[torch.from_numpy(order)] = torch.from_numpy(largest_first(labels, size))
    return clusters, evidence


@dataclass(frozen=True)
class _Levels:
    """Communities of all nodes at every resolution, in order, with their stability."""

    resolutions: tuple[float, ...]
    partitions: list[CommunityLabels]
    stability: list[float]

    @property
    def found(self) -> list[int]:
        """Number of communities at each resolution."""
        return [int(partition.max()) + 1 for partition in self.partitions]

    def has_certain(self, n_clusters: int | None) -> bool:
        """Return whether so many communities are stable at some resolution."""
        certain = [own for own, stable in zip(self.found, self.stability, strict=True) if stable >= _CERTAIN]
        return n_clusters in certain


def _levels(graph: Any, size: NDArray[np.float64], numbers: np.random.Generator, more: tuple[float, ...]) -> _Levels:
    """Find communities at the usual resolutions and `more`, and how stable they are."""
    resolutions = tuple(sorted({*RESOLUTIONS, *more}))
    partitions = at_resolutions(graph, numbers, resolutions)
    return _Levels(resolutions, partitions, stabilities(graph, size, partitions, numbers, resolutions))


def _joined(levels: _Levels, graph: Any, size: NDArray[np.float64]) -> _Levels:
    """Return every fourth resolution of flat points, communities joined while they are halves of one."""
    some = slice(0, len(RESOLUTIONS), _STRIDE)
    partitions, stability = join_similar(graph, levels.partitions[some]), levels.stability[some]
    stability = stability if max(stability) >= _STABLE else consensus(partitions, size)
    return _Levels(levels.resolutions[some], partitions, stability)


def _is_sure(levels: _Levels, peak: int | None, nodes: int) -> bool:
    """Return whether flat communities at the resolution `peak` are clusters, so that density is not asked."""
    return peak is not None and (nodes >= _FEW_NODES or levels.stability[peak] >= _CERTAIN)


def _by_density(
    places: NDArray[np.float64], size: NDArray[np.float64], n_clusters: int | None
) -> CommunityLabels | None:
    """Return the clusters that the density of flat points shows, if there are any, and as many as are given."""
    dense = density_clusters(torch.from_numpy(places), torch.from_numpy(size))
    return dense if dense is not None and n_clusters in (None, int(dense.max()) + 1) else None


def _canonical_order(graph: Any, size: NDArray[np.float64]) -> CommunityLabels:
    """Return an order of nodes that does not depend on their numbering: by strength, then by the neighbours'."""
    keys = [size]
    strength = np.ones(len(size))
    for _ in range(_RADIUS):
        strength = graph @ strength
        strength = strength / max(float(strength.max()), np.finfo(float).tiny)
        keys.append(strength.round(9))
    order: CommunityLabels = np.lexsort(keys)
    return order


def _choose(levels: _Levels, n_clusters: int | None, nodes: int) -> int:
    """Return the index of the resolution to use."""
    found, stability = levels.found, levels.stability
    fitting = list(range(len(found)))
    if n_clusters is None:
        fitting = [i for i in fitting if found[i] < nodes] or fitting
    else:
        exact = [i for i in fitting if found[i] == n_clusters]
        more = [i for i in fitting if found[i] > n_clusters][:1]
        fitting = exact or more or fitting[-1:]
    best = max(stability[i] for i in fitting)
    return next(i for i in fitting if stability[i] >= best - _AS_STABLE)


def _peak(levels: _Levels) -> int | None:
    """Return the index of the most stable resolution of flat points; ``None`` if its communities are no clusters."""
    stability, sizes = levels.stability, [np.bincount(partition) for partition in levels.partitions]
    fitting = [i for i, nodes in enumerate(sizes) if 1 < len(nodes) < nodes.sum()]
    best = max(fitting, key=stability.__getitem__, default=None)
    if best is None or sizes[best].min() == 1:
        return None
    lost = stability[best] - min(stability[best:])
    return best if lost >= _PEAK or stability[best] >= _CERTAIN else None


def _with_at_least(graph: Any, labels: CommunityLabels, n_clusters: int, rng: np.random.Generator) -> CommunityLabels:
    """Return the communities, or those of a higher resolution if they are fewer than `n_clusters`."""
    resolution = RESOLUTIONS[-1]
    while labels.max() + 1 < n_clusters:
        resolution *= 2
        labels = louvain(graph, resolution, rng)
    return labels


def modularity(graph: Any, labels: CommunityLabels) -> float:
    """Return the modularity: the fraction of links within clusters above that expected by chance; 0 without links."""
    total = float(graph.sum())
    if not total:
        return 0.0
    strength = np.asarray(graph.sum(axis=1)).ravel()
    within = float(condensed(graph, labels).diagonal().sum()) / total
    return within - float(((np.bincount(labels, weights=strength) / total) ** 2).sum())
