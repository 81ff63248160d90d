"""Levels of one column whose order is given at each client, as in pandas' ordered categories, in one common order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def in_one_order(levels: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """Return all levels in the one order that agrees with each given one; ``None`` if there is none, or several.

    So is 4, 5, 6, 8 for 4, 6, 8 and 4, 5, 6, 8.
    """
    before: dict[str, set[str]] = {name: set() for own in levels for name in own}
    for own in levels:
        for low, high in pairwise(own):
            before[high].add(low)
    found: list[str] = []
    while len(found) < len(before):
        lowest = [name for name, lower in before.items() if name not in found and lower <= set(found)]
        if len(lowest) != 1:
            return None
        found += lowest
    return tuple(found)
