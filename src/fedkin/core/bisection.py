"""Bisection: finds by halving an interval where a condition begins to hold."""

from __future__ import annotations

from collections.abc import Callable


def bisect(holds: Callable[[float], bool], low: float, high: float, halvings: int = 80) -> tuple[float, float]:
    """Narrow an interval in which `holds` becomes true; return the last number that fails and the first that holds.

    `holds` is false below some number and true above it. It fails at `low` and holds at `high`; neither is tried.
    """
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def bisect_upwards(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Do the same as `bisect`, for a condition that fails at 0 and holds somewhere above it."""
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
    return bisect(holds, low, high, halvings=100)
