"""Times of day and durations in text, as people, pandas, databases and ISO 8601 write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SECONDS = r":[0-5]\d(?:[.,]\d+)?"
_CLOCK = re.compile(rf"\d{{1,3}}:[0-5]\d(?:{_SECONDS})?", re.ASCII)
_DAYS = re.compile(rf"(?P<days>[+-]?\d+) days?(?:,? \+?(?P<clock>\d{{1,2}}:[0-5]\d(?:{_SECONDS})?))?", re.ASCII)
"""2 days, 2 days 03:04:05 of pandas and databases, 2 days, 3:04:05 of Python; after negative days the time is added."""
_NUMBER = r"(-?\d+(?:[.,]\d+)?)"
_ISO = re.compile(
    rf"(?P<sign>[+-]?)P(?=[-\d]|T)(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=[-\d])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.ASCII,
)
_DOTTED = re.compile(r"(?:[01]?\d|2[0-3])\.(?P<minutes>[0-5]\d)\.[0-5]\d", re.ASCII)
"""18.30.00, as times are written in Italy."""
_HOURS = (168.0, 24.0, 1.0, 1 / 60, 1 / 3600)
"""Of the parts of `_ISO`, weeks to seconds."""


def as_hours(words: Iterable[str]) -> list[float] | None:
    """Return times of day and durations such as 1:30, 2 days 03:04:05 and PT12H22M in hours; ``None`` if any is none.

    Days have 24 hours. Years and months have no length of their own, so P1Y is none. Texts such as 18.30.00 are times
    if all are such, and the middle of some is no month.
    """
    hours = []
    for word in _with_colons([*words]):
        own = _hours(word)
        if own is None:
            return None
        hours.append(own)
    return hours


def _with_colons(words: list[str]) -> list[str]:
    """Return times with dots, if all are such and some are no dates, with colons; other words as they are."""
    parts = [part for word in words if (part := _DOTTED.fullmatch(word))]
    if len(parts) < len(words) or not any(int(part["minutes"]) not in range(1, 13) for part in parts):
        return words
    return [word.replace(".", ":") for word in words]


def is_duration(word: str) -> bool:
    """Return whether a text is a time of day or a duration, as of `as_hours`."""
    return _hours(word) is not None


def _hours(word: str) -> float | None:
    if _CLOCK.fullmatch(word):
        return clock_hours(word)
    if found := _DAYS.fullmatch(word):
        return 24.0 * int(found["days"]) + clock_hours(found["clock"] or "0:00")
    if (found := _ISO.fullmatch(word)) and any(found.groups()[1:]):
        parts = [float((part or "0").replace(",", ".")) for part in found.groups()[1:]]
        total = sum(part * hours for part, hours in zip(parts, _HOURS, strict=True))
        return -total if found["sign"] == "-" else total
    return None


def clock_hours(word: str) -> float:
    """Return 1:30 or 1:30:00 in hours."""
    hours, minutes, *seconds = (float(part.replace(",", ".")) for part in word.split(":"))
    return hours + minutes / 60 + sum(seconds) / 3600
