"""Exact differential privacy of randomised response: what flipping the bits of a message guarantees.

A message of n bits, each flipped with probability P, is n randomised responses (Warner 1965). Where two data sets give
messages that differ in m true bits, the privacy loss is e * (2 K - m), with e = ln((1 - P) / P) and K binomial of m and
1 - P, so both pure epsilon and the exact (epsilon, delta) have closed or nearly closed forms.

All of it speaks of one message. An encoder that was trained on the same clients' data, the training that follows, and
further messages that are not memorised (`randomised_response.memorised`) cost extra.

Everywhere, a flip `probability` is in [0, 0.5], `epsilon` not negative, `delta` in [0, 1), and `bits` at least 0; every
function raises FedkinError for a value outside its range.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import bisect
from fedkin.privacy.randomised_response import check_probability

MEANINGFUL_EPSILON = 10.0
"""Largest epsilon that is called a guarantee; a message may then be e^10 = 22,000 times likelier from one client than
another."""


def bit_epsilon(probability: float) -> float:
    """Return the pure epsilon of one bit that is flipped with `probability` P: ln((1 - P) / P)."""
    check_probability(probability)
    return math.inf if probability == 0.0 else math.log1p(-probability) - math.log(probability)


def delta_of(epsilon: float, probability: float, bits: int) -> float:
    """Return the smallest delta for which messages with `bits` different bits are (epsilon, delta)-indistinguishable.

    It is in [0, 1], and exact up to rounding.
    """
    check_probability(probability)
    _check(epsilon=epsilon, bits=bits)
    if probability == 0.0:
        return 0.0 if bits == 0 or epsilon == math.inf else 1.0
    return _excess(epsilon, *_losses(probability, bits))


def epsilon_of(delta: float, probability: float, bits: int) -> float:
    """Return the smallest epsilon for which messages with `bits` different bits are (epsilon, delta)-indistinguishable.

    A delta of 0 gives the pure epsilon, `bits` times that of one bit; without flips epsilon is infinite.
    """
    _check(delta=delta, bits=bits)
    pure = 0.0 if bits == 0 else bits * bit_epsilon(probability)
    if delta == 0.0 or pure in (0.0, math.inf):
        return pure
    losses, chances = _losses(probability, bits)
    if _excess(0.0, losses, chances) <= delta:
        return 0.0
    return bisect(lambda epsilon: _excess(epsilon, losses, chances) <= delta, 0.0, pure)[1]


def flip_probability(epsilon: float, bits: int) -> float:
    """Return the smallest probability of flips that keeps a message of `bits` bits, 1 or more, within pure epsilon.

    It is 1 / (1 + exp(epsilon / bits)): 0 for an infinite epsilon, 0.5, noise alone, for 0.
    """
    _check(epsilon=epsilon, bits=bits, least=1)
    return float(expit(-epsilon / bits))


def statement(flip: float, bits: int, width: int, separate: bool = True) -> dict[str, float | int | None]:
    """Return the guarantee of a message of `bits` bits in segments of `width`, each flipped with probability `flip`.

    `bits` is a multiple of `width`. `separate` says whether a sample changes the segment of its class alone. It does
    not where minimum and maximum are taken over the whole vector, nor where segments come from a clustering of all
    samples; then one sample may change all bits.

    Besides the arguments ``flip``, ``bits`` and ``width``, and ``delta``, which is 1e-5, there are, ``None`` where
    infinite, which JSON cannot express:

    * ``epsilon_bit``: for one bit, whether it was 0 or 1;
    * ``epsilon_sample``: for one sample, whether it was among the client's data;
    * ``epsilon_replaced``: for replacing one sample by another, perhaps of another class, which changes two segments;
    * ``epsilon_client``: for all data of the client, every bit; ``epsilon_client_delta``, the same with ``delta``.
    """
    _check(bits=bits, least=1)
    if width < 1 or bits % width:
        raise FedkinError(f"A message of {bits} bits cannot be divided into segments of {width} bits.")
    per_bit, by_sample, delta = bit_epsilon(flip), width if separate else bits, 1e-5
    epsilons = {
        "epsilon_bit": per_bit,
        "epsilon_sample": by_sample * per_bit,
        "epsilon_replaced": min(2 * by_sample, bits) * per_bit,
        "epsilon_client": bits * per_bit,
        "epsilon_client_delta": epsilon_of(delta, flip, bits),
    }
    finite = {name: None if epsilon == math.inf else epsilon for name, epsilon in epsilons.items()}
    return {"flip": flip, "bits": bits, "width": width, **finite, "delta": delta}


def _losses(probability: float, bits: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all privacy losses ``(bits + 1,)`` and their probabilities; `probability` is not 0."""
    unflipped = np.arange(bits + 1, dtype=np.float64)
    return bit_epsilon(probability) * (2.0 * unflipped - bits), binom.pmf(unflipped, bits, 1.0 - probability)


def _excess(epsilon: float, losses: NDArray[np.float64], chances: NDArray[np.float64]) -> float:
    """Return the sum of chance * (1 - exp(epsilon - loss)) over losses above `epsilon`; no term is negative."""
    above = losses > epsilon
    return min(1.0, float(-np.sum(chances[above] * np.expm1(epsilon - losses[above]))))


def _check(epsilon: float = 0.0, delta: float = 0.0, bits: int = 1, least: int = 0) -> None:
    if not epsilon >= 0.0:  # so that NaN is none either
        raise FedkinError(f"Epsilon {epsilon} must be at least 0.")
    if not 0.0 <= delta < 1.0:
        raise FedkinError(f"Delta {delta} must be at least 0 and less than 1.")
    if bits < least:
        raise FedkinError(f"A message of {bits} bits has no privacy to account for; at least {least} are needed.")
