"""Estimated duration of entries on this machine, from the measured duration on another."""

from __future__ import annotations

import time

import numpy as np

from fedkin.studies.time_budget import duration

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


def duration_text(core_seconds: float, rate: float, jobs: int) -> str:
    """Describe the expected duration; `rate` is this machine's `speed`."""
    return duration(core_seconds * REFERENCE / rate / jobs)
