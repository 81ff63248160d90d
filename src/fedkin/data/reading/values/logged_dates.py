"""Dates with times as programs write them in logs and mails, and those of databases, in ISO's form."""

from __future__ import annotations

import re

_CLOCK = r"(?P<clock>\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)"
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_FORMS = (
    re.compile(rf"(?P<date>\d{{4}}-\d\d-\d\d)[T ]{_CLOCK}{_ZONE}", re.ASCII),
    re.compile(rf"(?P<day>\d{{1,2}})/(?P<month>[A-Za-z]{{3}})/(?P<year>\d{{4}}):{_CLOCK}{_ZONE}", re.ASCII),
    re.compile(
        rf"(?:[A-Za-z]{{3}}, )?(?P<day>\d{{1,2}}) (?P<month>[A-Za-z]{{3}}) (?P<year>\d{{4}}) {_CLOCK}{_ZONE}", re.ASCII
    ),
    re.compile(
        rf"[A-Za-z]{{3}} (?P<month>[A-Za-z]{{3}}) +(?P<day>\d{{1,2}}) {_CLOCK}(?: (?P<zone>UTC|GMT))?"
        r" (?P<year>\d{4})",
        re.ASCII,
    ),
)
"""2024-03-05 14:30:00 UTC, 05/Mar/2024:14:30:00 +0100, Tue, 05 Mar 2024 14:30:00 GMT, Tue Mar  5 14:30:00 2024."""


def in_iso_form(word: str) -> str:
    """Return a date with a time of day in ISO's form, as 2024-03-05T14:30:00+01:00; other texts unchanged."""
    for form in _FORMS:
        if (found := form.fullmatch(word)) is None:
            continue
        parts = found.groupdict()
        if (date := parts.get("date")) is None:
            if parts["month"].lower() not in _MONTHS:
                return word
            date = f"{parts['year']}-{_MONTHS.index(parts['month'].lower()) + 1:02}-{int(parts['day']):02}"
        zone = (parts["zone"] or "").replace("UTC", "Z").replace("GMT", "Z")
        if zone[1:].isdigit():
            zone = f"{zone[:3]}:{zone[3:] or '00'}"
        return f"{date}T{parts['clock'].replace(',', '.')}{zone}"
    return word
