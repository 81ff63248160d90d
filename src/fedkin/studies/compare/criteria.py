"""How good clusters are, as far as that can be known without truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean, stdev

import numpy as np
from sklearn.metrics import silhouette_score

from fedkin.clustering.metrics import Labels, adjusted_rand
from fedkin.studies.compare.spaces import NeighbourLinks, SamplePoints, Space


def stability(runs: Sequence[Labels]) -> float | None:
    """Mean agreement (ARI) of the clusters of the same samples or clients in every two runs; ``None`` for one run."""
    return mean(agreement(one, other) for one, other in combinations(runs, 2)) if len(runs) > 1 else None


def cohesion(space: Space, labels: Labels) -> float:
    """How far clusters keep neighbours together: the mean of `togetherness` over all clients and within clients.

    The first alone would miss a client's own neighbourhoods, the second would call clients good clusters.

    Parameters
    ----------
    space : Space
    labels : ndarray
        int64 ``(m,)``: clusters of the space's samples, -1 for none.
    """
    return mean(togetherness(links, labels) for links in space.links)


def togetherness(links: NeighbourLinks, labels: Labels) -> float:
    """Modularity of the clusters in the graph of links, times the square of Cohen's kappa of the links' ends.

    Modularity is the fraction of links that stay within a cluster less the fraction that clusters of these sizes keep
    by chance; kappa is the same as a part of what could be kept above chance. Both are 0 for a single cluster and in
    expectation for random clusters. Modularity is below ``1 - 1 / k`` for k clusters, so that alone it prefers many,
    kappa prefers few. Where clusters keep fewer links than by chance, the value is 0. Links of samples without a
    cluster are left out.
    """
    known = (labels[links.here] >= 0) & (labels[links.there] >= 0)
    if not known.any():
        return 0.0
    _, own = np.unique(labels, return_inverse=True)
    here, there = own[links.here[known]], own[links.there[known]]
    sizes = (np.bincount(ends, minlength=own.max() + 1) / len(ends) for ends in (here, there))
    by_chance = float(np.dot(*sizes))
    modularity = float(np.mean(here == there)) - by_chance
    return modularity * max(0.0, modularity / (1 - by_chance)) ** 2 if by_chance < 1 else 0.0


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
        values.append(mean(togetherness(each, labels) for each in links for labels in runs))
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
