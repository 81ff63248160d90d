"""Where a column of numbers or dates lies at a client, by what the client reports anyway."""

from __future__ import annotations

import math
from typing import NamedTuple


class Spread(NamedTuple):
    """Number of a column's values at a client, and the sum of their squared distances from the mean of all clients."""

    filled: float
    center: float
    squares: float

    def at_most(self, low: float, high: float) -> int:
        """Return an upper bound on the number of values from `low` to the maximum, `high`."""
        if low <= self.center:
            return int(self.filled)
        gap = low - self.center  # divided by at once: squares of what a client sends may be beyond any float
        most = (high - self.center) / gap
        return int(min(self.filled, 1 + max(0.0, self.squares / gap / gap - most * most)))


class Range(NamedTuple):
    """Range of a column at a client, the mean, and the spread if it is known."""

    low: float
    high: float
    mean: float
    spread: Spread | None = None

    @property
    def filled(self) -> float:
        """Number of values; 0 if it is not known."""
        return 0.0 if self.spread is None else self.spread.filled

    def square_around(self, value: float) -> float:
        """Return the mean square distance of values from `value`, in [0, inf]; 0 if the spread is not known."""
        if self.spread is None:
            return 0.0
        away = self.spread.center - value
        return self.spread.squares / self.spread.filled + away * (2 * (self.mean - self.spread.center) + away)

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 if the spread is not known."""
        return math.sqrt(max(0.0, self.square_around(self.mean)))

    @property
    def size(self) -> float:
        """Largest distance of a value from 0."""
        return max(-self.low, self.high)

    @property
    def toward_farthest(self) -> Spread | None:
        """Spread of the values, with the sign by which the one farthest from 0 is positive."""
        if self.spread is None or self.high == self.size:
            return self.spread
        return self.spread._replace(center=-self.spread.center)

    @property
    def inside(self) -> float:
        """Mean distance of values from the nearer end of the range, or somewhat less; 0 if all are at the ends."""
        if self.spread is None or not self.low < self.high:
            return 0.0
        width = self.high - self.low  # divided by at once, as above
        above, below = (self.high - self.mean) / width, (self.mean - self.low) / width
        away = (self.mean - self.spread.center) / width
        return (above * below - (self.spread.squares / self.spread.filled / width / width - away * away)) * width
