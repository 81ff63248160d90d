"""Durations as text, and a time budget."""

from __future__ import annotations

import math
import re
import time
from numbers import Real

from fedkin.core import FedkinError
from fedkin.core.errors import flag

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parsed_duration(duration: str | float, name: str = "budget") -> float:
    """Return the seconds of a duration: a number of them, or a text such as ``"90s"``, ``"1.5h"`` or ``"1h30m"``.

    Raises FedkinError if it is something else, or zero; the message has the `name` of the option.
    """
    seconds = math.nan
    if isinstance(duration, str) and re.fullmatch(r"(\d+(\.\d+)?[smh])+", duration):
        seconds = sum(float(part[:-1]) * _UNITS[part[-1]] for part in re.findall(r"[\d.]+[smh]", duration))
    elif isinstance(duration, Real) and not isinstance(duration, bool):
        seconds = float(duration)
    if not 0 < seconds < math.inf:
        raise FedkinError(f"{flag(name)} is {duration!r}; it should be a time above 0, such as 90s, 10m or 2h.")
    return seconds


def duration(seconds: float) -> str:
    """Format a duration: ``"5.3 s"``, ``"40 s"``, ``"12 min"``, ``"3.5 h"``, ``"4 days"``."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


class TimeBudget:
    """Wall-clock time budget, in seconds, from `start`, a time of ``time.monotonic()``; by default from now.

    The `reserve` is for what follows the runs.
    """

    def __init__(self, seconds: float, reserve: float = 0.0, start: float | None = None) -> None:
        self.seconds, self.reserve = seconds, reserve
        self._start = time.monotonic() if start is None else start

    @property
    def spent(self) -> float:
        """Spent seconds."""
        return time.monotonic() - self._start

    @property
    def remaining(self) -> float:
        """Remaining seconds without the reserve, at least 0."""
        return max(0.0, self.seconds - self.reserve - self.spent)
