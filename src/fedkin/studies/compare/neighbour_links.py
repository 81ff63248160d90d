"""Links between neighbouring samples: how well clusters keep them, and how well where points have no structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from fedkin.clustering.metrics import Labels

_OF_ALL, _OF_CLIENT = 15, 10
"""Nearest neighbours among the samples of all clients, and among those of a sample's own client."""

_NUMBERS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_DRAWS = 3
_FEWEST = 5
"""Points of a cluster on average, at least."""
_HIGHEST = 0.99

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
    within = [_near(points, np.arange(start, end), _OF_CLIENT) for start, end in pairwise([0, *accumulate(sizes)])]
    at_client = NeighbourLinks(*(np.concatenate([getattr(one, end) for one in within]) for end in ("here", "there")))
    return _near(points, np.arange(len(points)), _OF_ALL), at_client


def _near(points: SamplePoints, members: Places, count: int) -> NeighbourLinks:
    """Link each of `members` to its `count` nearest neighbours among them."""
    count = min(count, len(members) - 1)
    if count < 1:
        return NeighbourLinks(members[:0], members[:0])
    found = NearestNeighbors(n_neighbors=count).fit(points[members]).kneighbors(return_distance=False)
    return NeighbourLinks(np.repeat(members, count), members[found].ravel())


@dataclass(frozen=True)
class KappaFloor:
    """Kappa that clusters of points without structure reach, by the logarithms of numbers of clusters, which ascend.

    Both are empty if unknown, and the floor is then 0. Kappas are at least 0 and below 1.
    """

    logs: tuple[float, ...] = ()
    kappas: tuple[float, ...] = ()

    def at(self, number: float) -> float:
        """Interpolate the floor for a number of clusters; constant beyond the known numbers."""
        return float(np.interp(np.log(number), self.logs, self.kappas)) if self.logs else 0.0

    def above(self, found: KeptLinks) -> float:
        """Rescale kappa so that the floor becomes 0 and perfect agreement 1; at least 0."""
        floor = self.at(found.number)
        return max(0.0, (found.kappa - floor) / (1 - floor))


def floors_of(points: SamplePoints, sizes: Sequence[int]) -> tuple[KappaFloor, KappaFloor]:
    """Estimate the floors of links among all clients and of links within clients, by k-means of normal points.

    The points are drawn three times, as many at each client as there are, from one normal distribution with the mean
    and covariance of all. In few dimensions their clusters keep many links, and the more, the fewer clusters there are.
    `points` ``(m, width)`` come client after client, so many of each as `sizes` say.
    """
    rng = np.random.default_rng(0)
    found: dict[int, list[tuple[KeptLinks | None, KeptLinks | None]]] = {}
    numbers = [number for number in _NUMBERS if number * _FEWEST <= len(points)] if np.ptp(points, axis=0).any() else []
    for _ in range(_DRAWS if numbers else 0):
        drawn = normal_like(points, rng)
        everywhere, within = linked(drawn, sizes)
        for number in numbers:
            labels = KMeans(number, n_init=1, random_state=0).fit_predict(drawn).astype(np.int64)
            found.setdefault(number, []).append((kept(everywhere, labels), kept(within, labels)))
    return _floor([[one for one, _ in each] for each in found.values()]), _floor(
        [[two for _, two in each] for each in found.values()]
    )


def normal_like(points: SamplePoints, rng: np.random.Generator) -> SamplePoints:
    """Draw as many points from a normal distribution with the mean and covariance of `points`."""
    centred = (points - points.mean(axis=0)) / np.sqrt(len(points))
    drawn: SamplePoints = points.mean(axis=0) + rng.standard_normal((len(points), len(points))) @ centred
    return drawn


def _floor(draws: Sequence[Sequence[KeptLinks | None]]) -> KappaFloor:
    """Average the draws for each number of clusters."""
    means = []
    for each in draws:
        known = [one for one in each if one is not None]
        if known:
            log = float(np.mean([np.log(one.number) for one in known]))
            means.append((log, float(np.clip(np.mean([one.kappa for one in known]), 0, _HIGHEST))))
    means.sort()
    return KappaFloor(tuple(log for log, _ in means), tuple(kappa for _, kappa in means))
