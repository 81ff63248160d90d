"""Durations as text, and a time budget."""

from __future__ import annotations

import math
import re
import time
from numbers import Real

from fedkin.core import FedkinError
from fedkin.core.doors import flag

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parsed_duration(time: str | float, name: str = "budget") -> float:
    """Return the seconds of a duration: a number of them, or a text such as ``"90s"``, ``"1.5h"`` or ``"1h30m"``.

    Raises FedkinError if it is something else, or zero; the message has the `name` of the option.
    """
    if isinstance(time, str):
        parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", time)
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        is_whole = "".join(number + unit for number, unit in parts) == time
    else:
        is_whole = isinstance(time, Real) and not isinstance(time, bool)
        seconds = float(time) if is_whole else 0.0
    if not is_whole or not 0 < seconds < math.inf:
        raise FedkinError(f"{flag(name)} is {time!r}; it should be a time above 0, such as 90s, 10m or 2h.")
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
    """Wall-clock time budget, in seconds, of which some are `kept` for what follows.

    It starts when this is made, or at `began`, a time of ``time.monotonic()``.
    """

    def __init__(self, seconds: float, kept: float = 0.0, began: float | None = None) -> None:
        self.seconds, self.kept = seconds, kept
        self._began = time.monotonic() if began is None else began

    @property
    def left(self) -> float:
        """Remaining seconds that are not kept, at least 0."""
        return max(0.0, self.seconds - self.kept - self.spent)

    @property
    def spent(self) -> float:
        """Spent seconds."""
        return time.monotonic() - self._began
