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

SamplePoints = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class NeighbourLinks:
    """Links ``(links,)`` from samples to their nearest neighbours, as positions in the scored subset."""

    here: Places
    there: Places


@dataclass(frozen=True)
class KeptLinks:
    """Agreement of clusters with links: modularity, kappa, and the effective number of clusters.

    `modularity` is the fraction of links that stay within a cluster less `by_chance`, the fraction that clusters of
    these sizes keep by chance.
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
    known = (labels[links.here] >= 0) & (labels[links.there] >= 0)
    if not known.any():
        return None
    _, own = np.unique(labels, return_inverse=True)
    here, there = own[links.here[known]], own[links.there[known]]
    sizes = (np.bincount(ends, minlength=own.max() + 1) / len(ends) for ends in (here, there))
    by_chance = float(np.dot(*sizes))
    return KeptLinks(float(np.mean(here == there)) - by_chance, by_chance)


def linked(points: SamplePoints, sizes: Sequence[int]) -> tuple[NeighbourLinks, NeighbourLinks]:
    """Link points ``(m, width)`` to their nearest neighbours among all clients, and among the same client's.

    Points come client after client, so many of each as `sizes` say.
    """
    within = [_near(points, np.arange(start, end), _OF_SITE) for start, end in pairwise([0, *accumulate(sizes)])]
    at_client = NeighbourLinks(*(np.concatenate([getattr(one, end) for one in within]) for end in ("here", "there")))
    return _near(points, np.arange(len(points)), _OF_ALL), at_client


def _near(points: SamplePoints, members: Places, count: int) -> NeighbourLinks:
    """Link each of `members` to its `count` nearest neighbours among them."""
    count = min(count, len(members) - 1)
    if count < 1:
        return NeighbourLinks(members[:0], members[:0])
    found = NearestNeighbors(n_neighbors=count).fit(points[members]).kneighbors(return_distance=False)
    return NeighbourLinks(np.repeat(members, count), members[found].ravel())
