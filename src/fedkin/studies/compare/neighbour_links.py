"""Links between neighbouring samples: how well clusters keep them, and how well where points have no structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from fedkin.clustering.metrics import Labels

_OF_ALL, _OF_CLIENT = 15, 10
"""Nearest neighbours among the samples of all clients, and among those of a sample's own client."""

_NUMBERS, _MORE = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20), (30, 50, 80, 120)
"""Numbers of clusters whose floor is estimated; with the second, whose clusters are often small, if these count."""
_DRAWS = 3
_FEWEST = 5
"""Points of a cluster on average, at least."""
_HIGHEST = 0.99

SamplePoints = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class NeighbourLinks:
    """Links ``(links,)`` from samples to their nearest neighbours, as positions in the scored subset.

    `allows_small` is whether clusters that are too small to keep all links of a sample are measured by what they can
    keep.
    """

    here: Places
    there: Places
    allows_small: bool = False

    def of(self, chosen: NDArray[np.bool_]) -> NeighbourLinks:
        """Return the links from the samples that are `chosen`, bool ``(m,)``."""
        kept = chosen[self.here]
        return replace(self, here=self.here[kept], there=self.there[kept])


@dataclass(frozen=True)
class KeptLinks:
    """Agreement of clusters with links: modularity, kappa, and the effective number of clusters.

    `modularity` is the fraction of links that stay within a cluster less `by_chance`, the fraction that clusters of
    these sizes keep by chance. `possible` is the fraction that they can keep: a sample in a cluster of ten has no more
    than nine neighbours there. It is 1 where links do not allow for that.
    """

    modularity: float
    by_chance: float
    possible: float = 1.0

    @property
    def kappa(self) -> float:
        """Cohen's kappa of the links' ends: modularity as a fraction of what is possible, at most 1."""
        most = self.possible - self.by_chance
        return min(1.0, self.modularity / most) if most > 0 else 0.0

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
    possible = _possible(links.here[known], own) if links.allows_small else 1.0
    return KeptLinks(float(np.mean(here == there)) - by_chance, by_chance, possible)


def _possible(here: Places, labels: Places) -> float:
    """Return the fraction of links from `here` that could stay within clusters of these sizes."""
    others = np.bincount(labels)[labels] - 1
    links = np.bincount(here, minlength=len(labels))
    return float(np.minimum(links, others).sum() / len(here))


def linked(
    points: SamplePoints, sizes: Sequence[int], allows_small: bool = True
) -> tuple[NeighbourLinks, NeighbourLinks]:
    """Link points ``(m, width)`` to their nearest neighbours among all clients, and among the same client's.

    Points come client after client, so many of each as `sizes` say. The first links may allow for small clusters. The
    second do not: of a cluster a client may have few points, as of every piece of a curved one.
    """
    within = [_near(points, np.arange(start, end), _OF_CLIENT) for start, end in pairwise([0, *accumulate(sizes)])]
    here, there = (np.concatenate(ends) for ends in zip(*within, strict=True))
    everywhere = NeighbourLinks(*_near(points, np.arange(len(points)), _OF_ALL), allows_small)
    return everywhere, NeighbourLinks(here, there)


def _near(points: SamplePoints, members: Places, count: int) -> tuple[Places, Places]:
    """Link each of `members` to its `count` nearest neighbours among them; return the links' ends."""
    count = min(count, len(members) - 1)
    if count < 1:
        return members[:0], members[:0]
    found = NearestNeighbors(n_neighbors=count).fit(points[members]).kneighbors(return_distance=False)
    return np.repeat(members, count), members[found].ravel()


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


def floors_of(points: SamplePoints, sizes: Sequence[int], allows_small: bool = True) -> tuple[KappaFloor, KappaFloor]:
    """Estimate the floors of links among all clients and of links within clients, by k-means of normal points.

    The points are drawn three times, as many at each client as there are, from one normal distribution with the mean
    and covariance of all. In few dimensions their clusters keep many links, and the more, the fewer clusters there are.
    `points` ``(m, width)`` come client after client, so many of each as `sizes` say.
    """
    rng = np.random.default_rng(0)
    found: dict[int, list[tuple[KeptLinks | None, KeptLinks | None]]] = {}
    asked = (_NUMBERS + _MORE if allows_small else _NUMBERS) if np.ptp(points, axis=0).any() else ()
    numbers = [number for number in asked if number * _FEWEST <= len(points)]
    for _ in range(_DRAWS if numbers else 0):
        drawn = normal_like(points, rng)
        everywhere, within = linked(drawn, sizes, allows_small)
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
