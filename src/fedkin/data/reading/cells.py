"""What the texts of a column stand for: empty cells, numbers, truth values, dates or hours, else categories.

Nothing is guessed: what can be read in two ways is refused, and so is a column in which a few cells are unlike the
others. Sentences say what kind of cell is wrong and in which row, and never quote it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import FedkinError

Words = npt.NDArray[np.object_]
Values = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
"""Index of each cell's distinct value; -1 where the cell is empty."""

MISSING = frozenset({"", "?", ".", "-", "–", "—", "na", "n/a", "nan", "null", "<na>", "nat", "#n/a", "#na", "#null!"})
MISSING |= {"#div/0!", "#num!", "\\n", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
"""Words of an empty cell, in lower case: those of pandas, of spreadsheets' errors and of databases' exports."""
NONE = "None"
"""Word of an empty cell among numbers and dates, and of a level beside others, as in None, Mild, Severe."""
DASHES = frozenset({"-", "–", "—"})
"""Words of an empty cell that are a level beside "+", as of a laboratory's results."""
POSITIVE = re.compile(r"\(?\++\)?|[1-4]\+")
TRUTHS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"))
"""Opposites that are truth values, in lower case, the false one first; one alone is enough if it is a word."""
_SPELLINGS = 6
"""Spellings of false and true: each in small letters, in capitals, and with a first capital."""
NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.IGNORECASE | re.ASCII)
LEADING_ZERO = re.compile(r"[+-]?0\d")
EXACT = 2**53
"""Whole numbers beyond which float64 no longer distinguishes neighbours."""
_CODE_DIGITS = 17
"""Digits that float64 does not hold."""
POINT, COMMA = ".", ","

_TYPOGRAPHIC = str.maketrans("\u2212\u2013\u2019\u00a0\u202f\u2009", "--'   ")
"""Minus signs, apostrophes and blanks between thousands as typographers set them."""


def _form(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return what numbers look like; thousands may also be apart by blanks or apostrophes."""
    whole = rf"[1-9]\d{{0,2}}(?:[ '\{thousands}]\d{{3}})+(?:\{decimal}\d*)?|\d+(?:\{decimal}\d*)?|\{decimal}\d+"
    return re.compile(rf"[+-]?(?:(?:{whole})(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)


_FORMS = {POINT: _form(POINT, COMMA), COMMA: _form(COMMA, POINT)}
"""Numbers by what stands before their decimals; the other sign may separate their thousands."""
_ALL_PLAIN = re.compile(r"(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?:\n|\Z)|\n)*", re.ASCII)
_SURE_POINT = re.compile(r"^-?(?:0\.|\d{4,}\.|\d+\.(?!\d{3}$)|\d.*e)", re.ASCII | re.MULTILINE | re.IGNORECASE)
"""Lines of plain numbers or nothing, and a line whose point can only stand before decimals."""
_WITH_UNIT = re.compile(r"\D{0,6}[+-]?\d[\d.,' ]*\D{0,6}", re.ASCII)
_RUN = re.compile(r"\d[\d.,]*", re.ASCII)
_MANY = 10
"""Distinct texts beyond which numbers with letters are hardly categories, such as sizes and grades."""
_LOOKS_LIKE_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}(?:[T ,].*)?", re.ASCII)
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?"
_ISO = re.compile(
    rf"\d{{4}}-(?:0[1-9]|1[0-2])(?:-\d\d(?:[T ]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?)?", re.ASCII
)
_PARTS = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d{{4}})(?:,? +({_CLOCK}))?", re.ASCII)
_OTHER_DATES = {
    "%Y/%m/%d": re.compile(r"\d{4}/\d{1,2}/\d{1,2}", re.ASCII),
    "%d %b %Y": re.compile(r"\d{1,2} [A-Za-z]{3} \d{4}", re.ASCII),
    "%d-%b-%Y": re.compile(r"\d{1,2}-[A-Za-z]{3}-\d{4}", re.ASCII),
    "%b %Y": re.compile(r"[A-Za-z]{3} \d{4}", re.ASCII),
    "%Y %b": re.compile(r"\d{4} [A-Za-z]{3}", re.ASCII),
    "%b %d, %Y": re.compile(r"[A-Za-z]{3} \d{1,2}, \d{4}", re.ASCII),
}
"""Further forms of dates that can be read in one way only, as pandas calls them."""
_LAST_MONTH = 12
_SERIES = 6
"""Different months of dates on a first day, as 01/02/2010; six days of a January are all below 13 once in 800 times."""
_HOURS = re.compile(
    r"(?:(?P<days>[+-]?\d+) days?,? ?\+?)?(?P<hours>\d{1,3}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?",
    re.ASCII,
)
"""Times of day and durations such as 8:30, 08:30:15 and 2 days 03:04:05."""


class AmbiguousError(FedkinError):
    """Error of a column all of whose numbers with a sign are such as 1.234, where it may separate thousands."""

    def __init__(self, here: str, sign: str) -> None:
        self.sign = sign
        called = "point" if sign == POINT else "comma"
        super().__init__(
            f"{here} holds numbers whose {called} may stand before decimals or separate thousands, for three digits "
            f"follow it in all; set decimal = '{sign}' if it stands before decimals, else set decimal = "
            f"'{COMMA if sign == POINT else POINT}'.",
            public=True,
        )


def composed(value: Any) -> str:
    """Return a value as text whose accents and umlauts are composed (NFC), so that what looks alike is alike."""
    text = str(value)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def as_whole(name: str) -> str:
    """Return 3 for 3.0, and other texts unchanged."""
    return name[:-2] if name.endswith(".0") and name[:-2].lstrip("+-").isdecimal() else name


def as_known(name: str, known: Collection[str]) -> str | None:
    """Return a category as it is known: the same text, or the same whole number as 3 and 3.0 are; ``None`` of others.

    Programs write whole numbers in either way, and those beside empty cells often with decimals.
    """
    return next((form for form in (name, as_whole(name), f"{name}.0") if form in known), None)


def merged_wholes(levels: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Return each client's categories, in which 3.0 is 3 where another client has that, and none has both."""
    known = {level for levels_there in levels for level in levels_there}
    both = {level for there in levels for level in there if as_whole(level) != level and as_whole(level) in there}
    merged = {level for level in known if as_whole(level) in known and level not in both}
    return [[as_whole(level) if level in merged else level for level in there] for there in levels]


def as_plain_numbers(cells: list[str]) -> Values | None:
    """Parse a column's cells all of which are empty or numbers as programs write them; ``None`` if some are others.

    ``None``, too, if they can be read in two ways or may be codes; `as_numbers` has more to say of them.
    """
    text = "\n".join(cells)
    if not _ALL_PLAIN.fullmatch(text) or (POINT in text and not _SURE_POINT.search(text)):
        return None
    numbers: Values = np.array([cell or "nan" for cell in cells], dtype=object).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return None if bool((np.abs(numbers) > EXACT).any()) else numbers


def as_numbers(words: Words, decimal: str = "auto", here: str = "The column") -> Values | None:
    """Parse distinct texts as numbers; 58 % is 0.58 where all are percentages. ``None`` if some are none.

    What stands before decimals is read from the texts: 12.5 has a point, 1.234,5 a comma. Where all can be read in both
    ways, as 1.234, `decimal` says which, and "auto" raises an `AmbiguousError`. Numbers with leading zeros or very
    many digits are codes, and none.
    """
    if not len(words):
        return None
    texts: list[str] = words.tolist()
    if not "".join(texts).isascii():
        texts = [text.translate(_TYPOGRAPHIC) for text in texts]
    if share := any(text.endswith("%") for text in texts):
        if not all(text.endswith("%") or text == "0" for text in texts):
            return None
        texts = [text.removesuffix("%").rstrip() for text in texts]
    fits = {sign: all(map(form.fullmatch, texts)) for sign, form in _FORMS.items()}
    if not any(fits.values()) or any(map(LEADING_ZERO.match, texts)):
        return None
    sign = POINT if fits[POINT] else COMMA
    if all(fits.values()) and (signed := next((text for text in texts if POINT in text or COMMA in text), None)):
        if decimal == "auto":
            raise AmbiguousError(here, POINT if POINT in signed else COMMA)
        sign = decimal
    if sign == COMMA:
        texts = [text.translate({ord("."): None, ord(" "): None, ord("'"): None, ord(","): "."}) for text in texts]
    elif any(mark in text for text in texts for mark in ", '"):
        texts = [text.translate({ord(","): None, ord(" "): None, ord("'"): None}) for text in texts]
    numbers: Values = np.array(texts, dtype=object).astype(np.float64)
    large = np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) > EXACT))
    if any(texts[at].lstrip("+-").isdigit() for at in large):
        return None
    return numbers / 100 if share else numbers


def decimal_in(words: Words) -> str | None:
    """Return the sign that stands before decimals in texts all of which are numbers; ``None`` if nothing tells."""
    texts = [text.translate(_TYPOGRAPHIC).removesuffix("%").rstrip() for text in words]
    fits = [sign for sign, form in _FORMS.items() if all(map(form.fullmatch, texts))]
    return fits[0] if len(fits) == 1 else None


def truths_in(words: Sequence[str], known: Sequence[str] | None = None) -> tuple[tuple[str, str], list[bool]] | None:
    """Return how a column writes false and true, and which of its texts are true; ``None`` if others are among them.

    Where the words for false and true are `known`, they may stand alone.
    """
    if known and {word.lower() for word in words} <= {word.lower() for word in known}:
        return (known[0], known[1]), [word.lower() == known[1].lower() for word in words]
    if not 0 < len(words) <= _SPELLINGS:
        return None
    spelt = {word.lower(): word for word in reversed(words)}
    for no, yes in TRUTHS:
        if spelt.keys() == {no, yes} or (len(no) > 1 and spelt.keys() <= {no, yes}):
            return (spelt.get(no, no), spelt.get(yes, yes)), [word.lower() == yes for word in words]
    return None


def as_hours(words: Words) -> Values | None:
    """Return times of day and durations such as 8:30 and 2 days 03:04:05 in hours; ``None`` if any is none."""
    found = [_HOURS.fullmatch(word) for word in words]
    if not len(found) or not all(found):
        return None
    parts = [[float(part or 0) for part in own.group("days", "hours", "minutes", "seconds")] for own in found if own]
    hours: Values = np.array(parts) @ np.array([24, 1, 1 / 60, 1 / 3600])
    return hours


def as_dates(words: Words, dayfirst: bool | None, here: str) -> Any | None:
    """Parse distinct texts, all of one form, as dates: pandas' timestamps in UTC; ``None`` if some are no dates.

    Known are ISO dates with or without a time, 31.12.2024, 31/12/2024 and 12/31/2024, 2024/12/31, 31 Dec 2024,
    31-Dec-2024 and Dec 31, 2024. Raises FedkinError if day and month cannot be distinguished and `dayfirst` does not
    say which is first.
    """
    if not len(words):
        return None
    if all(map(_ISO.fullmatch, words)):
        return _parsed(words, format="ISO8601")
    if all(parts := [_PARTS.fullmatch(word) for word in words]):
        found = [part.groups() for part in parts if part]
        day_is_first = _is_day_first(found, dayfirst, here)
        days = [(year, second, first) if day_is_first else (year, first, second) for first, _, second, year, _ in found]
        clocks = [clock or "00:00" for *_, clock in found]
        iso = [
            f"{'-'.join(f'{part:0>2}' for part in day)}T{clock:0>5}" for day, clock in zip(days, clocks, strict=True)
        ]
        return _parsed(np.array(iso, dtype=object), format="ISO8601")
    for form, looks in _OTHER_DATES.items():
        if all(map(looks.fullmatch, words)):
            return _parsed(words, format=form)
    return None


def _parsed(texts: Words, format: str) -> Any | None:
    import pandas as pd

    stamps = pd.Series(pd.to_datetime(pd.Series(texts, dtype=object), utc=True, errors="coerce", format=format))
    return stamps if bool(stamps.notna().all()) else None


def _is_day_first(parts: Sequence[tuple[str, ...]], dayfirst: bool | None, here: str) -> bool:
    """Return whether the day is before the month: dots, a number above 12, or a part that is always 1 tells."""
    first, second = {int(part[0]) for part in parts}, {int(part[2]) for part in parts}
    if all(part[1] == "." for part in parts) or max(first) > _LAST_MONTH:
        return True
    if max(second) > _LAST_MONTH:
        return False
    if dayfirst is None and min(first, second, key=len) == {1} and max(len(first), len(second)) >= _SERIES:
        return first == {1}
    if dayfirst is None and any(int(part[0]) != int(part[2]) for part in parts):
        raise FedkinError(
            f"{here} holds dates of which day and month cannot be distinguished; set dayfirst = true or false, or "
            "write them as 2024-12-31.",
            public=True,
        )
    return bool(dayfirst)


def check_no_mixture(words: Words, codes: Codes, here: str, decimal: str = "auto") -> None:
    """Refuse a column of texts that is meant to be one of numbers, hours or dates, with what is wrong and where.

    `codes` are the cells' indices into the distinct `words`, which are not all of one of these kinds.
    """
    texts = [word.translate(_TYPOGRAPHIC) for word in words]
    number = np.array([any(form.fullmatch(text) for form in _FORMS.values()) for text in texts], dtype=bool)
    number &= [not LEADING_ZERO.match(text) and len(text.lstrip("+-")) < _CODE_DIGITS for text in texts]
    looks = {
        "numbers": number,
        "percentages": np.array([text.endswith("%") for text in texts], dtype=bool),
        "times": np.array([_HOURS.fullmatch(text) is not None for text in texts], dtype=bool),
        "dates": np.array([_LOOKS_LIKE_DATE.fullmatch(t) is not None or _ISO.fullmatch(t) is not None for t in texts]),
    }
    for what, like in looks.items():
        if 2 * like.sum() <= len(like) or 2 * np.append(like, False)[codes].sum() <= (codes >= 0).sum():
            continue
        if like.all():
            if what == "numbers":
                way = "of which some have a point and some a comma before decimals; write all in one way"
            elif what == "dates" and len(words) > _MANY:
                way = "in a form that is not read, or that the calendar does not have; write them as 2024-12-31"
            else:
                return
            raise FedkinError(f"{here} holds {what} {way}, or name the column in categorical or drop.", public=True)
        wrong = (codes >= 0) & ~np.append(like, False)[codes]
        row, count = int(wrong.argmax()), int(wrong.sum())
        more, them = (f", and {count:,} such cells in all", "them") if count > 1 else ("", "it")
        raise FedkinError(
            f"{here} holds {what}, but {_kind_of_cell(texts[codes[row]])} in row {row + 1:,}{more}; correct or empty "
            f"{them}, name {them} in na_values, or name the column in categorical.",
            public=True,
        )


def check_no_units(words: Words, codes: Codes, here: str) -> None:
    """Refuse numbers with letters or signs, as Rs1366850 or 10K are, which would be lost among names of rows.

    Codes are none of these: they have leading zeros, several numbers, or count their rows.
    """
    if len(words) <= _MANY or not all(map(_WITH_UNIT.fullmatch, words)) or 2 * len(words) <= (codes >= 0).sum():
        return
    runs = [_RUN.findall(word) for word in words]
    forms = Counter(_RUN.sub("0", word) for word in words)
    digits = [run[0] for run in runs]
    whole = {int(number) for number in digits if number.isdigit()}
    counts_rows = len(whole) == len(words) and max(whole) - min(whole) < 2 * len(words)
    if any(len(run) > 1 for run in runs) or any(map(LEADING_ZERO.match, digits)) or counts_rows:
        return
    if len(forms) <= 1 + len(words) // _MANY:
        raise FedkinError(
            f"{here} holds numbers with letters or signs, as of a unit or currency; write them as numbers, or name the "
            "column in categorical or drop, or, if it names the rows, in id.",
            public=True,
        )


def _kind_of_cell(text: str) -> str:
    """Return what kind of cell a text is, without any of its characters."""
    if re.match(r"[<>≤≥]=? ?\d", text):
        return "a limit such as <0 (write limits of detection as numbers)"
    if _LOOKS_LIKE_DATE.fullmatch(text) or _ISO.fullmatch(text):
        return "a date"
    if text.endswith("%"):
        return "a percentage"
    if any(form.fullmatch(text) for form in _FORMS.values()):
        return "a code with a leading zero" if LEADING_ZERO.match(text) else "a plain number"
    words = len(text.split())
    if words > 2:
        return f"a text of {words} words"
    return "a number with letters or signs" if any(letter.isdigit() for letter in text) else "a word"
