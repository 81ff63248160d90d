"""Clusters of points on a line: the modes of their density, as many as are more than chance.

On a line communities of nearest neighbours are stretches of equal numbers of points, wherever the density is low. With
a Gaussian kernel the number of modes never grows with the bandwidth, so that each number has a critical bandwidth, the
least with no more modes (Silverman 1981). At that bandwidth the valleys between the modes are compared with what chance
alone makes of an even density.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import fourier_gaussian
from scipy.stats import norm

from fedkin.core.seeds import bisect

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

SMALL = 0.05  # of the samples: less is a bump in the tail of a cloud, or a few nodes that stay neighbours
_BINS = 1_024  # ten to each of a hundred modes


@dataclass(frozen=True)
class Division:
    """A line divided into modes.

    `labels`, int64 ``(m,)``, are from left to right. `stability`, from 0.5 to 1, is how sure it is that the shallowest
    valley is more than chance, 1 without any; `shows` whether all modes are more than chance, each with its share of
    the samples.
    """

    labels: Labels
    stability: float
    shows: bool


def divide_line(points: Floats, counts: Floats, most: int) -> dict[int, Division]:
    """Divide points ``(m,)``, not all equal, with so many samples ``(m,)`` each, at their valleys, by number of modes.

    Numbers are 1 to `most` at most; a line of fewer different values has fewer.
    """
    span = float(np.ptp(points))
    step = 1.5 * span / (_BINS - 1)  # a quarter of the range is empty at either end, so that the ends' modes are modes
    bins: Labels = np.rint((points - points.min() + span / 4) / step).astype(np.int64)
    spectrum = np.fft.rfft(np.bincount(bins, weights=counts, minlength=_BINS), 2 * _BINS)

    def density(bandwidth: float) -> Floats:
        smooth: Floats = np.fft.irfft(fourier_gaussian(spectrum, bandwidth / step, 2 * _BINS))[:_BINS]
        return smooth

    # The spectrum of a kernel narrower than 2.2 bins is cut off, and its ripples would be modes.
    low = math.log(max(_grid_step(points, counts) / 2, 2.2 * step))
    divisions = (_divide(density, number, low, math.log(step * _BINS)) for number in range(1, most + 1))
    found: dict[int, Division] = {}
    for bandwidth, tops, smooth in divisions:
        valleys = np.array([left + int(smooth[left:right].argmin()) for left, right in pairwise(tops)], dtype=np.int64)
        labels: Labels = np.searchsorted(valleys, bins, side="right").astype(np.int64)
        sizes = np.bincount(labels, weights=counts, minlength=len(tops))
        modes, lows = np.minimum(smooth[tops[:-1]], smooth[tops[1:]]), smooth[valleys]
        # The variance of a Gaussian kernel's estimate is the density over 2 sqrt(pi) bandwidths.
        deviation = np.sqrt((modes + lows) * step / (2 * math.sqrt(math.pi) * bandwidth))
        sure = float(min((modes - lows) / deviation, default=math.inf))
        # Two deviations are chance in one of forty; of many samples even shallow valleys are sure; tails have bumps.
        clear = sure >= 2 and (lows <= 0.85 * modes).all() and sizes.min() >= SMALL * sizes.sum()
        found[len(tops)] = Division(labels, float(norm.cdf(sure)), bool(clear) or len(tops) == 1)
    return found


def _divide(density: Callable[[float], Floats], number: int, low: float, high: float) -> tuple[float, Labels, Floats]:
    """Return the critical bandwidth of so many modes, its logarithm from `low` to `high`, the modes and the density."""
    from scipy.signal import find_peaks  # scipy.signal takes as long as all of fedkin.clustering to import

    def modes(log: float) -> Labels:
        smooth = density(math.exp(log))
        tops: Labels = find_peaks(smooth, prominence=1e-9 * smooth.max())[0]
        return tops

    if len(modes(low)) > number:
        low = bisect(lambda log: len(modes(log)) <= number, low, high, 30)[1]
    return math.exp(low), modes(low), density(math.exp(low))


def _grid_step(points: Floats, counts: Floats) -> float:
    """Return the median distance of samples to the next different value: values of a grid are no modes."""
    places, place = np.unique(points, return_inverse=True)
    gaps = np.concatenate([[np.inf], np.diff(places), [np.inf]])
    near = np.minimum(gaps[1:], gaps[:-1])[place]
    order = np.argsort(near)
    return float(near[order][np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)])
