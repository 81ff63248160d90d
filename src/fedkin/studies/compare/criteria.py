"""Criteria for clusters without truth: stability, cohesion, silhouette and consensus."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean, stdev

import numpy as np
from sklearn.metrics import silhouette_score

from fedkin.clustering.metrics import Labels, adjusted_rand
from fedkin.studies.compare.neighbour_links import KappaFloor, NeighbourLinks, SamplePoints, kept
from fedkin.studies.compare.spaces import Space

NO_FLOOR = KappaFloor()
_WEIGHTS = (2, 1)
"""Of links among all clients, and of links within clients."""


def stability(runs: Sequence[Labels]) -> float | None:
    """Return the mean ARI between the clusters of every two runs; ``None`` for a single run."""
    return mean(agreement(one, other) for one, other in combinations(runs, 2)) if len(runs) > 1 else None


def cohesion(space: Space, labels: Labels) -> float:
    """Return the cohesion of clusters: how well they keep neighbouring samples together, in [0, 1].

    It is the weighted mean of `togetherness` of links among all clients (two thirds) and of links within clients (one
    third). The first alone would miss a client's own neighbourhoods; the second alone would reward clusters that equal
    clients. `labels` are the clusters of the space's samples, int64 ``(m,)``, -1 for none.
    """
    return _cohesion(space.links, space.floors, labels)


def _cohesion(links: Sequence[NeighbourLinks], floors: Sequence[KappaFloor], labels: Labels) -> float:
    each = [togetherness(one, labels, floor) for one, floor in zip(links, floors, strict=True)]
    return float(np.average(each, weights=_WEIGHTS))


def togetherness(links: NeighbourLinks, labels: Labels, floor: KappaFloor = NO_FLOOR) -> float:
    """Score how well clusters keep links together: squared kappa above its floor, weighted by the number of clusters.

    Cohen's kappa of the links' ends is the fraction of links that stay within a cluster, corrected for chance. Links
    among all clients are measured by what clusters of these sizes can keep: in one of ten a sample has nine neighbours.
    Kappa is rescaled so that the kappa of as many clusters of points without structure (the floor) becomes 0 and
    perfect agreement 1. The square of that is multiplied by half the square root of log2 of the number of clusters:
    merging separate clusters does not lower kappa, so more clusters must score higher where they are as sure; 2 score
    at most 0.5, 16 at most 1. The number is an effective one: that of clusters of one size that keep as many links by
    chance, which is little above one for a large cluster and a few samples beside it. Links of samples without a
    cluster are ignored.
    """
    found = kept(links, labels)
    return 0.5 * math.sqrt(math.log2(found.number)) * floor.above(found) ** 2 if found else 0.0


def spread(space: Space, runs: Sequence[Labels], halves: int = 12) -> float:
    """Return the standard error of the mean cohesion of `runs`: its standard deviation over random halves.

    A half of the samples, drawn without replacement, varies around all of them as these vary around the population.
    """
    rng = np.random.default_rng(0)
    count = len(space.rows)
    values = []
    for _ in range(halves):
        drawn = np.zeros(count, dtype=bool)
        drawn[rng.permutation(count)[: count // 2]] = True
        links = [each.of(drawn) for each in space.links]
        values.append(mean(_cohesion(links, space.floors, labels) for labels in runs))
    return stdev(values)


def silhouette(points: SamplePoints, labels: Labels) -> float:
    """Return the mean silhouette of clustered points, in [-1, 1]; 0 with one cluster or only singletons."""
    known = labels >= 0
    found = labels[known]
    return float(silhouette_score(points[known], found)) if 2 <= len(np.unique(found)) < len(found) else 0.0


def consensus(runs: Sequence[Labels], others: Mapping[str, Sequence[Labels]]) -> float | None:
    """Return the mean ARI with the clusters of every other method; ``None`` without another.

    `runs` are clusters of the same samples or clients by one method, run by run, and `others` the same of other
    methods; each counts once, however many runs it has.
    """
    each = [mean(agreement(one, other) for one in runs for other in theirs) for theirs in others.values() if theirs]
    return mean(each) if each else None


def agreement(one: Labels, other: Labels) -> float:
    """Return the ARI over members of a cluster in both; 0 if there are none."""
    both = (one >= 0) & (other >= 0)
    return adjusted_rand(one[both], other[both]) if both.any() else 0.0
