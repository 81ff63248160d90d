"""Test whether clusters are better than chance, by a p-value over simulated samples without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import mean

import numpy as np
import torch
from scipy import sparse
from sklearn.cluster import KMeans

from fedkin.clustering.graph.louvain import louvain
from fedkin.clustering.metrics import Labels
from fedkin.studies.compare.criteria import cohesion
from fedkin.studies.compare.one_peak_samples import Numbers, OnePeakSamples
from fedkin.studies.compare.prepared_samples import Block
from fedkin.studies.compare.spaces import Space, points_of, space_of_points

TIMES = 19
"""How often samples without clusters are drawn: enough for p = 0.05."""
SIGNIFICANT = 0.05
_NUMBERS = (2, 3, 4, 6, 8, 12, 20)
"""Numbers of clusters of the k-means on samples without clusters."""
MAX_ROWS = 600
"""Samples that are looked at, which are enough for what shows."""


@dataclass(frozen=True)
class ChanceTest:
    """Result of the test against chance: the best cohesion on the data, and on simulated samples without clusters.

    `by_chance` is the mean over the simulations, and `as_good` the number of these, of `TIMES`, whose best cohesion is
    at least the one `reached`. `space` says what these cohesions are computed in, which is not that of a ranking.
    """

    reached: float
    by_chance: float
    as_good: int
    space: str = "single columns"

    @property
    def p(self) -> float:
        """Probability of a cohesion that high in data without clusters, at least 1 / (`TIMES` + 1)."""
        return (1 + self.as_good) / (1 + TIMES)

    @property
    def passed(self) -> bool:
        """Whether the clusters are better than chance."""
        return self.p <= SIGNIFICANT and self.reached > 0


def chance_test(
    x: Numbers,
    blocks: Sequence[Block],
    sizes: Sequence[int],
    found: Sequence[Sequence[Labels]],
    named: str = "single columns",
) -> ChanceTest:
    """Test the most cohesive clusters of the data against the most cohesive ones of samples without clusters.

    These samples are simulated by `OnePeakSamples`, which keeps each column's skew and tails and the correlations but
    no clusters. Their best clusters are those of k-means with several numbers, and of Louvain's method on the graph of
    neighbours.

    `x`, float64 ``(m, width)``, has samples in order of client, so many of each as `sizes` say; at most 600 of them,
    evenly spaced, are used. `blocks` say which of its columns come from one original column. `found` has by candidate
    the clusters of the samples run by run: int64 ``(m,)``, -1 for none. `named` is the `ChanceTest.space`.
    """
    rows = np.arange(len(x)) if len(x) <= MAX_ROWS else np.linspace(0, len(x) - 1, MAX_ROWS).astype(np.int64)
    x = x[rows]
    ends = [0, *accumulate(sizes)]
    sizes = [int(np.count_nonzero((rows >= start) & (rows < end))) for start, end in pairwise(ends)]
    # Columns of few values make small heaps, in samples without clusters, too.
    space = space_of_points(rows, points_of(torch.from_numpy(x), "raw"), sizes, allows_small=False)
    reached = max(mean(cohesion(space, labels[rows]) for labels in runs) for runs in found)
    rng, samples = np.random.default_rng(0), OnePeakSamples(x, blocks)
    drawn = []
    for _ in range(TIMES):
        points = points_of(torch.from_numpy(samples.drawn(rng)), "raw")
        drawn.append(_best_cohesion(space_of_points(rows, points, sizes, space.floors, allows_small=False), rng))
    return ChanceTest(reached, mean(drawn), sum(each >= reached for each in drawn), named)


def _best_cohesion(space: Space, rng: np.random.Generator) -> float:
    distinct = len(np.unique(space.points, axis=0))
    numbers = [number for number in _NUMBERS if number < len(space.rows) and number <= distinct]
    found = [KMeans(number, n_init=2, random_state=0).fit_predict(space.points).astype(np.int64) for number in numbers]
    count, links = len(space.rows), space.links[0]
    graph = sparse.csr_matrix((np.ones(len(links.here)), (links.here, links.there)), shape=(count, count))
    return max(cohesion(space, labels) for labels in (*found, louvain(graph + graph.T, 1.0, rng)))
