"""Random numbers that stay secret from everyone who knows the seed of a run, as the server does."""

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
    """A stream of numbers that follows from a key: SHAKE-256 of the key and of a count.

    torch's own generators hide nothing: 32 bits of their seed determine all their numbers, and all 2^32 seeds can be
    tried.

    Parameters
    ----------
    key : bytes, optional
        32 bytes that nobody else can guess; by default from the system.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = os.urandom(KEY) if key is None else key
        self._calls = 0

    @property
    def name(self) -> bytes:
        """32 bytes that identify the stream and reveal nothing of its numbers."""
        return hmac.digest(self._key, b"name", "sha256")

    def about(self, question: bytes) -> Secret:
        """The stream that belongs to a question: the same each time, and independent of those of other questions."""
        return Secret(hmac.digest(self._key, hashlib.sha256(question).digest(), "sha256"))

    def uniform(self, count: int) -> Tensor:
        """So many numbers in [0, 1): float64 ``(count,)``."""
        self._calls += 1
        stream = hashlib.shake_256(self._key + self._calls.to_bytes(_WORD, "little")).digest(_WORD * count)
        whole = np.frombuffer(stream, dtype="<u8") >> np.uint64(64 - _MANTISSA)
        return torch.from_numpy(whole * 2.0**-_MANTISSA)

    def normal(self, count: int) -> Tensor:
        """So many standard normal numbers (Box and Muller 1958): float64 ``(count,)``."""
        radius, angle = self.uniform(2 * count).view(2, count)
        drawn: Tensor = (-2 * torch.log1p(-radius)).sqrt() * (2 * math.pi * angle).cos()
        return drawn


Noise = Secret | torch.Generator
"""Where such numbers come from; a generator in a simulation, where nothing is secret and runs are to repeat."""


def uniform(shape: Sequence[int], noise: Noise, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers in [0, 1) of `noise`, of this shape."""
    if isinstance(noise, torch.Generator):
        return torch.rand(tuple(shape), generator=noise, dtype=dtype)
    return noise.uniform(math.prod(shape)).reshape(tuple(shape)).to(dtype)


def normal(shape: Sequence[int], noise: Noise) -> Tensor:
    """Standard normal numbers of `noise`, float64, of this shape."""
    if isinstance(noise, torch.Generator):
        return torch.randn(tuple(shape), generator=noise, dtype=torch.float64)
    return noise.normal(math.prod(shape)).reshape(tuple(shape))


def about(noise: Noise, values: Sequence[Tensor]) -> tuple[Noise, bytes]:
    """Noise for these values, and 32 bytes that identify the values with this noise.

    A secret gives the same noise for the same values, so that sending them again reveals nothing new, and independent
    noise for different values, so that their difference stays hidden. A generator gives its next numbers.
    """
    if isinstance(noise, torch.Generator):
        return noise, hashlib.sha256(noise.initial_seed().to_bytes(_WORD, "little")).digest()
    own = noise.about(b"".join(value.contiguous().numpy().tobytes() for value in values))
    return own, own.name
