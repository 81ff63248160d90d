"""Clusters of points on a line: the modes of their density, as many as are more than chance (Silverman 1981).

On a line communities of nearest neighbours are stretches of equal numbers of points, wherever the density is low. With
a Gaussian kernel the number of modes never grows with the bandwidth, so that each number has a critical bandwidth, the
least with no more modes. Samples are drawn from the density at that bandwidth; if hardly any has more modes at it, then
there are more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor

from fedkin.clustering.community_scales import largest_first, scales_of
from fedkin.core.seeds import draw_seed

_BINS = 1_024
_MARGIN = 0.25
"""Empty bins at either end, as a fraction of the range, so that the ends' modes are modes."""
_HALVINGS = 30
_ROUNDING = 1e-9
"""Differences between bins, relative to the highest, that do not count."""

_MAX_MODES, _MAX_GIVEN = 12, 30
"""Maximum number of modes that are looked for, where no number is given, and where one is."""
_DRAWS = 100
_LEVEL = 0.05
"""Maximum fraction of draws that have more modes, if there are more."""
_DEPTH = 0.85
"""Maximum density in a valley, relative to the lower mode beside it: an even density has many shallow valleys."""
_MIN_SHARE = 0.05
"""Minimum fraction of the samples in every cluster that is found: single points far from all others are modes, too."""

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]


def clusters_by_modes(
    points: Tensor, counts: Tensor, n_clusters: int | None, rng: torch.Generator
) -> tuple[Tensor, dict[str, Any]]:
    """Cluster points on a line, into as many clusters as its density has modes or as given.

    Each cluster reaches from one valley of the density to the next. If `n_clusters` is given and the density does not
    show as many, they are those of k-means.

    Parameters
    ----------
    points : Tensor
        float ``(m,)``, not all equal.
    counts : Tensor
        int64 ``(m,)``, samples of each.
    n_clusters : int or None
        At least 1; with fewer different positions each is a cluster.
    rng : torch.Generator
        Draws samples, and starts k-means.

    Returns
    -------
    clusters : Tensor
        int64 ``(m,)``, from 0, the cluster with most samples first.
    evidence : dict
        As of `fedkin.clustering.graph_cut.communities`, without "modularity"; "by_modes" is whether valleys divide the
        clusters. A resolution is one over a critical bandwidth, and the stability of a number of clusters the fraction
        of draws from a density with one mode less that do not have as many.
    """
    size = counts.double().numpy()
    line = _Line(points.double().numpy(), size, np.random.default_rng(draw_seed(rng)))
    numbers = range(1, max(_MAX_MODES, min(n_clusters or 1, _MAX_GIVEN)) + 1)
    tried = [(1 / line.critical(number), line.cut(number), line.certainty(number)) for number in numbers]
    shown = [number for number in numbers if line.shows(number)]
    by_modes = n_clusters is None or n_clusters in shown
    labels = line.cut(max(shown) if n_clusters is None else n_clusters) if by_modes else line.means(n_clusters or 1)
    resolution, _, stability = tried[min(int(labels.max()) + 1, len(tried)) - 1]
    evidence = {
        "resolution": resolution,
        "stability": stability,
        "by_density": False,
        "by_modes": by_modes,
        "resolutions": [resolution for resolution, _, _ in tried],
        "clusters_found": list(numbers),
        "stabilities": [stability for _, _, stability in tried],
        "scales": scales_of(tried, size, labels),
    }
    return torch.from_numpy(largest_first(labels, size)), evidence


def on_a_line(points: Tensor) -> bool:
    """Return whether points ``(m, d)`` have one column, and differ."""
    return points.shape[1] == 1 and len(points.unique()) > 1


@dataclass(frozen=True)
class _Line:
    """Points on a line, in bins; numbers of modes are at least 1."""

    points: Floats
    counts: Floats
    rng: np.random.Generator
    _critical: dict[int, float] = field(default_factory=dict)
    _certainty: dict[int, float] = field(default_factory=dict)

    @cached_property
    def step(self) -> float:
        return float(np.ptp(self.points)) * (1 + 2 * _MARGIN) / (_BINS - 1)

    @cached_property
    def at(self) -> Labels:
        """Bin of each point."""
        first = self.points.min() - _MARGIN * np.ptp(self.points)
        bins: Labels = np.rint((self.points - first) / self.step).astype(np.int64)
        return bins

    def density(self, bandwidth: float, weights: Floats) -> Floats:
        """Return weights of bins ``(..., bins)``, smoothed by a Gaussian kernel."""
        frequencies = np.fft.rfftfreq(2 * _BINS)
        kernel = np.exp(-2 * (np.pi * frequencies * bandwidth / self.step) ** 2)
        smoothed: Floats = np.fft.irfft(np.fft.rfft(weights, 2 * _BINS) * kernel)[..., :_BINS]
        return smoothed

    @cached_property
    def weights(self) -> Floats:
        """Samples in each bin."""
        return np.bincount(self.at, weights=self.counts, minlength=_BINS).astype(np.float64)

    def estimate(self, number: int) -> Floats:
        """Return the density at the critical bandwidth."""
        return self.density(self.critical(number), self.weights)

    def critical(self, number: int) -> float:
        """Return the least bandwidth, to rounding, at which the density has no more modes."""
        if number not in self._critical:
            low, high = np.log(self.step / 2), np.log(self.step * _BINS)
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                more = _modes(self.density(float(np.exp(middle)), self.weights)) > number
                low, high = (middle, high) if more else (low, middle)
            self._critical[number] = float(np.exp(high))
        return self._critical[number]

    def certainty(self, number: int) -> float:
        """Return the fraction of draws from the density with one mode less that do not have so many; 1 for one mode.

        What is drawn is at the points' own positions, so that gaps between few different values are no valleys.
        """
        if number == 1:
            return 1.0
        if number not in self._certainty:
            places = np.unique(self.at)
            nearest = np.searchsorted((places[1:] + places[:-1]) / 2, np.arange(_BINS))
            chances = np.bincount(nearest, weights=self.estimate(number - 1).clip(0), minlength=len(places))
            drawn = np.zeros((_DRAWS, _BINS))
            drawn[:, places] = self.rng.multinomial(round(self.counts.sum()), chances / chances.sum(), _DRAWS)
            modes = [_modes(density) for density in self.density(self.critical(number - 1), drawn)]
            self._certainty[number] = float(np.mean(np.array(modes) < number))
        return self._certainty[number]

    def shows(self, number: int) -> bool:
        """Return whether so many modes are more than chance, each with its share of the samples."""
        if number == 1:
            return True
        sizes = np.bincount(self.cut(number), weights=self.counts)
        enough = len(sizes) == number and sizes.min() >= _MIN_SHARE * sizes.sum()
        return enough and self._depth(number) <= _DEPTH and self.certainty(number) > 1 - _LEVEL

    def cut(self, number: int) -> Labels:
        """Return the points' clusters, from left to right: those between valleys of the density with so many modes."""
        _, valleys = _tops_and_valleys(self.estimate(number))
        return np.unique(np.searchsorted(valleys, self.at, side="right"), return_inverse=True)[1].astype(np.int64)

    def _depth(self, number: int) -> float:
        """Return the greatest density in a valley, relative to the lower mode beside it."""
        density = self.estimate(number)
        tops, valleys = _tops_and_valleys(density)
        return float(max(density[valleys] / np.minimum(density[tops[:-1]], density[tops[1:]]), default=0.0))

    def means(self, number: int) -> Labels:
        """Return the points' clusters by k-means."""
        number = min(number, len(np.unique(self.points)))
        model = KMeans(number, n_init=10, random_state=int(self.rng.integers(2**31)))
        labels: Labels = model.fit_predict(self.points[:, None], sample_weight=self.counts).astype(np.int64)
        return labels


def _rising(density: Floats) -> Labels:
    """Return for each step between bins 1 where the density rises and -1 where it falls; flat ones are as the last."""
    steps = np.diff(density)
    signs = np.where(np.abs(steps) > _ROUNDING * density.max(), np.sign(steps), 0.0).astype(np.int64)
    last = np.maximum.accumulate(np.where(signs != 0, np.arange(len(signs)), 0))
    return signs[last]


def _tops_and_valleys(density: Floats) -> tuple[list[int], list[int]]:
    """Return the bins of the modes, and of the lowest density between each two."""
    rising = _rising(density)
    tops = [at for at, (before, after) in enumerate(pairwise(rising), 1) if before > after]
    return tops, [left + int(density[left:right].argmin()) for left, right in pairwise(tops)]


def _modes(density: Floats) -> int:
    rising = _rising(density)
    return int(((rising[:-1] == 1) & (rising[1:] == -1)).sum())
