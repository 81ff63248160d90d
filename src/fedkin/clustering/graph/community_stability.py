"""Communities of a graph at several resolutions, and how stable they are when random nodes are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.clustering.graph.louvain import CommunityLabels, condensed, louvain

_RESAMPLES, _OF_FEW, _FEW = 5, 20, 2_000
"""Number of resamples; the number for small graphs, which vary more; and the maximum nodes of a small graph."""

_KEPT, _MAX_KEPT = 0.8, 8_000
"""Fraction of the nodes in a resample, and their maximum number."""

_FINE = 4.0
"""Resolution of the communities that all others are composed of: about 60 on images of ten classes."""

_CAUTION = 0.5
"""Standard deviations subtracted from a mean of twenty indices: clusters that sometimes fall apart are not stable. With
five resamples the estimate is too rough."""


def at_resolutions(graph: Any, rng: np.random.Generator, resolutions: Sequence[float]) -> list[CommunityLabels]:
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


def stabilities(
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
        again = at_resolutions(graph[stayed][:, stayed].tocsr(), rng, resolutions)
        row[:] = [weighted_rand(a[stayed], b, size[stayed]) for a, b in zip(partitions, again, strict=True)]
    lower = np.pad(indices.mean(0) - caution * indices.std(0), 1, mode="edge")
    return [float(value) for value in (lower[:-2] + lower[1:-1] + lower[2:]) / 3]


def consensus(partitions: Sequence[CommunityLabels], size: NDArray[np.float64]) -> list[float]:
    """Return the mean adjusted Rand index of every resolution's clusters to those of all resolutions."""
    return [float(np.mean([weighted_rand(clusters, others, size) for others in partitions])) for clusters in partitions]


def weighted_rand(a: CommunityLabels, b: CommunityLabels, size: NDArray[np.float64]) -> float:
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
