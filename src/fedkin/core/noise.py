"""Random noise that the server cannot predict, although it knows the seed of the run."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

KEY = 32
"""Bytes of a secret key."""
_WORD = 8
_MANTISSA = 53


class Secret:
    """Pseudo-random numbers from a secret key: SHAKE-256 of the key and a counter.

    torch's own generators hide nothing: 32 bits of their seed determine all their numbers, and all 2^32 seeds can be
    tried. The key is 32 bytes that nobody else can guess; by default from the system.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = os.urandom(KEY) if key is None else key
        self._calls = 0

    @property
    def name(self) -> bytes:
        """Digest of 32 bytes that identifies the stream and reveals nothing of its numbers."""
        return hmac.digest(self._key, b"name", "sha256")

    def about(self, question: bytes) -> Secret:
        """Return the stream for a question: the same each time, and independent of those for other questions."""
        return Secret(hmac.digest(self._key, hashlib.sha256(question).digest(), "sha256"))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words of 64 random bits, ``(count,)``."""
        self._calls += 1
        stream = hashlib.shake_256(self._key + self._calls.to_bytes(_WORD, "little")).digest(_WORD * count)
        return np.frombuffer(stream, dtype="<u8")

    def uniform(self, count: int) -> Tensor:
        """Return `count` uniform numbers in [0, 1), float64 ``(count,)``."""
        return torch.from_numpy((self.words(count) >> np.uint64(64 - _MANTISSA)) * 2.0**-_MANTISSA)


Noise = Secret | torch.Generator
"""Source of random numbers: a secret, or in simulations, where nothing is secret, a generator that is reproducible."""


def uniform(shape: Sequence[int], noise: Noise, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return uniform numbers in [0, 1) of the given shape, drawn from `noise`."""
    if isinstance(noise, torch.Generator):
        return torch.rand(tuple(shape), generator=noise, dtype=dtype)
    return noise.uniform(math.prod(shape)).reshape(tuple(shape)).to(dtype)


def integers_below(bounds: NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
    """Return a uniform integer in [0, bound) for each of `bounds` ``(n,)``, all at least 1; exactly uniform."""
    limits = 2**63 - 1 - (2**63 - 1) % bounds  # words from here on would favour small remainders
    words = _words(len(bounds), noise)
    while len(biased := (words >= limits).nonzero()[0]):
        words[biased] = _words(len(biased), noise)
    return words % bounds


def _words(count: int, noise: Noise) -> NDArray[np.int64]:
    """Return `count` uniform integers in [0, 2^63)."""
    if isinstance(noise, torch.Generator):
        drawn: NDArray[np.int64] = torch.empty(count, dtype=torch.int64).random_(generator=noise).numpy()
        return drawn
    return (noise.words(count) >> np.uint64(1)).astype(np.int64)


def about(noise: Noise, values: Sequence[Tensor]) -> tuple[Noise, bytes]:
    """Return the noise to use for these values, and 32 bytes that identify values and noise together.

    A secret gives the same noise for the same values, so that sending them again reveals nothing new, and independent
    noise for different values, so that their difference stays hidden. A generator gives its next numbers.
    """
    if isinstance(noise, torch.Generator):
        return noise, hashlib.sha256(noise.initial_seed().to_bytes(_WORD, "little")).digest()
    own = noise.about(b"".join(value.contiguous().numpy().tobytes() for value in values))
    return own, own.name
