"""Seeds and generators, each derived from the seed of the run and a path of names; there is no global state.

A generator belongs to a path of names below the run's seed, such as ``(seed, "client", 3, 17)``
for the 17th exchange with client 3. Who asks first, on which thread and with whom, cannot change it.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def derive_seed(seed: int, *path: int | str) -> int:
    """Return a 63-bit seed for `path` below the run's `seed`.

    Of it torch's generators take 32 bits, so that among very many paths two may draw the same numbers.
    """
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in path]
    high, low = np.random.SeedSequence([seed, *words]).generate_state(2, np.uint32)
    return (int(high) << 31) ^ int(low)


def derive_generator(seed: int, *path: int | str) -> torch.Generator:
    """Return a CPU generator for `path` below the run's `seed`."""
    return torch.Generator().manual_seed(derive_seed(seed, *path))


def derive_seeds(seed: int, name: str, numbers: NDArray[np.int64], last: int) -> list[int]:
    """Return ``derive_seed(seed, name, number, last)`` for each of many `numbers` in [0, 2^32).

    It is `numpy.random.SeedSequence`, whose algorithm numpy documents as stable, on arrays.
    """
    words: list[Any] = [*_words_of(seed), zlib.crc32(name.encode()), numbers.astype(np.uint32), *_words_of(last)]
    factor = 0x43B0D7E5  # this and all below as in numpy's SeedSequence
    pool: list[Any]

    def hashed(value: Any, multiplier: int = 0x931E8875) -> Any:
        nonlocal factor
        mixed = np.bitwise_xor(np.asarray(value, np.uint32), np.uint32(factor))
        factor = factor * multiplier % 2**32
        mixed = mixed * np.uint32(factor)
        return mixed ^ (mixed >> np.uint32(16))

    def mixed_with(value: Any, other: Any) -> Any:
        mixed = value * np.uint32(0xCA01F9DD) - hashed(other) * np.uint32(0x4973F715)
        return mixed ^ (mixed >> np.uint32(16))

    with np.errstate(over="ignore"):
        pool = [hashed(word) for word in words[:4]]
        for source in range(4):
            for place in range(4):
                if place != source:
                    pool[place] = mixed_with(pool[place], pool[source])
        for word in words[4:]:
            pool = [mixed_with(part, word) for part in pool]
        factor = 0x8B51F9DD
        high, low = (hashed(part, 0x58F38DED).astype(np.int64) for part in pool[:2])
    seeds: list[int] = ((high << 31) ^ low).tolist()
    return seeds


def _words_of(number: int) -> list[int]:
    """Return the 32-bit words of an integer that is not negative, lowest first."""
    return [number % 2**32, *(_words_of(number >> 32) if number >> 32 else [])]


def draw_seed(rng: torch.Generator) -> int:
    """Draw a 31-bit integer from `rng`, for libraries that take a ``random_state``."""
    return int(torch.randint(2**31 - 1, (), generator=rng))


# Random noise that the server cannot predict, although it knows the seed of the run.


KEY = 32
"""Bytes of a secret key."""


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

    def stream_for(self, question: bytes) -> Secret:
        """Return the stream for a question: the same each time, and independent of those for other questions."""
        return Secret(hmac.digest(self._key, hashlib.sha256(question).digest(), "sha256"))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words of 64 random bits, ``(count,)``."""
        self._calls += 1
        stream = hashlib.shake_256(self._key + self._calls.to_bytes(8, "little")).digest(8 * count)
        return np.frombuffer(stream, dtype="<u8")

    def uniform(self, count: int) -> Tensor:
        """Return `count` uniform numbers in [0, 1), float64 ``(count,)``."""
        return torch.from_numpy((self.words(count) >> np.uint64(11)) * 2.0**-53)


Noise = Secret | torch.Generator
"""Source of random numbers: a secret, or in simulations, where nothing is secret, a generator that is reproducible."""


def uniform(shape: Sequence[int], noise: Noise, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return uniform numbers in [0, 1) of the given shape, drawn from `noise`."""
    if isinstance(noise, torch.Generator):
        return torch.rand(tuple(shape), generator=noise, dtype=dtype)
    return noise.uniform(math.prod(shape)).reshape(tuple(shape)).to(dtype)


class ClientNoise:
    """Generators of several clients, which draw at once the numbers that each draws by itself."""

    def __init__(self, rngs: Sequence[torch.Generator]) -> None:
        self.rngs = rngs
        self._words, self._next = np.empty((len(rngs), 0), np.int64), np.zeros(len(rngs), np.int64)

    def words(self, owners: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the next integer in [0, 2^63) of each of `owners` ``(n,)``, places of clients in ascending order."""
        counts = np.bincount(owners, minlength=len(self.rngs))
        short = int((self._next + counts).max()) - self._words.shape[1]
        if short > 0:
            more = [_words(np.empty(max(short, 1024)), rng) for rng in self.rngs]  # 8 kB a client, to ask it seldom
            used = int(self._next.min())
            self._words, self._next = np.hstack([self._words[:, used:], more]), self._next - used
        before = np.cumsum(counts) - counts
        places = self._next[owners] + np.arange(len(owners)) - before[owners]
        self._next = self._next + counts
        words: NDArray[np.int64] = self._words[owners, places]
        return words


def integers_below(
    bounds: NDArray[np.int64], noise: Noise | ClientNoise, owners: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return a uniform integer in [0, bound) for each of `bounds` ``(n,)``, all at least 1; exactly uniform.

    `owners` ``(n,)`` are as of `ClientNoise.words`.
    """
    owners = np.zeros_like(bounds) if owners is None else owners
    limits = 2**63 - 1 - (2**63 - 1) % bounds  # words from here on would favour small remainders
    words = _words(owners, noise)
    while len(biased := (words >= limits).nonzero()[0]):
        words[biased] = _words(owners[biased], noise)
    return words % bounds


def _words(owners: NDArray[Any], noise: Noise | ClientNoise) -> NDArray[np.int64]:
    """Return a uniform integer in [0, 2^63) for each of `owners`."""
    if isinstance(noise, ClientNoise):
        return noise.words(owners)
    if isinstance(noise, torch.Generator):
        drawn: NDArray[np.int64] = torch.empty(len(owners), dtype=torch.int64).random_(generator=noise).numpy()
        return drawn
    return (noise.words(len(owners)) >> np.uint64(1)).astype(np.int64)


def noise_for(noise: Noise, values: Sequence[Tensor]) -> tuple[Noise, bytes]:
    """Return the noise to use for these values, and 32 bytes that identify values and noise together.

    A secret gives the same noise for the same values, so that sending them again reveals nothing new, and independent
    noise for different values, so that their difference stays hidden. A generator gives its next numbers.
    """
    if isinstance(noise, torch.Generator):
        return noise, hashlib.sha256(noise.initial_seed().to_bytes(8, "little")).digest()
    stream = noise.stream_for(b"".join(value.contiguous().numpy().tobytes() for value in values))
    return stream, stream.name
