"""Community detection on kin-graph's graph, at a resolution that is chosen by stability.

A community, a cluster of kin-graph, is a set of nodes with more links among them than expected by chance. How many more
is the resolution, which determines the number of communities. The resolution chosen is the one whose communities change
least when random nodes are left out: a clustering that depends on which samples were drawn is no property of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.clustering.community_joining import FEW_DIMENSIONS, join_similar, join_to
from fedkin.clustering.community_scales import largest_first, scales_of
from fedkin.clustering.dense_nodes import density_clusters
from fedkin.clustering.louvain import CommunityLabels, condensed, louvain
from fedkin.core.seeds import draw_seed

RESOLUTIONS: tuple[float, ...] = tuple(float(r) for r in np.geomspace(0.05, 2.0, 17).round(4))
"""Resolutions to try. At the lowest, clusters with less than a twentieth of chance's links stay separate."""

_FINER: tuple[float, ...] = tuple(float(r) for r in np.geomspace(RESOLUTIONS[-1], 8.0, 7).round(4))[1:]
"""Resolutions to try besides for flat points, to see whether finer communities are less stable."""

_RESAMPLES, _OF_FEW, _FEW = 5, 20, 2_000
"""Number of resamples; the number for small graphs, which vary more; and the maximum nodes of a small graph."""

_KEPT, _MAX_KEPT = 0.8, 8_000
"""Fraction of the nodes in a resample, and their maximum number."""

_FINE = 4.0
"""Resolution of the communities that all others are composed of: about 60 on images of ten classes."""

_CAUTION = 0.5
"""Standard deviations subtracted from a mean of twenty indices: clusters that sometimes fall apart are not stable. With
five resamples the estimate is too rough."""

_AS_STABLE, _MOST_AS_STABLE, _CLEAR = 0.01, 0.1, 0.85
"""Differences in stability that do not count; the lowest of such resolutions is chosen, which has fewest clusters. If
the best is below 0.85, what it lacks does not count either, up to 0.1: where no clusters are clear, as in a continuum
of amounts, dozens of small ones are often a little more stable than a few."""

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
    is subtracted. The most stable resolution is chosen; of those that are about as stable, within 0.01 or what the best
    lacks to 0.85 (at most 0.1), the lowest. Resolutions that leave every node single are excluded, since they are
    always stable.

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
        "resolution" and its "stability", at most 1, both before communities are joined or split further to reach
        `n_clusters`; "by_density", whether clusters are those of `density_clusters` instead; "modularity", the fraction
        of links within clusters above chance; the lists "resolutions", "clusters_found" (for flat points after joining)
        and "stabilities" of all resolutions tried; and "scales", see `scales_of`, before joining.
    """
    size = counts.double().numpy()
    order = _canonical_order(graph, size)
    graph, size, places = graph[order][:, order].tocsr(), size[order], points.double().numpy()[order]
    graph.sort_indices()
    numbers = np.random.default_rng(draw_seed(rng))
    flat = points.shape[1] <= FEW_DIMENSIONS
    by_shape = flat and n_clusters is None and resolution is None
    more = _FINER if by_shape else () if resolution is None else (resolution,)
    resolutions = tuple(sorted({*RESOLUTIONS, *more}))
    partitions = _all_resolutions(graph, numbers, resolutions)
    stability = _stability(graph, size, partitions, numbers, resolutions)
    scales = [*zip(resolutions, partitions, stability, strict=True)]
    found = [int(partition.max()) + 1 for partition in partitions]
    peak = _peak(partitions, stability) if by_shape else None
    if by_shape:
        sure = peak is not None and (len(size) >= _FEW_NODES or stability[peak] >= _CERTAIN)
    else:
        sure = any(number == n_clusters and stable >= _CERTAIN for number, stable in zip(found, stability, strict=True))
    dense = None
    if flat and resolution is None and not sure:
        dense = density_clusters(torch.from_numpy(places), torch.from_numpy(size))
        dense = dense if dense is not None and n_clusters in (None, int(dense.max()) + 1) else None
    if by_shape and peak is None and dense is None:
        tried = slice(0, len(RESOLUTIONS), _STRIDE)
        resolutions, partitions = resolutions[tried], join_similar(graph, partitions[tried])
        stability = stability[tried]
        stability = stability if max(stability) >= _STABLE else _consensus(partitions, size)
        found = [int(partition.max()) + 1 for partition in partitions]
    if resolution is not None:
        chosen = resolutions.index(resolution)
    else:
        chosen = _choose(found, stability, n_clusters, len(size), flat) if peak is None else peak
    labels = partitions[chosen]
    if dense is not None:
        labels = dense
    elif n_clusters is not None:
        fine = _with_at_least(graph, partitions[chosen], min(n_clusters, len(size)), numbers)
        labels = join_to(graph, fine, n_clusters, places, size)
    evidence = {
        "resolution": resolutions[chosen],
        "stability": stability[chosen],
        "by_density": dense is not None,
        "modularity": modularity(graph, labels),
        "resolutions": list(resolutions),
        "clusters_found": found,
        "stabilities": stability,
        "scales": scales_of(scales, size, labels),
    }
    clusters = torch.empty(len(size), dtype=torch.int64)
    clusters[torch.from_numpy(order)] = torch.from_numpy(largest_first(labels, size))
    return clusters, evidence


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


def _all_resolutions(graph: Any, rng: np.random.Generator, resolutions: Sequence[float]) -> list[CommunityLabels]:
    """Find communities at every resolution, each composed of the same finer communities."""
    found: list[CommunityLabels] = []
    usual = [resolution for resolution in resolutions if 2 * resolution <= _FINE]
    higher = [resolution for resolution in resolutions if 2 * resolution > _FINE]
    for fineness, composed in ((_FINE, usual), (2 * resolutions[-1], higher)):
        if composed:
            fine = louvain(graph, fineness, rng)
            coarse = condensed(graph, fine)
            found += [louvain(coarse, resolution, rng)[fine] for resolution in composed]
    return found


def _stability(
    graph: Any,
    size: NDArray[np.float64],
    partitions: Sequence[CommunityLabels],
    rng: np.random.Generator,
    resolutions: Sequence[float],
) -> list[float]:
    """Return each resolution's stability: the mean ARI to resamples, smoothed over neighbouring resolutions."""
    kept = min(max(1, round(_KEPT * len(size))), _MAX_KEPT)
    resamples, caution = (_OF_FEW, _CAUTION) if len(size) <= _FEW else (_RESAMPLES, 0.0)
    indices = np.zeros((resamples, len(partitions)))
    for row in indices:
        stayed = np.sort(rng.permutation(len(size))[:kept])
        again = _all_resolutions(graph[stayed][:, stayed].tocsr(), rng, resolutions)
        row[:] = [_weighted_ari(a[stayed], b, size[stayed]) for a, b in zip(partitions, again, strict=True)]
    lower = np.pad(indices.mean(0) - caution * indices.std(0), 1, mode="edge")
    return [float(value) for value in (lower[:-2] + lower[1:-1] + lower[2:]) / 3]


def _consensus(partitions: Sequence[CommunityLabels], size: NDArray[np.float64]) -> list[float]:
    """Return the mean adjusted Rand index of every resolution's clusters to those of all resolutions."""
    return [float(np.mean([_weighted_ari(clusters, others, size) for others in partitions])) for clusters in partitions]


def _weighted_ari(a: CommunityLabels, b: CommunityLabels, size: NDArray[np.float64]) -> float:
    """Return the adjusted Rand index of two partitions of nodes of `size` samples; 1 if both have one cluster."""
    _, pairs = np.unique(a * (b.max() + 1) + b, return_inverse=True)
    total = size.sum() ** 2
    both = float((np.bincount(pairs, weights=size) ** 2).sum())
    first, second = (float((np.bincount(part, weights=size) ** 2).sum()) for part in (a, b))
    if not total or first == second == total:
        return 1.0
    chance = first * second / total
    most = (first + second) / 2
    return (both - chance) / (most - chance) if most > chance else 1.0


def _choose(found: Sequence[int], stability: Sequence[float], n_clusters: int | None, nodes: int, flat: bool) -> int:
    """Return the index of the resolution to use."""
    fitting = list(range(len(found)))
    if n_clusters is None:
        fitting = [i for i in fitting if found[i] < nodes] or fitting
    else:
        exact = [i for i in fitting if found[i] == n_clusters]
        more = [i for i in fitting if found[i] > n_clusters][:1]
        fitting = exact or more or fitting[-1:]
    best = max(stability[i] for i in fitting)
    lacks = 0.0 if flat or n_clusters is not None else min(_CLEAR - best, _MOST_AS_STABLE)
    return next(i for i in fitting if stability[i] >= best - max(_AS_STABLE, lacks))


def _peak(partitions: Sequence[CommunityLabels], stability: Sequence[float]) -> int | None:
    """Return the index of the most stable resolution of flat points; ``None`` if its communities are no clusters."""
    sizes = [np.bincount(partition) for partition in partitions]
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
