"""Time that may be spent, and what ends a run when it is over."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fedkin.core import FedkinError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_AGAIN = 15.0
"""Seconds after which a run that did not end is told so again: what is raised inside a destructor gets lost."""


class OutOfTime(BaseException):
    """The time is over; like an interruption, nothing but who set the time should catch it."""


def parsed_duration(text: str) -> float:
    """Seconds from ``"90s"``, ``"10m"``, ``"1.5h"`` or ``"1h30m"``.

    Raises
    ------
    FedkinError
        If `text` is something else, or no time at all.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise FedkinError(f"--budget is '{text}'; it should be a time above 0, such as 90s, 10m or 2h.")
    return seconds


class Budget:
    """A wall-clock time that is being spent since this was made.

    Parameters
    ----------
    seconds : float
        Above 0.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self.seconds - self.spent)

    @property
    def spent(self) -> float:
        """Seconds."""
        return time.monotonic() - self._began


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` wherever the program is after so many seconds inside, which must be above 0.

    Raises
    ------
    FedkinError
        Outside of the main thread, which alone gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise FedkinError(
            "A comparison keeps to its budget by a signal, which only the main thread gets; call it there."
        )

    def over(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
