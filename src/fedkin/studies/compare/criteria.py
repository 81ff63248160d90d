"""How good clusters are, as far as that can be known without truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean

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
    """Share of links that stay within a cluster, above what clusters of these sizes would keep by chance.

    That is modularity: 0 for a single cluster and in expectation for clusters at random, below ``1 - 1 / k`` for k
    clusters. So few clusters cannot score high, and to cut through a dense place costs. Links of samples without a
    cluster are left out.
    """
    known = (labels[links.here] >= 0) & (labels[links.there] >= 0)
    if not known.any():
        return 0.0
    _, own = np.unique(labels, return_inverse=True)
    here, there = own[links.here[known]], own[links.there[known]]
    sizes = (np.bincount(ends, minlength=own.max() + 1) / len(ends) for ends in (here, there))
    return float(np.mean(here == there) - np.dot(*sizes))


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
