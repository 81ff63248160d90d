"""How good clusters are, as far as that can be known without truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean, stdev

import numpy as np
from sklearn.metrics import silhouette_score

from fedkin.clustering.metrics import Labels, adjusted_rand
from fedkin.studies.compare.neighbour_links import NeighbourLinks, SamplePoints, kept
from fedkin.studies.compare.null_model import KappaFloor
from fedkin.studies.compare.spaces import Space

NO_FLOOR = KappaFloor()
_WEIGHTS = (2, 1)
"""Of links among all clients, and of links within clients."""


def stability(runs: Sequence[Labels]) -> float | None:
    """Mean agreement (ARI) of the clusters of the same samples or clients in every two runs; ``None`` for one run."""
    return mean(agreement(one, other) for one, other in combinations(runs, 2)) if len(runs) > 1 else None


def cohesion(space: Space, labels: Labels) -> float:
    """How far clusters keep neighbours together: two thirds by links among all clients, a third within clients.

    The first alone would miss a client's own neighbourhoods, the second would call clients good clusters.

    Parameters
    ----------
    space : Space
    labels : ndarray
        int64 ``(m,)``: clusters of the space's samples, -1 for none.
    """
    return _cohesion(space.links, space.floors, labels)


def _cohesion(links: Sequence[NeighbourLinks], floors: Sequence[KappaFloor], labels: Labels) -> float:
    each = [togetherness(one, labels, floor) for one, floor in zip(links, floors, strict=True)]
    return float(np.average(each, weights=_WEIGHTS))


def togetherness(links: NeighbourLinks, labels: Labels, floor: KappaFloor = NO_FLOOR) -> float:
    """Square of Cohen's kappa of the links' ends above its floor, times half the root of clusters in bits.

    Kappa is the fraction of links that stay within a cluster, less what clusters of these sizes keep by chance, as a
    part of what could be kept above chance. What counts of it is above that of as many clusters of points without
    structure, again as a part of what could be; where there is nothing, the value is 0. Joining clusters that lie apart
    costs no kappa, so that more clusters score higher where they are as sure: 2 keep at most 0.5, 16 at most 1. What
    the number counts is clusters of one size that keep as many links by chance: a large cluster and a few samples
    beside it are little more than one. Links of samples without a cluster are left out.
    """
    found = kept(links, labels)
    return 0.5 * math.sqrt(math.log2(found.number)) * floor.above(found) ** 2 if found else 0.0


def spread(space: Space, runs: Sequence[Labels], halves: int = 12) -> float:
    """Standard error of the mean cohesion of `runs`: its standard deviation over random halves of the samples.

    A half drawn without replacement varies around the whole as the whole varies around the population it is from.
    """
    rng = np.random.default_rng(0)
    count = len(space.rows)
    values = []
    for _ in range(halves):
        drawn = np.zeros(count, dtype=bool)
        drawn[rng.permutation(count)[: count // 2]] = True
        links = [NeighbourLinks(each.here[drawn[each.here]], each.there[drawn[each.here]]) for each in space.links]
        values.append(mean(_cohesion(links, space.floors, labels) for labels in runs))
    return stdev(values)


def silhouette(points: SamplePoints, labels: Labels) -> float:
    """Mean silhouette of the points that have a cluster, in [-1, 1]; 0 where all are in one, or each in its own."""
    known = labels >= 0
    found = labels[known]
    return float(silhouette_score(points[known], found)) if 2 <= len(np.unique(found)) < len(found) else 0.0


def consensus(runs: Sequence[Labels], others: Mapping[str, Sequence[Labels]]) -> float | None:
    """Mean agreement (ARI) with the clusters of each other method; ``None`` without another.

    Parameters
    ----------
    runs : sequence of ndarray
        Clusters of the same samples or clients by one method, run by run.
    others : mapping of str to sequence of ndarray
        The same of other methods; each counts once, however many runs it has.
    """
    each = [mean(agreement(one, other) for one in runs for other in theirs) for theirs in others.values() if theirs]
    return mean(each) if each else None


def agreement(one: Labels, other: Labels) -> float:
    """ARI over those that have a cluster in both; 0 where nobody has."""
    both = (one >= 0) & (other >= 0)
    return adjusted_rand(one[both], other[both]) if both.any() else 0.0
