"""Time budget."""

from __future__ import annotations

import math
import re
import time
from numbers import Real

from fedkin.core import FedkinError
from fedkin.core.doors import flag

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parsed_duration(text: str, name: str = "budget") -> float:
    """Parse a duration such as ``"90s"``, ``"10m"``, ``"1.5h"`` or ``"1h30m"`` to seconds.

    Raises FedkinError if `text` is something else, or zero; the message has the `name` of the option.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise FedkinError(f"{flag(name)} is '{text}'; it should be a time above 0, such as 90s, 10m or 2h.")
    return seconds


def given_duration(time: str | float) -> str:
    """Return a duration as text, as `parsed_duration` takes it; a number is one of seconds.

    Raises FedkinError if it is neither a text nor a finite number above 0.
    """
    if isinstance(time, str):
        return time
    if isinstance(time, bool) or not isinstance(time, Real) or not 0 < float(time) < math.inf:
        raise FedkinError(
            f"{flag('budget')} is {time!r}; it should be seconds above 0, or a text such as '90s', '10m' or '2h'."
        )
    return f"{float(time):.6f}".rstrip("0").rstrip(".") + "s"


def duration(seconds: float) -> str:
    """Format a duration: ``"5.3 s"``, ``"40 s"``, ``"12 min"``, ``"3.5 h"``, ``"4 days"``."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


def exact_duration(seconds: float) -> str:
    """Format a duration in the largest unit of which it is a whole number: ``"90 s"``, ``"10 min"``, ``"2 h"``."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds % unit == 0:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:g} s"


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
