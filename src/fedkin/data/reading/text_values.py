"""Texts that are numbers, dates or times of day, as people write them, and those that are nearly such."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.object_]
Values = npt.NDArray[np.float64]

NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.IGNORECASE | re.ASCII)
LEADING_ZERO = re.compile(r"[+-]?0\d")
EXACT = 2**53
"""Whole numbers beyond which float64 no longer tells neighbours apart."""

_DIGITS = re.compile(r"[+-]?\d+")
_MINUS = str.maketrans("\u2212\u2013", "--", "\u00a0\u202f\u2009")
"""Typographers' minus signs, and blanks that they put between thousands."""
_GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(?:[,']\d{3})+(?:\.\d+)?", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}(?:[.']\d{3})+(?:,\d+)?", re.ASCII),
}
"""Numbers with thousands apart, by what stands before decimals."""
_CLOCK = re.compile(r"\d{1,3}:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?", re.ASCII)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_PARTS = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?: (\d{1,2}:\d\d(?::\d\d)?))?", re.ASCII)
_YEAR_FIRST = re.compile(r"\d{4}([./])\d{1,2}\1\d{1,2}(?: \d{1,2}:\d\d(?::\d\d)?)?", re.ASCII)
_MONTH_NAMED = re.compile(r"\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{4}|[A-Za-z]{3,9} \d{1,2}, \d{4}", re.ASCII)
_FORMATS = ("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
_WITH_UNIT = re.compile(
    r"(?P<before>[$€£¥<>≤≥~]?) ?[+-]?\d[\d.,']* ?(?P<after>%|‰|[$€£¥]|°[CF]?|(?<= )[^\W\d]{1,5}(?:/[^\W\d]{1,5})?)?"
)
_MANY = 20
"""Distinct texts from which numbers with units are hardly categories."""


def as_numbers(words: Words, decimal: str) -> Values | None:
    """Texts that are numbers all, also with thousands apart or typographic signs; times of day are hours.

    ``None`` for others, and for codes with leading zeros or of very many digits.
    """
    words = np.array([word.translate(_MINUS) for word in words], dtype=object)
    parted = decimal == "," or any(_GROUPED["."].fullmatch(word) and not _could_be_decimal(word) for word in words)
    plain = np.array([_plain(word, decimal, parted) for word in words], dtype=object)
    if all(map(_CLOCK.fullmatch, plain)):
        return np.array([_hours(word) for word in plain])
    if not all(map(NUMBER.fullmatch, plain)) or any(map(LEADING_ZERO.match, plain)):
        return None
    numbers: Values = plain.astype(np.float64)
    large = np.isfinite(numbers) & (np.abs(numbers) > EXACT)
    return None if any(map(_DIGITS.fullmatch, plain[large])) else numbers


def _plain(word: str, decimal: str, parted: bool) -> str:
    """A number as Python writes it, where `parted` without what parts its thousands; other texts as they are."""
    if parted and _GROUPED[decimal].fullmatch(word):
        word = word.replace("'", "").replace("." if decimal == "," else ",", "")
    return word.replace(",", ".", 1) if decimal == "," else word


def _could_be_decimal(word: str) -> bool:
    """Whether the comma in a number may as well stand before decimals, as in 1,234."""
    return word.count(",") == 1 and "." not in word and "'" not in word


def _hours(word: str) -> float:
    hours, minutes, *seconds = map(float, word.split(":"))
    return hours + minutes / 60 + sum(seconds) / 3600


@dataclass(frozen=True)
class Ambiguous:
    """Dates of which day and month cannot be distinguished, such as `example`."""

    example: str


def as_dates(words: Words) -> Any | Ambiguous | None:
    """Texts that are dates all, as pandas' timestamps in UTC; ``None`` for others.

    Known are ISO dates, 31.12.2024, 12/31/2024 and 31/12/2024 where some date of the column says which, 2024/12/31, and
    English names of months, as in 31 Dec 2024; all but the last also with a time of day.
    """
    import pandas as pd

    def parsed(texts: Sequence[str] | Words, **how: Any) -> Any | None:
        stamps = pd.Series(pd.to_datetime(pd.Series(texts, dtype=object), utc=True, errors="coerce", **how))
        return stamps if bool(stamps.notna().all()) else None

    if all(map(_ISO_DATE.fullmatch, words)):
        return parsed(words, format="ISO8601")
    if all(map(_YEAR_FIRST.fullmatch, words)):
        return parsed([word.replace(".", "/") for word in words], format="mixed", yearfirst=True)
    parts = [_PARTS.fullmatch(word) for word in words]
    if all(parts):
        return _by_parts([part for part in parts if part is not None], parsed)
    if all(map(_MONTH_NAMED.fullmatch, words)):
        return next((own for form in _FORMATS if (own := parsed(words, format=form)) is not None), None)
    return None


def _by_parts(parts: Sequence[re.Match[str]], parsed: Callable[..., Any]) -> Any | Ambiguous | None:
    """Dates of two numbers and a year: with dots the day is first; else the numbers must tell."""
    first, second = max(int(part[1]) for part in parts), max(int(part[3]) for part in parts)
    dots = all(part[2] == "." for part in parts)
    if not dots and first <= 12 and second <= 12:
        same = all(int(part[1]) == int(part[3]) for part in parts)
        return None if same else Ambiguous(parts[0][0])
    day, month = (1, 3) if dots or first > 12 else (3, 1)
    return parsed(
        [f"{part[4]}-{part[month]:0>2}-{part[day]:0>2} {part[5] or '0:00'}" for part in parts], format="mixed"
    )


def with_unit(words: Words, filled: int) -> str | None:
    """An example of numbers with a unit or sign beside them, in a column too diverse for one of categories.

    Parameters
    ----------
    words : ndarray of str
        The distinct texts.
    filled : int
        Cells that are not empty.
    """
    if not (len(words) > _MANY or (len(words) > 3 and 2 * len(words) > filled)):
        return None
    found = [_WITH_UNIT.fullmatch(word.translate(_MINUS)) for word in words]
    marked = [match[0] for match in found if match and (match["before"] or match["after"])]
    return marked[0] if marked and all(found) else None
