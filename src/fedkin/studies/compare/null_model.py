"""Null model of cohesion: the kappa that clusters of points without structure reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans

from fedkin.studies.compare.neighbour_links import KeptLinks, SamplePoints, kept, linked

_NUMBERS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_DRAWS = 3
_FEWEST = 5
"""Points of a cluster on average, at least."""
_HIGHEST = 0.99


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
