"""Clusters of points on a line: the modes of their density, as many as are more than chance.

On a line communities of nearest neighbours are stretches of equal numbers of points, wherever the density is low. With
a Gaussian kernel the number of modes never grows with the bandwidth, so that each number has a critical bandwidth, the
least with no more modes (Silverman 1981). At that bandwidth the valleys between the modes are compared with what chance
alone makes of an even density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from fedkin.clustering.graph.community_scales import chosen_stability, largest_first, scales_of
from fedkin.clustering.k_means import k_means
from fedkin.core.seeds import bisect

_BINS, _LEAST_BINS = 1_024, 2.2
"""Bins, and minimum bandwidth in bins: the spectrum of a narrower kernel is cut off, and its ripples would be modes."""
_MARGIN = 0.25
"""Empty bins at either end, as a fraction of the range, so that the ends' modes are modes."""
_HALVINGS = 30
_ROUNDING = 1e-9
"""Differences between bins, relative to the highest, that do not count."""
_GRID = 0.5
"""Minimum bandwidth, relative to the distance to the next different value: values of a grid are no modes."""

_FEW = 10
"""Maximum number of points that show no density."""
_MAX_MODES, _MAX_GIVEN = 12, 30
"""Maximum number of modes that are looked for, where no number is given, and where one is."""
_SURE = 2.0
"""Minimum depth of a valley in standard deviations of what it would be by chance."""
_DEPTH = 0.85
"""Maximum density in a valley, relative to the lower mode beside it: with many samples even shallow ones are sure."""
_MIN_SHARE = 0.05
"""Minimum fraction of the samples in every cluster that is found: single points far from all others are modes, too."""

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]


def clusters_by_modes(
    points: Tensor, counts: Tensor, n_clusters: int | None, rng: torch.Generator
) -> tuple[Tensor, dict[str, Any]]:
    """Cluster points on a line, into as many clusters as its density has modes or as given.

    Each cluster reaches from one valley of the density to the next. If `n_clusters` is given and the density does not
    show as many, they are those of k-means. `points` are ``(m,)``, not all equal, and `counts`, int64 ``(m,)``, the
    samples of each. `n_clusters` is at least 1; with fewer different positions each is a cluster. `rng` draws the seeds
    of k-means.

    Returns
    -------
    clusters : Tensor
        int64 ``(m,)``, from 0, the cluster with most samples first.
    evidence : dict
        As of `fedkin.clustering.graph.graph_cut.communities`, without "modularity"; "by_modes" is whether valleys
        divide the clusters. A resolution is one over a critical bandwidth, and the stability of a number of clusters
        how sure the shallowest of its valleys is, from 0.5 to 1; 1 for one cluster.
    """
    size = counts.double().numpy()
    line = _Line(points.double().numpy(), size)
    most = max(_MAX_MODES, min(n_clusters or 1, _MAX_GIVEN))
    divisions = {one.modes: one for one in map(line.divided, range(1, most + 1))}
    shown = [number for number, one in divisions.items() if one.shows()]
    by_modes = n_clusters is None or n_clusters in shown
    if by_modes:
        labels = divisions[n_clusters or max(shown)].labels
    else:
        labels = k_means(points[:, None], n_clusters or 1, rng, weights=counts).labels.numpy()
    tried = [*divisions.values()]
    chosen = divisions.get(int(labels.max()) + 1, tried[-1])
    divided = [(one.resolution, one.labels, one.stability) for one in tried]
    scales = scales_of(divided, size, labels, chosen.stability if by_modes else None)
    evidence = {
        "resolution": chosen.resolution,
        **chosen_stability(scales),
        "by_density": False,
        "by_modes": by_modes,
        "resolutions": [one.resolution for one in tried],
        "clusters_found": [*divisions],
        "stabilities": [one.stability for one in tried],
        "scales": scales,
    }
    return torch.from_numpy(largest_first(labels, size)), evidence


def on_a_line(points: Tensor) -> bool:
    """Return whether points ``(m, d)`` have one column, differ, and are enough to show a density."""
    return points.shape[1] == 1 and len(points) > _FEW and len(points.unique()) > 1


@dataclass(frozen=True)
class _Division:
    """A line divided into modes.

    `labels` ``(m,)`` are from left to right, and `resolution` is one over the bandwidth. `depth` is the greatest
    density in a valley, relative to the lower mode beside it; 0 without any. `deviations` is the least depth in
    standard deviations of what it would be by chance; infinite without any. `least` is the fraction of the samples in
    the smallest mode.
    """

    modes: int
    labels: Labels
    resolution: float
    depth: float
    deviations: float
    least: float

    @property
    def stability(self) -> float:
        return float(norm.cdf(self.deviations))

    def shows(self) -> bool:
        """Return whether so many modes are more than chance, each with its share of the samples."""
        return self.modes == 1 or (self.least >= _MIN_SHARE and self.depth <= _DEPTH and self.deviations >= _SURE)


@dataclass(frozen=True)
class _Line:
    """Points on a line ``(m,)`` with their numbers of samples, in bins."""

    points: Floats
    counts: Floats

    @cached_property
    def _step(self) -> float:
        return float(np.ptp(self.points)) * (1 + 2 * _MARGIN) / (_BINS - 1)

    @cached_property
    def _at(self) -> Labels:
        """Bin of each point."""
        first = self.points.min() - _MARGIN * np.ptp(self.points)
        bins: Labels = np.rint((self.points - first) / self._step).astype(np.int64)
        return bins

    @cached_property
    def _spectrum(self) -> NDArray[np.complex128]:
        return np.fft.rfft(np.bincount(self._at, weights=self.counts, minlength=_BINS), 2 * _BINS)

    @cached_property
    def _least_bandwidth(self) -> float:
        """Half the median distance of samples to the next different value, or `_LEAST_BINS`."""
        places, place = np.unique(self.points, return_inverse=True)
        gaps = np.concatenate([[np.inf], np.diff(places), [np.inf]])
        near = np.minimum(gaps[1:], gaps[:-1])[place]
        order = np.argsort(near)
        middle = np.searchsorted(np.cumsum(self.counts[order]), self.counts.sum() / 2)
        return max(_GRID * float(near[order][middle]), _LEAST_BINS * self._step)

    def _density(self, bandwidth: float) -> Floats:
        """Return the samples in each bin ``(bins,)``, smoothed by a Gaussian kernel."""
        frequencies = np.fft.rfftfreq(2 * _BINS)
        kernel = np.exp(-2 * (np.pi * frequencies * bandwidth / self._step) ** 2)
        smoothed: Floats = np.fft.irfft(self._spectrum * kernel)[:_BINS]
        return smoothed

    def _critical(self, number: int) -> float:
        """Return the least bandwidth, to rounding, with no more modes."""
        low, high = math.log(self._least_bandwidth), math.log(self._step * _BINS)
        if len(_tops(self._density(math.exp(low)))) <= number:
            return math.exp(low)
        few = bisect(lambda log: len(_tops(self._density(math.exp(log)))) <= number, low, high, _HALVINGS)
        return math.exp(few[1])

    def divided(self, number: int) -> _Division:
        """Return the division into at most so many modes."""
        bandwidth = self._critical(number)
        density = self._density(bandwidth)
        tops = _tops(density)
        valleys = [left + int(density[left:right].argmin()) for left, right in pairwise(tops)]
        labels: Labels = np.searchsorted(valleys, self._at, side="right").astype(np.int64)
        sizes = np.bincount(labels, weights=self.counts, minlength=len(tops))
        modes, lows = np.minimum(density[tops[:-1]], density[tops[1:]]), density[valleys]
        # The variance of a Gaussian kernel's estimate is the density over 2 sqrt(pi) bandwidths.
        deviation = np.sqrt((modes + lows) * self._step / (2 * math.sqrt(math.pi) * bandwidth))
        return _Division(
            modes=len(tops),
            labels=labels,
            resolution=1 / bandwidth,
            depth=float(max(lows / modes, default=0.0)),
            deviations=float(min((modes - lows) / deviation, default=math.inf)),
            least=float(sizes.min() / sizes.sum()),
        )


def _tops(density: Floats) -> list[int]:
    """Return the bins of the modes."""
    steps = np.diff(density)
    signs = np.where(np.abs(steps) > _ROUNDING * density.max(), np.sign(steps), 0.0)
    last = np.maximum.accumulate(
        np.where(signs != 0, np.arange(len(signs)), 0)
    )  # flat steps are as the last that is not
    rising = signs[last]
    return [at for at, (before, after) in enumerate(pairwise(rising), 1) if before > 0 > after]
