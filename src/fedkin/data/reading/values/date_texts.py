"""Parsing of dates in text and in whole numbers, as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkin.data.reading.values.logged_dates import in_iso_form
from fedkin.data.reading.values.text_values import CLOCK_12, Values, Words, too_diverse

_DATE_CLOCK_12 = re.compile(rf"(\d+([./-])\d+\2\d+,?[ T-]){CLOCK_12.pattern}", re.ASCII | re.IGNORECASE)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_PARTS = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:(?:[ T-]|, )(\d{1,2}:\d\d(?::\d\d)?))?", re.ASCII)
_YEAR_FIRST = re.compile(r"\d{4}([./])\d{1,2}\1\d{1,2}(?: \d{1,2}:\d\d(?::\d\d)?)?", re.ASCII)
_SHORT_YEAR = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{2})(?:(?:[ T-]|, )(\d{1,2}:\d\d(?::\d\d)?))?", re.ASCII)
_SURELY_SHORT = re.compile(r"\d\d([./])\d\d\1\d\d", re.ASCII)
"""What dates with short years begin with where a few are enough, as versions of software, such as 1.2.13, do not."""
_DAY_NAMED = re.compile(r"\d{1,2} [A-Z][a-z]{2} \d{4}", re.ASCII)
_DAY_NAMED_SHORT = re.compile(r"(\d{1,2} [A-Z][a-z]{2} )(\d\d)", re.ASCII)
_NAMED_CLOCK = re.compile(
    r"(\d{1,2})[ -]?([A-Za-z]{3})[ -]?((?:19|20)\d\d)[: ](\d{1,2}):(\d\d(?::\d\d(?:\.\d+)?)?)", re.ASCII
)
"""01JAN2021:10:22:00, as SAS writes it, and 01-JAN-2021 10:22:00, as SPSS does."""
_YEAR = r"((?:19|20)\d\d)"
_YEAR_MONTH = re.compile(rf"{_YEAR}-(0[1-9]|1[0-2])|(0[1-9]|1[0-2])/{_YEAR}", re.ASCII)
_MONTH_NAMED = re.compile(r"[A-Z][a-z]{2} \d{4}", re.ASCII)
_MONTH_OF = {
    name: month
    for month, names in {
        "Jan": "january jan januar jänner jän janvier janv",
        "Feb": "february feb februar feber février fevrier févr fév",
        "Mar": "march mar märz maerz mär mrz mars", "Apr": "april apr avril avr", "May": "may mai",
        "Jun": "june jun juni juin", "Jul": "july jul juli juillet juil", "Aug": "august aug août aout",
        "Sep": "september sep sept septembre", "Oct": "october oct oktober okt octobre", "Nov": "november nov novembre",
        "Dec": "december dec dezember dez décembre decembre déc",
    }.items()
    for name in names.split()
}  # fmt: skip
"""English, German and French names of months."""
_MONTHS = list(dict.fromkeys(_MONTH_OF.values()))
_NAME = r"(?P<month>[A-Za-zäéûÄÉÛ]{3,9})\.?"
_WITH_NAME = (
    re.compile(rf"(?P<day>\d{{1,2}})(?:\. ?|er |[ -]){_NAME}[ -](?P<year>\d{{4}}|\d\d)", re.ASCII),
    re.compile(rf"(?P<day>\d{{1,2}})(?P<month>[A-Za-z]{{3}})(?P<year>{_YEAR})", re.ASCII),
    re.compile(rf"{_NAME} (?P<day>\d{{1,2}}), (?P<year>\d{{4}})", re.ASCII),
    re.compile(rf"{_NAME}[ -](?P<year>{_YEAR})", re.ASCII),
    re.compile(rf"(?P<year>{_YEAR})[ -]{_NAME}", re.ASCII),
)
_WEEKDAY = re.compile(
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|(?:mon|diens|donners|frei|sams|sonn)tag|"
    r"mittwoch|sonnabend|mo|di|mi|do|fr|sa|so|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|lun|mer|jeu|ven|sam|dim)"
    r"\.?,? (?=\d|[^\W\d_]+ \d{1,2}, \d{4}$)",
    re.IGNORECASE,
)
"""English, German and French names of weekdays before a date."""
_WEEK = re.compile(rf"{_YEAR}-?W(0[1-9]|[1-4]\d|5[0-3])(?:-?([1-7]))?", re.ASCII)
_QUARTER = re.compile(rf"{_YEAR}[ -]?Q([1-4])|Q([1-4])[ -]?{_YEAR}", re.ASCII)
_LAST_MONTH = 12
_SERIES = 6
"""Different months of dates on a first day, as 01/02/2010; six days of a January are all below 13 once in 800 times."""
_FIRST_DATE, _LAST_DATE = 19000101, 21001231
_FIRST_SHORT, _CENTURY = 30, 80
"""Years of two digits are those of 1930 to 2029, as in spreadsheets, unless they then spread over more years."""


UNCLEAR = "of which day and month cannot be distinguished"
"""Why dates are ambiguous that `dayfirst` would make clear."""


@dataclass(frozen=True)
class Ambiguous:
    """Result of parsing ambiguous dates such as `example`; `why` ends the sentence that explains it."""

    example: str
    why: str


def as_dates(words: Words, filled: int = 0, dayfirst: bool | None = None) -> Any | Ambiguous | None:
    """Parse distinct texts as dates, to pandas' timestamps in UTC; ``None`` if some are no dates.

    Known are ISO dates, 31.12.2024, 12/31/2024 and 31/12/2024 where some date of the column says which, 2024/12/31,
    and English, German and French names of months, as in 31 Dec 2024 and 31DEC2024; also with a time of day, which
    after the name of a month needs one of three letters, as in 31DEC2024:08:30:00. After dots, slashes and names of
    months, years may have two digits. Months, as in 2024-12, 12/2024 and Dec 2024, quarters such as 2024-Q4 and weeks
    such as 2024-W07 are their first days. One column may have several forms. `filled` is the number of cells that are
    not empty: where these hold only a few different texts such as 1.2.24, they are no dates. With 0 they always are.
    `dayfirst` says whether the day is before the month where no date of the column shows it.
    """
    import pandas as pd

    if not len(words):
        return None
    usual = [_as_usual(word) for word in words]
    forms = [_form(word) for word in usual]
    unsure = any(form == "short" and not _SURELY_SHORT.match(word) for form, word in zip(forms, usual, strict=True))
    if None in forms or (unsure and filled and not too_diverse(len(words), filled)):
        return None
    parts = []
    for form in dict.fromkeys(forms):
        at = [place for place, own in enumerate(forms) if own == form]
        reader, texts = _DATES[form or ""][1], [usual[place] for place in at]
        stamps = reader(texts, dayfirst) if reader in (_by_parts, _with_short_years) else reader(texts)
        if isinstance(stamps, Ambiguous):
            return Ambiguous(words[at[0]], stamps.why)
        if stamps is None:
            return None
        parts.append(pd.Series(stamps.to_numpy("datetime64[us]"), index=at))
    return pd.concat(parts).sort_index().dt.tz_localize("UTC")


def compact_dates(numbers: Values) -> Any | None:
    """Return whole numbers such as 20241231 as pandas' timestamps in UTC, and NaN as none.

    ``None`` unless all are dates, of 1900 to 2100.
    """
    import pandas as pd

    filled = ~np.isnan(numbers)
    with np.errstate(invalid="ignore"):
        if not filled.any() or not ((numbers >= _FIRST_DATE) & (numbers <= _LAST_DATE))[filled].all():
            return None
    if (numbers[filled] % 1).any():
        return None
    distinct, codes = np.unique(numbers[filled], return_inverse=True)
    stamps = _parsed([str(int(number)) for number in distinct], format="%Y%m%d")
    if stamps is None:
        return None
    found = np.full(len(numbers), np.datetime64("NaT"), dtype="datetime64[us]")
    found[filled] = stamps.to_numpy("datetime64[us]")[codes]
    return pd.Series(found).dt.tz_localize("UTC")


def _as_usual(word: str) -> str:
    """Return a date without AM or PM, or one with the name of a month as in 31 Dec 2024; other texts unchanged.

    A weekday before it is left out. One with the name of a month and a time of day is returned in ISO's form.
    """
    if begin := _WEEKDAY.match(word):
        word = word[begin.end() :]
    if (parts := _NAMED_CLOCK.fullmatch(word)) and (month := _MONTH_OF.get(parts[2].lower())):
        return f"{parts[3]}-{_MONTHS.index(month) + 1:02}-{parts[1]:0>2}T{parts[4]:0>2}:{parts[5]}"
    for form in _WITH_NAME:
        if (parts := form.fullmatch(word)) and (month := _MONTH_OF.get(parts["month"].lower())):
            day = f"{parts['day']} " if "day" in form.groupindex else ""
            return f"{day}{month} {parts['year']}"
    return in_iso_form(_in_24_hours(word))


def _in_24_hours(word: str) -> str:
    """Return a date with a time of day without AM or PM; other texts unchanged."""
    if (parts := _DATE_CLOCK_12.fullmatch(word)) is None:
        return word
    return f"{parts[1]}{int(parts[3]) % 12 + 12 * (parts[5] in 'pP'):02}{parts[4]}"


def _form(word: str) -> str | None:
    return next((form for form, (looks, _) in _DATES.items() if looks.fullmatch(word)), None)


def looks_like_date(word: str) -> bool:
    """Return whether a text has the form of a date, whether or not the calendar has it."""
    form = _form(_as_usual(word))
    return form is not None and (form != "short" or "/" in word or _SURELY_SHORT.match(word) is not None)


def no_date_in(words: Words) -> str | None:
    """Return a text that is no date of the calendar, such as 2024-02-30, of texts that have the form of dates."""
    while len(words) > 1:
        first, second = words[: len(words) // 2], words[len(words) // 2 :]
        words = first if as_dates(first) is None else second
    return str(words[0]) if len(words) and as_dates(words) is None else None


def _parsed(texts: Sequence[str], **how: Any) -> Any | None:
    import pandas as pd

    stamps = pd.Series(pd.to_datetime(pd.Series(texts, dtype=object), utc=True, errors="coerce", **how))
    return stamps.dt.tz_localize(None) if bool(stamps.notna().all()) else None


def _with_name_and_short_year(texts: Sequence[str]) -> Any | Ambiguous | None:
    parts = [part for text in texts if (part := _DAY_NAMED_SHORT.fullmatch(text)) is not None]
    years = _in_full([part[2] for part in parts], texts[0])
    if isinstance(years, Ambiguous):
        return years
    return _parsed([part[1] + year for part, year in zip(parts, years, strict=True)], format="%d %b %Y")


def _year_first(texts: Sequence[str]) -> Any | None:
    return _parsed([text.replace(".", "/") for text in texts], format="mixed", yearfirst=True)


def _with_short_years(texts: Sequence[str], dayfirst: bool | None = None) -> Any | Ambiguous | None:
    """Parse dates of three numbers of which the last is a year of two digits, such as 31/12/24."""
    parts = [part for text in texts if (part := _SHORT_YEAR.fullmatch(text)) is not None]
    days = [(int(part[1]), int(part[3])) for part in parts]
    if not all(1 <= min(pair) <= 12 and 1 <= max(pair) <= 31 for pair in days):
        return None
    if any(part[2] == "-" for part in parts):  # 24-12-31 is as usual as 31-12-24
        return Ambiguous(texts[0], "of which the year cannot be distinguished")
    years = _in_full([part[4] for part in parts], texts[0])
    if isinstance(years, Ambiguous):
        return years
    full = [f"{part[1]}{part[2]}{part[3]}{part[2]}{year}" for part, year in zip(parts, years, strict=True)]
    return _by_parts([f"{day} {part[5]}" if part[5] else day for day, part in zip(full, parts, strict=True)], dayfirst)


def _in_full(years: Sequence[str], example: str) -> list[str] | Ambiguous:
    """Return years of two digits with four; `Ambiguous` if they may be of either century."""
    full = [int(year) + (2000 if int(year) < _FIRST_SHORT else 1900) for year in years]
    if max(full) - min(full) > _CENTURY:
        return Ambiguous(example, "whose years have two digits and may be of either century")
    return [str(year) for year in full]


def _by_parts(texts: Sequence[str], dayfirst: bool | None = None) -> Any | Ambiguous | None:
    """Parse dates of two numbers and a year: which is the day is shown by dots, a number above 12, or 1 in all.

    Where nothing shows it, `dayfirst` says so; it is `Ambiguous` without.
    """
    parts = [part for text in texts if (part := _PARTS.fullmatch(text)) is not None]
    first, second = ({int(part[place]) for part in parts} for place in (1, 3))
    if all(part[2] == "." for part in parts) or max(first) > _LAST_MONTH:
        dayfirst = True
    elif max(second) > _LAST_MONTH:
        dayfirst = False
    elif dayfirst is None and min(first, second, key=len) == {1} and max(len(first), len(second)) >= _SERIES:
        dayfirst = first == {1}
    elif dayfirst is None and any(int(part[1]) != int(part[3]) for part in parts):
        return Ambiguous(parts[0][0], UNCLEAR)
    day, month = (1, 3) if dayfirst else (3, 1)
    return _parsed(
        [f"{part[4]}-{part[month]:0>2}-{part[day]:0>2} {part[5] or '0:00'}" for part in parts], format="mixed"
    )


def _months(texts: Sequence[str]) -> Any | None:
    """Parse years with months; ``None`` for seasons such as 2010-11, where each month is that of the next year."""
    found = [match for text in texts if (match := _YEAR_MONTH.fullmatch(text)) is not None]
    pairs = [(match[1] or match[4], match[2] or match[3]) for match in found]
    if all((int(year) + 1) % 100 == int(month) for year, month in pairs):
        return None
    return _parsed([f"{year}-{month}-01" for year, month in pairs], format="ISO8601")


def _quarters(texts: Sequence[str]) -> Any | None:
    found = [match for text in texts if (match := _QUARTER.fullmatch(text)) is not None]
    pairs = [(match[1] or match[4], int(match[2] or match[3])) for match in found]
    return _parsed([f"{year}-{3 * quarter - 2:02}-01" for year, quarter in pairs], format="ISO8601")


def _weeks(texts: Sequence[str]) -> Any | None:
    found = [match for text in texts if (match := _WEEK.fullmatch(text)) is not None]
    return _parsed([f"{match[1]}-W{match[2]}-{match[3] or 1}" for match in found], format="%G-W%V-%u")


_DATES: dict[str, tuple[re.Pattern[str], Callable[[Sequence[str]], Any]]] = {
    "iso": (_ISO_DATE, lambda texts: _parsed(texts, format="ISO8601")),
    "year first": (_YEAR_FIRST, _year_first),
    "dots": (re.compile(_PARTS.pattern.replace("[./-]", "[.]"), re.ASCII), _by_parts),
    "parts": (_PARTS, _by_parts),
    "short": (_SHORT_YEAR, _with_short_years),
    "named": (_DAY_NAMED, lambda texts: _parsed(texts, format="%d %b %Y")),
    "named and short": (_DAY_NAMED_SHORT, _with_name_and_short_year),
    "year and month": (_YEAR_MONTH, _months),
    "year and named month": (_MONTH_NAMED, lambda texts: _parsed(texts, format="%b %Y")),
    "quarter": (_QUARTER, _quarters),
    "week": (_WEEK, _weeks),
}
"""What dates of a form look like, and what reads them."""
