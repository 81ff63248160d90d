"""Seeds and generators, each derived from the seed of the run and a path of names; there is no global state.

A generator belongs to a path of names below the run's seed, such as ``(seed, "client", 3, 17)``
for the 17th exchange with client 3. Who asks first, on which thread and with whom, cannot change it.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_GLOBAL = threading.Lock()
"""Held while torch's global generator is seeded for a moment."""


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


def draw_seed(rng: torch.Generator) -> int:
    """Draw a 31-bit integer from `rng`, for libraries that take a ``random_state``."""
    return int(torch.randint(2**31 - 1, (), generator=rng))


def derive_bytes(count: int, seed: int, *path: int | str) -> bytes:
    """Return `count` bytes for `path` below the run's `seed`; they are as hard to guess as the seed."""
    return bytes(torch.randint(256, (count,), generator=derive_generator(seed, *path)).tolist())


@contextmanager
def seeded_globally(seed: int, accelerators: bool = False) -> Iterator[None]:
    """Seed torch's global generator for what draws from it, and restore it afterwards.

    With `accelerators` theirs are seeded, too, and not restored. One thread at a time; not to be entered twice by one.
    """
    with _GLOBAL, torch.random.fork_rng(devices=[]):
        if accelerators:
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)
        yield
