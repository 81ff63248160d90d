"""Random noise that the server cannot predict, although it knows the seed of the run."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Sequence

import numpy as np
import torch
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

    def uniform(self, count: int) -> Tensor:
        """Return `count` uniform numbers in [0, 1), float64 ``(count,)``."""
        self._calls += 1
        stream = hashlib.shake_256(self._key + self._calls.to_bytes(_WORD, "little")).digest(_WORD * count)
        whole = np.frombuffer(stream, dtype="<u8") >> np.uint64(64 - _MANTISSA)
        return torch.from_numpy(whole * 2.0**-_MANTISSA)

    def normal(self, count: int) -> Tensor:
        """Return `count` standard normal numbers (Box and Muller 1958), float64 ``(count,)``."""
        radius, angle = self.uniform(2 * count).view(2, count)
        drawn: Tensor = (-2 * torch.log1p(-radius)).sqrt() * (2 * math.pi * angle).cos()
        return drawn


Noise = Secret | torch.Generator
"""Source of random numbers: a secret, or in simulations, where nothing is secret, a generator that is reproducible."""


def uniform(shape: Sequence[int], noise: Noise, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return uniform numbers in [0, 1) of the given shape, drawn from `noise`."""
    if isinstance(noise, torch.Generator):
        return torch.rand(tuple(shape), generator=noise, dtype=dtype)
    return noise.uniform(math.prod(shape)).reshape(tuple(shape)).to(dtype)


def normal(shape: Sequence[int], noise: Noise) -> Tensor:
    """Return standard normal numbers of the given shape, float64, drawn from `noise`."""
    if isinstance(noise, torch.Generator):
        return torch.randn(tuple(shape), generator=noise, dtype=torch.float64)
    return noise.normal(math.prod(shape)).reshape(tuple(shape))


def about(noise: Noise, values: Sequence[Tensor]) -> tuple[Noise, bytes]:
    """Return the noise to use for these values, and 32 bytes that identify values and noise together.

    A secret gives the same noise for the same values, so that sending them again reveals nothing new, and independent
    noise for different values, so that their difference stays hidden. A generator gives its next numbers.
    """
    if isinstance(noise, torch.Generator):
        return noise, hashlib.sha256(noise.initial_seed().to_bytes(_WORD, "little")).digest()
    own = noise.about(b"".join(value.contiguous().numpy().tobytes() for value in values))
    return own, own.name
