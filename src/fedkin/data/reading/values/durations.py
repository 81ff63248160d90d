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
_MINUTES = re.compile(r"(?P<minutes>\d{1,3}):(?P<seconds>[0-5]\d(?:[.,]\d+)?)", re.ASCII)
"""12:34.5, as times of races are written; without decimals they are times of day, unless others have some."""
_SPOKEN = re.compile(
    r"(?:(?P<days>\d+) ?(?:d|days?|Tage?|jours?))?"
    r"(?:(?:,| and| und| et)? ?(?P<hours>\d+) ?(?:h|hrs?|hours?|Std\.?|Stunden?|heures?))?"
    r"(?:(?:,| and| und| et)? ?(?P<minutes>\d+) ?(?:m|mins?|minutes?|Min\.?|Minuten?)|(?<=\dh)(?P<after>[0-5]\d))?"
    r"(?:(?:,| and| und| et)? ?(?P<seconds>\d+(?:[.,]\d+)?) ?(?:s|secs?|seconds?|Sek\.?|Sekunden?|secondes?))?",
    re.ASCII,
)
"""7h 20m, 1 h 20 min, 1h20, 2 days 3 hours and 45 min."""
_PARTS, _PART_HOURS = ("days", "hours", "minutes", "after", "seconds"), (24.0, 1.0, 1 / 60, 1 / 60, 1 / 3600)
_HOURS = (168.0, 24.0, 1.0, 1 / 60, 1 / 3600)
"""Of the parts of `_ISO`, weeks to seconds."""


def as_hours(words: Iterable[str]) -> list[float] | None:
    """Return times of day and durations such as 1:30, 2 days 03:04:05 and PT12H22M in hours; ``None`` if any is none.

    Days have 24 hours. Years and months have no length of their own, so P1Y is none. Texts such as 18.30.00 are times
    if all are such, and the middle of some is no month. Beside 7h 20m, 45m is a duration, and beside 12:34.5, 13:40 is
    one of minutes and seconds.
    """
    words = _with_colons([*words])
    if not any(form.fullmatch(word) for word in words[:1] for form in (_CLOCK, _DAYS, _ISO, _MINUTES, _SPOKEN)):
        return None
    spoken = any(map(_is_spoken, words))
    short = any(_MINUTES.fullmatch(word) and not _CLOCK.fullmatch(word) for word in words)
    hours = []
    for word in words:
        own = _in_minutes(word) if short and _MINUTES.fullmatch(word) else _hours(word)
        own = _in_parts(word) if own is None and spoken else own
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
    """Return whether a text is a time of day or a duration of its own, as of `as_hours`; 5m may be of length."""
    return _hours(word) is not None or _is_spoken(word) or _MINUTES.fullmatch(word) is not None


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


def _is_spoken(word: str) -> bool:
    """Return whether a text is a duration of two parts or more, such as 7h 20m."""
    found = _SPOKEN.fullmatch(word)
    return found is not None and sum(found[part] is not None for part in _PARTS) > 1


def _in_parts(word: str) -> float | None:
    """Return a duration such as 7h 20m or 45m in hours."""
    found = _SPOKEN.fullmatch(word)
    if found is None or not any(found[part] for part in _PARTS):
        return None
    parts = [float((found[part] or "0").replace(",", ".")) for part in _PARTS]
    return sum(part * hours for part, hours in zip(parts, _PART_HOURS, strict=True))


def _in_minutes(word: str) -> float:
    """Return 12:34.5, of minutes and seconds, in hours."""
    minutes, seconds = word.replace(",", ".").split(":")
    return int(minutes) / 60 + float(seconds) / 3600


def clock_hours(word: str) -> float:
    """Return 1:30 or 1:30:00 in hours."""
    hours, minutes, *seconds = (float(part.replace(",", ".")) for part in word.split(":"))
    return hours + minutes / 60 + sum(seconds) / 3600
