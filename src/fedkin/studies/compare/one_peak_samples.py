"""Null model of samples: unimodal columns with the rank correlations of the data, but without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from fedkin.studies.compare.prepared_samples import Block

Numbers = NDArray[np.float64]

_BINS, _A_BIN = 50, 10
"""Bins of a column at most, and values of a bin at least."""
_TIES = 0.05
"""Fraction of equal values from which on a column that is no lattice keeps its values."""
_MAX_STEPS = 1_000
_FITS, _FITTED_ON, _CLOSEST = 4, 2_000, 0.995
"""Steps in which the correlation of scores is found, samples of each, and the highest correlation."""


@dataclass(frozen=True)
class OnePeakColumn:
    """Unimodal distribution nearest to that of a column.

    `edges` ``(bins + 1,)`` are those of bins, and `shares` ``(bins,)`` fractions of values, which are uniform within a
    bin. `step` is the distance of neighbouring values in a discrete column, such as counts and booleans; 0 for
    continuous values.
    """

    edges: Numbers
    shares: Numbers
    step: float = 0.0

    def at(self, ranks: Numbers) -> Numbers:
        """Return the quantiles at `ranks` in (0, 1)."""
        ends = np.concatenate([[0.0], np.cumsum(self.shares)])
        values: Numbers = np.interp(ranks, ends / ends[-1], self.edges)
        if self.step:
            first = self.edges[0] + self.step / 2
            values = first + self.step * np.round((values - first) / self.step)
        return values


class OnePeakSamples:
    """Sampler of data without clusters: unimodal marginals joined by a Gaussian copula.

    Every numeric column of `x` ``(m, width)`` has the unimodal distribution nearest to its own, which keeps its skew
    and its tails, and the rank correlation with other columns. Discrete values stay discrete. A column in which a value
    repeats without a regular step keeps its values, and the columns that encode one category are permuted together.
    """

    def __init__(self, x: Numbers, blocks: Sequence[Block]) -> None:
        self._x = x
        single = [start for _, start, end in blocks if end - start == 1 and np.ptp(x[:, start]) > 0]
        self._single = {at: _one_peak(x[:, at]) for at in single}
        self._shuffled = [(start, end) for _, start, end in blocks if end - start > 1]
        self._root = self._fitted_root()

    def drawn(self, rng: np.random.Generator) -> Numbers:
        """Draw as many samples as the data have, float64 ``(m, width)``."""
        found = self._x.copy()
        for start, end in self._shuffled:
            found[:, start:end] = self._x[rng.permutation(len(found)), start:end]
        if self._single:
            found[:, list(self._single)] = self._numbers(self._root, len(found), rng)
        return found

    def _numbers(self, root: Numbers, rows: int, rng: np.random.Generator) -> Numbers:
        """Draw the numeric columns from normal scores whose correlation matrix has this root."""
        ranks = ndtr(rng.standard_normal((rows, len(root))) @ root).T
        return np.stack(
            [
                np.quantile(self._x[:, at], own, method="lower") if column is None else column.at(own)
                for (at, column), own in zip(self._single.items(), ranks, strict=True)
            ],
            axis=1,
        )

    def _fitted_root(self) -> Numbers:
        """Fit a root of the correlation matrix of the normal scores, so that columns correlate as in the data."""
        if not self._single:
            return np.zeros((0, 0))
        wanted = _correlation(self._x[:, list(self._single)])
        tried = wanted
        for _ in range(_FITS):
            got = _correlation(self._numbers(_root(tried), _FITTED_ON, np.random.default_rng(0)))
            tried = np.clip(tried + wanted - got, -_CLOSEST, _CLOSEST)
            np.fill_diagonal(tried, 1.0)
        return _root(tried)


def _correlation(x: Numbers) -> Numbers:
    """Return the correlation matrix of the columns' normal scores; 0 for constant columns."""
    scores = ndtri((rankdata(x, axis=0) - 0.5) / len(x))
    scores -= scores.mean(axis=0)
    scores /= np.maximum(np.linalg.norm(scores, axis=0), 1e-12)
    found: Numbers = scores.T @ scores
    return found


def _root(correlation: Numbers) -> Numbers:
    """Return a root of the nearest positive semi-definite matrix with ones on its diagonal."""
    values, vectors = np.linalg.eigh(correlation)
    root: Numbers = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    root /= np.linalg.norm(root, axis=0)
    return root


def _one_peak(values: Numbers) -> OnePeakColumn | None:
    """Fit the nearest unimodal distribution; ``None`` for a column that keeps its values."""
    bins = max(2, min(_BINS, len(values) // _A_BIN))
    step = _step(values)
    distinct, counts = np.unique(values, return_counts=True)
    if step:
        number = round(float(np.ptp(values)) / step) + 1
        width = -(-number // bins)  # so many steps of a bin
        edges = distinct[0] - step / 2 + step * width * np.arange(-(-number // width) + 1)
        edges[-1] = distinct[-1] + step / 2
    elif counts.max() > max(2, _TIES * len(values)):
        return None
    else:
        edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    shares = np.histogram(values, edges)[0] / len(values)
    return OnePeakColumn(edges, _with_one_peak(shares, np.diff(edges)), step)


def _step(values: Numbers) -> float:
    """Return the step of a discrete column, of whose multiples all values are apart; 0 for a continuous one."""
    distinct = np.unique(values)
    if len(distinct) > len(values) / 2:
        return 0.0
    gaps = np.diff(distinct)
    step = float(gaps[gaps > 1e-5 * np.ptp(distinct)].min())
    steps = np.ptp(distinct) / step
    off = np.abs(gaps / step - np.round(gaps / step)).max()
    return step if steps <= _MAX_STEPS and off < 0.02 else 0.0


def _with_one_peak(shares: Numbers, widths: Numbers) -> Numbers:
    """Fit a unimodal histogram by isotonic regression, the one nearest in cumulative sums."""
    heights = shares / widths
    best, distance = shares, np.inf
    for peak in range(len(shares)):
        rising = isotonic_regression(heights[: peak + 1], weights=widths[: peak + 1]).x
        falling = isotonic_regression(heights[peak:], weights=widths[peak:], increasing=False).x
        fitted = np.concatenate([rising[:-1], [max(rising[-1], falling[0])], falling[1:]]) * widths
        apart = np.abs(np.cumsum(fitted) - np.cumsum(shares)).max()
        if apart < distance:
            best, distance = fitted, apart
    scaled: Numbers = best / best.sum()
    return scaled
