"""Threshold search of a Ward tree by a Gaussian process, as in the authors' code (Prigent et al., algorithm 2)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from fedkin.clustering.ward import Floats, Tree

PENALTY = -500.0
"""Value of a threshold that gives no admissible cut."""


def admissible(tree: Tree, min_size: int) -> Floats:
    """Return minus the Calinski-Harabasz index of every cut of a tree, NaN for cuts that are not admissible.

    A cut is not admissible if it has 2 clusters or fewer, if one is too small, or between two merges of equal height.
    """
    score = -tree.calinski_harabasz()
    score[1:-1][tree.heights[1:] == tree.heights[:-1]] = np.nan
    score[tree.too_small(min_size) > 0] = np.nan
    score[tree.leaves - np.arange(tree.leaves) <= 2] = np.nan
    return score


def tried_thresholds(value: Callable[[float], float], low: float, high: float) -> list[float]:
    """Return the thresholds in [low, high] that the authors' code tries to maximise `value`, in order.

    30 are sampled with a fixed seed, 5 chosen by the upper confidence bound of a Gaussian process.
    """
    random = np.random.RandomState(1)
    tried = [float(threshold) for threshold in random.uniform(low, high, 30)]
    values = [value(threshold) for threshold in tried]
    for _ in range(5):
        tried.append(_most_promising(tried, values, low, high, random))
        values.append(value(tried[-1]))
    return tried


def _most_promising(
    tried: list[float], values: list[float], low: float, high: float, random: np.random.RandomState
) -> float:
    """Return the threshold with the greatest upper confidence bound (2.576 sigma) of a Gaussian process."""
    process = GaussianProcessRegressor(
        Matern(nu=2.5), alpha=1e-6, normalize_y=True, n_restarts_optimizer=5, random_state=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound, where all values are alike
        process.fit(np.array(tried)[:, None], np.array(values))

        def bound(at: Any) -> Floats:
            mean, std = process.predict(np.reshape(at, (-1, 1)), return_std=True)
            return np.asarray(mean + 2.576 * std)

        def negative(at: Any) -> float:
            return -float(bound(at)[0])

        draws = random.uniform(low, high, 10_000)
        heights = bound(draws)
        best, highest = float(draws[heights.argmax()]), float(heights.max())
        for start in random.uniform(low, high, 10):
            ended: Any = optimize.minimize(negative, np.array([start]), bounds=[(low, high)], method="L-BFGS-B")
            if ended.success and -ended.fun > highest:
                best, highest = float(np.clip(ended.x[0], low, high)), float(-ended.fun)
    return best
