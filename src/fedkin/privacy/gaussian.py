"""Gaussian mechanism: noise on sums, and the guarantee of several noisy releases together.

A release of sums that one sample changes by at most `sensitivity` in Euclidean length, with noise of standard deviation
s, is mu-GDP with mu = sensitivity / s (Dong, Roth, Su 2022). Several of them, each chosen by what came before, are
together GDP with the root of the sum of squares of their mu (their corollary 3.3), and that is the same as (epsilon,
delta)-differential privacy for every epsilon with delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)
(corollary 2.13; Balle and Wang 2018, theorem 8). Nothing is lost by bounds.

In floating point that holds no longer: the last bits of value + noise tell whether the value was 0 (Mironov 2012). So
noise on sums is drawn by `add_noise` alone, in integers. Values are rounded to a grid, the multiples of a power of two
near s 2^-23, and discrete Gaussian noise of standard deviation s on that grid is added (Canonne, Kamath and Steinke
2020), exactly. What is sent is on the grid whatever the values are, and its distribution depends on the rounded values
alone.

* Rounding m numbers changes the distance of two data sets by up to grid * sqrt(m): half a grid, twice, on each number.
  So s is the standard deviation that was required times 1 + grid * sqrt(m) / sensitivity: noise grows, and mu does not.
* From the Gaussian distribution rounded to the grid (which is postprocessing, so that all above holds for it) discrete
  Gaussian noise differs by less than 2^-51 in total variation on each number: a cell at z standard deviations has its
  probability but for a factor 1 + (z^2 - 1) (grid / s)^2 / 24, and grid / s is at most 2^-23. That adds less than
  (1 + exp(epsilon)) m 2^-51 to delta.
* Sums must be exact, whatever their order and the number of rows: see `fedkin.privacy.budget.clipped`.

Noise hides nothing from who can draw it, too: at real clients it comes from a secret, see `fedkin.core.seeds`; in
simulations it follows from the run's seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import ClientNoise, Noise, integers_below

Integers = NDArray[np.int64]


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
    return _bisected(lambda mu: gaussian_delta(epsilon, mu) > delta)[0]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which what is mu-GDP is (epsilon, delta)-differentially private.

    `mu` is finite and not negative, and `delta` in (0, 1).
    """
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    return _bisected(lambda epsilon: gaussian_delta(epsilon, mu) <= delta)[1]


def _bisected(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Return the last number that fails and the first that holds, of a condition that does from a number above 0 on."""
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def add_noise(
    values: Sequence[Tensor], sensitivity: float, standard_deviation: float, noise: Noise | ClientNoise
) -> list[Tensor]:
    """Add independent discrete Gaussian noise to each number of sums; float64, multiples of a power of two.

    One sample changes all `values` together by at most `sensitivity` in Euclidean length; with the noise of several
    clients these are ``(clients, ...)``. The standard deviation is a little more than that required, see this module.
    With 0 nothing is added or rounded. Raises FedkinError if it is millions of times the sensitivity, where rounding
    would change more than a sample does.
    """
    if standard_deviation == 0:
        return [value.double() for value in values]
    # The grid is 2^23 to 2^24 times finer than the deviation: then rounding 10,000 numbers costs 1e-5 of it, and all
    # products fit int64. Below 2^-1022 float64 has fewer digits.
    grid = 2.0 ** max(math.frexp(standard_deviation)[1] - 24, -1022)
    clients = len(noise.rngs) if isinstance(noise, ClientNoise) else 1
    count = sum(value.numel() for value in values) // max(1, clients)
    scale = math.ceil(standard_deviation / grid * (1 + grid * math.sqrt(count) / sensitivity))
    if scale > 2**25:  # so that products in discrete noise fit int64
        raise FedkinError(
            f"Noise of deviation {standard_deviation:g} is too much for a sensitivity of {sensitivity:g}.", public=True
        )
    noisy = []
    for value in values:
        # Clipped, so that sums with noise fit int64; one sample changes clipped values no more than others.
        rounded = (value.double() / grid).round().clamp(-(2**62), 2**62).long()
        drawn = torch.from_numpy(discrete_gaussian(value.numel(), scale, noise)).view(value.shape)
        noisy.append((rounded + drawn).double() * grid)
    return noisy


def discrete_gaussian(count: int, scale: int, noise: Noise | ClientNoise) -> NDArray[np.int64]:
    """Draw integers ``(count,)`` with probabilities proportional to exp(-z^2 / (2 scale^2)), exactly.

    Discrete Laplace numbers are drawn and some rejected (Canonne, Kamath and Steinke 2020, algorithms 2 and 3, with t =
    `scale`, at most 2^25). No floating point is involved.
    """
    clients = len(noise.rngs) if isinstance(noise, ClientNoise) else 1
    of = np.repeat(np.arange(clients), count // max(1, clients))  # whose each number is
    drawn = np.zeros(count, dtype=np.int64)
    rejected = np.arange(count)  # all at first, then those that are drawn anew
    while len(rejected):
        scales, clients_of = np.full(len(rejected), scale, dtype=np.int64), of[rejected]
        remainder = integers_below(scales, noise, clients_of)
        accepted = _happens(remainder, scales, noise, clients_of)
        quotient = np.zeros_like(remainder)
        growing = accepted.nonzero()[0]
        while len(growing := growing[_happens(scales[growing], scales[growing], noise, clients_of[growing])]):
            quotient[growing] += 1
        size = remainder + scale * quotient
        negative = integers_below(np.full(len(rejected), 2), noise, clients_of) == 1
        accepted &= ~(negative & (size == 0))  # 0 has one sign
        tails = (size[accepted] - scale) ** 2
        accepted[accepted] = _happens(tails, 2 * scales[accepted] ** 2, noise, clients_of[accepted])
        drawn[rejected[accepted]] = np.where(negative, -size, size)[accepted]
        rejected = rejected[~accepted]
    return drawn


def _happens(above: Integers, below: Integers, noise: Noise | ClientNoise, of: Integers) -> NDArray[np.bool_]:
    """Draw whether events of probability exp(-above / below) happen, exactly; fractions are not negative.

    `of` are their clients.

    Canonne, Kamath and Steinke 2020, algorithm 1: whole parts of the exponent are so many events of probability 1 / e.
    """
    whole, rest = np.divmod(above, below)
    happens = _happens_below_1(rest, below, noise, of)
    while len(rows := (happens & (whole > 0)).nonzero()[0]):
        happens[rows] = _happens_below_1(np.ones_like(rows), np.ones_like(rows), noise, of[rows])
        whole[rows] -= 1
    return happens


def _happens_below_1(above: Integers, below: Integers, noise: Noise | ClientNoise, of: Integers) -> NDArray[np.bool_]:
    happens = np.ones(len(above), dtype=np.bool_)
    rows, k = np.arange(len(above)), 1
    while len(rows := rows[integers_below(below[rows] * k, noise, of[rows]) < above[rows]]):
        happens[rows] = ~happens[rows]
        k += 1
    return happens
