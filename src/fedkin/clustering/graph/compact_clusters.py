"""Compact clusters of nodes in a space of which some dimensions are made of the discrete columns of a table.

Combinations of a few categories are places, each with many nodes. Communities and density take the places, or stretches
of them, for clusters, and are sure of it: resamples have the same places. What places cannot do is lie together in
groups that are far from each other, so k-means finds the clusters, and the silhouette their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.graph.communities import FEW_DIMENSIONS
from fedkin.clustering.graph.ward import MOST_FOUND, PER_CLUSTER, as_found, silhouette
from fedkin.clustering.k_means import k_means

_LOOKED_AT = 500
"""Nodes whose silhouettes are computed, at most."""
_DRAWS, _STARTS = 3, 2
"""Draws of normal and of uniform points each, and starts of k-means on each; more take a second and change little."""
_TRIED = 3
"""Starts of k-means for each number that is tried; ten follow for that which is taken."""


def compact_clusters(
    points: Tensor,
    counts: Tensor,
    n_clusters: int | None,
    all_discrete: bool,
    clusters: Tensor,
    evidence: dict[str, Any],
    rng: torch.Generator,
) -> tuple[Tensor, dict[str, Any]]:
    """Return clusters by k-means, into the given number or that with the greatest silhouette, else `clusters`.

    If `n_clusters` is not given and all columns are discrete, the number is one more than there are dimensions: columns
    that vary independently within clusters share so many directions. Else it is that with the greatest silhouette, of 2
    to 10. The clusters are taken if their silhouette exceeds that of `clusters`, and those of normal and of uniform
    points with the same covariance, drawn three times each, each with its own best number. They are also taken if all
    columns are discrete and `clusters` are more than that. `clusters` that density has found stay, with a given number,
    too, where some columns are continuous. In more than three dimensions no number is found: the greatest silhouette
    is often of two clusters, where the graph shows three of unequal size.

    `points` are float32 ``(m, d)``, and `counts`, int64 ``(m,)``, the samples of each. `clusters`, int64 ``(m,)``, are
    what the graph shows, and `evidence` that for them, see `communities`. `rng` draws seeds and normal points. Clusters
    are returned as int64 ``(m,)``, from 0, the one with most samples first, with the evidence, "compact" and, if the
    number was found, the "silhouette".
    """
    if evidence["by_density"] and not all_discrete:
        return clusters, evidence
    if n_clusters is not None:
        return as_found(_found(points, counts, n_clusters, rng).numpy(), counts, evidence, compact=True)
    most, allowed = min(MOST_FOUND, len(points) // PER_CLUSTER), points.shape[1] + 1
    if most < allowed or points.shape[1] > FEW_DIMENSIONS:
        return clusters, evidence
    looked_at = torch.randperm(len(points), generator=rng)[:_LOOKED_AT]
    reached, labels = _best(points, counts, [allowed] if all_discrete else range(2, most + 1), looked_at, rng)
    if not (all_discrete and clusters.max() >= allowed):
        least = _silhouette(points[looked_at], clusters[looked_at])
        if reached <= least or reached <= _by_chance(points[looked_at], most, rng):
            return clusters, evidence
    return as_found(labels.numpy(), counts, evidence, compact=True, silhouette=reached)


def _best(
    points: Tensor, counts: Tensor, numbers: Iterable[int], looked_at: Tensor, rng: torch.Generator
) -> tuple[float, Tensor]:
    """Return the greatest silhouette of clusters of any of the numbers, and these clusters."""

    def reached(labels: Tensor) -> float:
        return _silhouette(points[looked_at], labels[looked_at])

    number = max(numbers, key=lambda each: reached(_found(points, counts, each, rng, _TRIED)))
    labels = _found(points, counts, number, rng)
    return reached(labels), labels


def _found(points: Tensor, counts: Tensor, number: int, rng: torch.Generator, n_init: int = 10) -> Tensor:
    return k_means(points.double(), number, rng, n_init, weights=counts).labels


def _silhouette(points: Tensor, labels: Tensor) -> float:
    return silhouette(points.numpy(), labels.numpy())


def _by_chance(points: Tensor, most: int, rng: torch.Generator) -> float:
    """Return the best silhouette of normal and of uniform points, as many as `points` and with their covariance."""
    variances, axes = torch.linalg.eigh(torch.cov(points.double().T))
    scaled, even = axes * variances.clamp_min(0).sqrt(), torch.ones(len(points))
    best = -1.0
    for _ in range(_DRAWS):
        normal = torch.randn(points.shape, generator=rng, dtype=torch.float64)
        uniform = (torch.rand(points.shape, generator=rng, dtype=torch.float64) - 0.5) * 12**0.5
        for drawn in (normal @ scaled.T, uniform @ scaled.T):
            divisions = (_found(drawn, even, number, rng, _STARTS) for number in range(2, most + 1))
            best = max(best, *(_silhouette(drawn, labels) for labels in divisions))
    return best
