"""Gaussian noise on sums, and what several noisy releases guarantee together.

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

from fedkin.core.errors import FedkinError
from fedkin.core.noise import Noise, normal

_HALVINGS = 100


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The least delta for which what is mu-GDP is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon, mu : float
        Not negative.

    Returns
    -------
    float
        In [0, 1].
    """
    if mu == 0.0:
        return 0.0
    above = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    below = math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return max(0.0, above - below)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The greatest mu that keeps mu-GDP within (epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : float
        Above 0, finite.
    delta : float
        In (0, 1).

    Raises
    ------
    FedkinError
        If a value is outside its range.
    """
    if not 0.0 < epsilon < math.inf:
        raise FedkinError(f"Epsilon {epsilon} must be above 0 and finite for Gaussian noise.")
    if not 0.0 < delta < 1.0:
        raise FedkinError(f"Delta {delta} must be above 0 and below 1; Gaussian noise cannot do with 0.")
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) <= delta:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return low


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon for which what is mu-GDP is (epsilon, delta)-differentially private.

    Parameters
    ----------
    mu : float
        Not negative, finite.
    delta : float
        In (0, 1).
    """
    low, high = 0.0, 1.0
    if gaussian_delta(low, mu) <= delta:
        return low
    while gaussian_delta(high, mu) > delta:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(middle, mu) <= delta else (middle, high)
    return high


def gdp(sensitivity: float, deviation: float) -> float:
    """The mu of sums that a sample changes by `sensitivity`, with noise of this deviation; infinite without noise."""
    return sensitivity / deviation if deviation > 0 else math.inf


def noisy(value: Tensor, deviation: float, noise: Noise) -> Tensor:
    """`value` with independent Gaussian noise of standard deviation `deviation` on each number; float64."""
    return value.double() + deviation * normal(value.shape, noise)
