"""Shamir's secret sharing (1979): at least a threshold of the shares recovers a secret, and fewer reveal nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

PRIME = 2**255 - 19
"""Secrets and shares are numbers modulo this prime, which fits 32 bytes."""


def threshold(holders: int) -> int:
    """Return how many of the holders' shares are needed to recover a secret: more than two thirds.

    More than half would do against a server that lies alone: to recover two keys of one client, of which each holder
    gives shares of one, would take more holders than there are. More than two thirds withstand a server in league with
    up to a third of the holders, who give both (Bonawitz et al. 2017, section 6.2).
    """
    return 2 * holders // 3 + 1


def split(coefficients: Sequence[int], holders: int) -> list[int]:
    """Return the shares of a secret: values of a polynomial over the field of `PRIME` at 1, 2, ..., `holders`.

    Its coefficients, in [0, `PRIME`), are the secret, then uniform random ones, as many in all as the shares that
    recover it.
    """
    return [_value(coefficients, at) for at in range(1, holders + 1)]


def combine(shares: Mapping[int, int]) -> int:
    """Return the secret that shares recover, given by their place from 1; all of them are used.

    With fewer than its threshold, or with one that is wrong, it is another number.
    """
    places = tuple(sorted(shares))
    return sum(weight * shares[at] for weight, at in zip(_weights(places), places, strict=True)) % PRIME


def _value(coefficients: Sequence[int], at: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * at + coefficient) % PRIME
    return value


@lru_cache(maxsize=64)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """Return Lagrange's weights, by which values at `places` give the value at 0."""
    weights = []
    for at in places:
        above = below = 1
        for other in places:
            if other != at:
                above = above * other % PRIME
                below = below * (other - at) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)
