"""Gaussian mechanism: noise on sums, and the guarantee of several noisy releases together.

A release of sums that one sample changes by at most `sensitivity` in Euclidean length, with noise of standard deviation
s, is mu-GDP with mu = sensitivity / s (Dong, Roth, Su 2022). Several of them, each chosen by what came before, are
together GDP with the root of the sum of squares of their mu (their corollary 3.3), and that is the same as (epsilon,
delta)-differential privacy for every epsilon with delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)
(corollary 2.13; Balle and Wang 2018, theorem 8). Nothing is lost by bounds.

Noise hides nothing from who can draw it, too: at real clients it comes from a secret, see `fedkin.core.noise`; in
simulations it follows from the run's seed. Rounding in floating point is not accounted for (Mironov 2012).
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr
from torch import Tensor

from fedkin.core.bisection import bisect_upwards
from fedkin.core.errors import FedkinError
from fedkin.core.noise import Noise, normal


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta, in [0, 1], for which what is mu-GDP is (epsilon, delta)-differentially private.

    `epsilon` and `mu` are not negative.
    """
    if mu == 0.0:
        return 0.0
    above = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    below = math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return max(0.0, above - below)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-differential privacy.

    Raises FedkinError unless `epsilon` is above 0 and finite, and `delta` in (0, 1).
    """
    if not 0.0 < epsilon < math.inf:
        raise FedkinError(f"Epsilon {epsilon} must be above 0 and finite for Gaussian noise.")
    if not 0.0 < delta < 1.0:
        raise FedkinError(f"Delta {delta} must be above 0 and below 1; Gaussian noise does not allow 0.")
    return bisect_upwards(lambda mu: gaussian_delta(epsilon, mu) > delta)[0]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which what is mu-GDP is (epsilon, delta)-differentially private.

    `mu` is finite and not negative, and `delta` in (0, 1).
    """
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    return bisect_upwards(lambda epsilon: gaussian_delta(epsilon, mu) <= delta)[1]


def gdp(sensitivity: float, standard_deviation: float) -> float:
    """Return mu of Gaussian differential privacy, of sums with `sensitivity` to a sample; infinite without noise."""
    return sensitivity / standard_deviation if standard_deviation > 0 else math.inf


def noisy(value: Tensor, standard_deviation: float, noise: Noise) -> Tensor:
    """Add independent Gaussian noise of standard deviation `standard_deviation` to each number; float64."""
    return value.double() + standard_deviation * normal(value.shape, noise)
