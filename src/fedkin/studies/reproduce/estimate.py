"""Speed of this machine beside that of the one where entries were timed."""

from __future__ import annotations

import time

import numpy as np

REFERENCE = 100.0
"""GFLOP/s of one core at single-precision matrix products where the entries' `core_seconds` were measured."""

_SIDE, _REPEATS = 768, 20


def speed() -> float:
    """Measure the GFLOP/s of one core of this machine in matrix products, the best of several tries."""
    from threadpoolctl import threadpool_limits

    a = np.ones((_SIDE, _SIDE), dtype=np.float32)
    best = 0.0
    with threadpool_limits(1):
        for _ in range(_REPEATS):
            began = time.perf_counter()
            a @ a
            best = max(best, 2 * _SIDE**3 / (time.perf_counter() - began) / 1e9)
    return best
