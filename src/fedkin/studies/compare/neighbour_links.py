"""Links between neighbouring samples, and how well clusters keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from fedkin.clustering.metrics import Labels

_OF_ALL, _OF_SITE = 15, 10
"""Nearest neighbours among the samples of all clients, and among those of a sample's own client."""
_OF_CLUSTER, _FEWEST = 2.5, 0.4
"""Samples of a cluster, on average, for each of its links to nearest neighbours; and the fraction of these links that
counts however small clusters are. More links than a cluster has members must leave it."""

SamplePoints = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class NeighbourLinks:
    """Links from samples to their nearest neighbours, as positions in the scored subset.

    Attributes
    ----------
    here, there : ndarray
        int64 ``(links,)``.
    rank : ndarray
        int64 ``(links,)``: 0 for the link to the nearest neighbour, 1 for that to the second nearest, and so on.
    samples : int
        How many samples were linked.
    """

    here: Places
    there: Places
    rank: Places
    samples: int

    def within(self, number: int) -> NeighbourLinks:
        """Return the nearest links, as many of each sample as `number` equally large clusters could keep."""
        most = int(self.rank.max(initial=0)) + 1
        fitting = self.samples / (_OF_CLUSTER * _OF_ALL * max(number, 1))
        counted = self.rank < max(1, round(most * min(1.0, max(_FEWEST, fitting))))
        return NeighbourLinks(self.here[counted], self.there[counted], self.rank[counted], self.samples)

    def among(self, chosen: NDArray[np.bool_]) -> NeighbourLinks:
        """Return the links that begin at `chosen` samples, bool ``(m,)``."""
        counted = chosen[self.here]
        return NeighbourLinks(self.here[counted], self.there[counted], self.rank[counted], self.samples)


@dataclass(frozen=True)
class KeptLinks:
    """Agreement of clusters with links: modularity, kappa, and the effective number of clusters.

    Attributes
    ----------
    modularity : float
        The fraction of links that stay within a cluster less `by_chance`.
    by_chance : float
        The fraction that clusters of these sizes keep by chance, in [0, 1].
    """

    modularity: float
    by_chance: float

    @property
    def kappa(self) -> float:
        """Cohen's kappa of the links' ends: modularity as a fraction of its maximum, at most 1."""
        return self.modularity / (1 - self.by_chance) if self.by_chance < 1 else 0.0

    @property
    def number(self) -> float:
        """Effective number of clusters: how many of equal size keep as many links by chance."""
        return max(1.0, 1 / self.by_chance) if self.by_chance > 0 else 1.0


def kept(links: NeighbourLinks, labels: Labels) -> KeptLinks | None:
    """Measure how well clusters keep the links between clustered samples; ``None`` without such links."""
    links = links.within(len(np.unique(labels[labels >= 0])))
    known = (labels[links.here] >= 0) & (labels[links.there] >= 0)
    if not known.any():
        return None
    _, own = np.unique(labels, return_inverse=True)
    here, there = own[links.here[known]], own[links.there[known]]
    sizes = (np.bincount(ends, minlength=own.max() + 1) / len(ends) for ends in (here, there))
    by_chance = float(np.dot(*sizes))
    return KeptLinks(float(np.mean(here == there)) - by_chance, by_chance)


def linked(points: SamplePoints, sizes: Sequence[int]) -> tuple[NeighbourLinks, NeighbourLinks]:
    """Link points to their nearest neighbours among all clients, and among the same client's.

    Parameters
    ----------
    points : ndarray
        float64 ``(m, width)``, client after client.
    sizes : sequence of int
        Points of each client.
    """
    ends = [0, *accumulate(sizes)]
    at_clients = [_near(points, np.arange(start, end), _OF_SITE) for start, end in pairwise(ends)]
    return _near(points, np.arange(len(points)), _OF_ALL), _together(at_clients, len(points))


def _near(points: SamplePoints, members: Places, count: int) -> NeighbourLinks:
    """Link each of `members` to its `count` nearest neighbours among them."""
    count = min(count, len(members) - 1)
    if count < 1:
        return NeighbourLinks(members[:0], members[:0], members[:0], len(members))
    found = NearestNeighbors(n_neighbors=count).fit(points[members]).kneighbors(return_distance=False)
    rank = np.tile(np.arange(count), len(members))
    return NeighbourLinks(np.repeat(members, count), members[found].ravel(), rank, len(members))


def _together(parts: Sequence[NeighbourLinks], samples: int) -> NeighbourLinks:
    """Join the links of several clients."""
    here, there, rank = (np.concatenate([getattr(part, name) for part in parts]) for name in ("here", "there", "rank"))
    return NeighbourLinks(here, there, rank, samples)
