"""Parsing of numbers and times of day in text, as people write them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedkin.core.table import MAX_CATEGORIES
from fedkin.data.reading.values.durations import as_hours, clock_hours

Words = npt.NDArray[np.object_]
Values = npt.NDArray[np.float64]

NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.IGNORECASE | re.ASCII)
LEADING_ZERO = re.compile(r"[+-]?0\d")
EXACT = 2**53
"""Whole numbers beyond which float64 no longer distinguishes neighbours."""

_DIGITS = re.compile(r"[+-]?\d+")
_ZEROS = "\uff10\u0660\u06f0\u0966"
_MINUS = str.maketrans("\u2212\u2013\u2019", "--'", "\u00a0\u202f\u2009") | {
    ord(zero) + digit: str(digit) for zero in _ZEROS for digit in range(10)
}
"""Typographers' minus signs, and apostrophes and blanks that they put between thousands; digits of full width, and
Arabic, Persian and Indian ones."""
_GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}(?:[.' ]\d{3})+(?:,\d+)?", re.ASCII),
}
"""Numbers with thousands apart, by what stands before decimals."""
POINT_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
"""Numbers whose point may separate thousands."""
COMMA_THOUSANDS = re.compile(POINT_THOUSANDS.pattern.replace(r"\.", ","), re.ASCII)
"""Numbers whose comma may separate thousands."""
_POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})*|0", re.ASCII)
_MILLIONS, _GROUP = 3, 3
"""Groups of digits from which on points are no decimal ones, and digits of a group."""
_HUNDREDS, _ENOUGH = re.compile(r"[+-]?[1-9]\d\d", re.ASCII), 10
_ACCOUNTED = re.compile(r"\( ?([$€£]? ?[\d.,' ]*\d[\d.,' ]*%?) ?\)", re.ASCII)
"""Negative numbers as accountants write them."""
_MINUS_BEHIND = re.compile(r"([$€£]? ?[\d.,' ]*\d[.,]\d\d)[-\u2212]", re.ASCII)
"""Negative amounts as SAP writes them, with two decimals, for grades such as 2- are none."""
CLOCK_12 = re.compile(r"(1[0-2]|0?[1-9])(:[0-5]\d(?::[0-5]\d)?) ?([ap])\.?m\.?", re.ASCII | re.IGNORECASE)
_LIMIT = re.compile(r"[<>≤≥]=? ?([+-]?\d[\d.,']*)", re.ASCII)
_NUMBER_IN = re.compile(r"\d(?:[\d.,']|[\u00a0\u202f ](?=\d{3}))*", re.ASCII)
_RANGE_OR_NAME = re.compile(r"0\D{0,3}[-~]\D{0,3}0|[^\W\d_]")
"""Forms of texts that may be categories or codes: ranges, and those that begin with a letter."""
_FORMS, _MOSTLY = 3, 0.9
"""Different forms of numbers in a column, as of 800, 10K and 3M, that nine in ten of its texts have."""
_MANY, _FEW = 10, 3
"""Distinct texts from which numbers with units are hardly categories, and up to which they may be in a few cells."""


_WHOLE = re.compile(r"([+-]?\d+)\.0", re.ASCII)


def as_known(name: str, known: Collection[str]) -> str | None:
    """Return a category as it is known: the same text, or the same whole number as 3 and 3.0 are; ``None`` of others.

    Programs write whole numbers in either way, and those beside empty cells often with decimals.
    """
    return next((form for form in (name, as_whole(name), f"{name}.0") if form in known), None)


def as_whole(name: str) -> str:
    """Return 3 for 3.0, and other texts unchanged."""
    found = _WHOLE.fullmatch(name)
    return found[1] if found else name


def merged_wholes(levels: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Return each client's categories, in which 3.0 is 3 where another client has that, and none has both."""
    known = {level for own in levels for level in own}
    both = {level for own in levels for level in own if as_whole(level) != level and as_whole(level) in own}
    merged = {level for level in known if as_whole(level) in known and level not in both}
    return [[as_whole(level) if level in merged else level for level in own] for own in levels]


def composed(value: Any) -> str:
    """Return a value as text whose accents and umlauts are composed (NFC), so that what looks alike is alike."""
    return unicodedata.normalize("NFC", str(value))


def as_numbers(words: Words, decimal: str) -> Values | None:
    """Parse texts as numbers, with separators of thousands or typographic signs; times and durations become hours.

    With a decimal comma a column of which a number such as 0.5, 12.25 or 1,234.50 shows that it has points is read by
    these.
    Times may have AM and PM; 58 % is 0.58 where all are percentages, and (5) is -5 beside others. ``None`` for others,
    and for codes with leading zeros or of very many digits.
    """
    words = unaccounted(words)
    if any(word.endswith("%") for word in words) and all(word.endswith("%") or word == "0" for word in words):
        shares = as_numbers(_without_percent(words), decimal)
        return None if shares is None else shares / 100
    words = np.array([word.translate(_MINUS) for word in words], dtype=object)
    if decimal == "," and any(map(_parts_thousands_and_points, words)):
        return as_numbers(words, ".")
    if decimal == ",":
        parted = not any(map(has_plain_point, words))
    else:
        parted = any(_GROUPED["."].fullmatch(word) and not _could_be_decimal(word) for word in words)
        parted = parted or _apart_from_a_thousand_on(words)
    if (hours := as_hours(words)) is not None:
        return np.array(hours)
    plain = np.array([_plain(word, decimal, parted) for word in words], dtype=object)
    if all(halves := [CLOCK_12.fullmatch(word) for word in plain]):
        return np.array(
            [clock_hours(f"{int(half[1]) % 12}{half[2]}") + 12 * (half[3] in "pP") for half in halves if half]
        )
    if not all(map(NUMBER.fullmatch, plain)) or any(map(LEADING_ZERO.match, plain)):
        return None
    numbers: Values = plain.astype(np.float64)
    large = np.isfinite(numbers) & (np.abs(numbers) > EXACT)
    return None if any(map(_DIGITS.fullmatch, plain[large])) else numbers


def are_numbers(words: Words, decimal: str) -> npt.NDArray[np.bool_]:
    """Return which texts, bool ``(n,)``, are numbers with this decimal separator, perhaps with thousands apart."""
    plain = (_plain(word.translate(_MINUS), decimal, parted=True) for word in unaccounted(words))
    return np.array([NUMBER.fullmatch(word) is not None for word in plain], dtype=bool)


def has_plain_point(word: str) -> bool:
    """Return whether the point in a number can only stand before decimals, as in 0.928 and 12.25, but not in 1.234."""
    return "." in word and NUMBER.fullmatch(word) is not None and POINT_THOUSANDS.fullmatch(word) is None


def _parts_thousands_and_points(word: str) -> bool:
    """Return whether a number has a point before decimals and thousands apart, as 1,191.12 and 1'191.12."""
    return "." in word and _GROUPED["."].fullmatch(word) is not None and _GROUPED[","].fullmatch(word) is None


def have_points_between_thousands(words: Words) -> bool:
    """Return whether some texts are like 1.234.567, and all others like it, 1.234 or 937; 123.456.789 may be codes."""
    parts = [word.lstrip("+-").split(".") for word in words]
    if max(map(len, parts), default=0) < _MILLIONS or not all(map(_POINT_GROUPS.fullmatch, words)):
        return False
    return any(len(own) < _MILLIONS or len(own[0]) < _GROUP for own in parts)


def _without_percent(words: Words) -> Words:
    return np.array([word.removesuffix("%").rstrip() for word in words], dtype=object)


def percentages_beside_numbers(words: Words, decimal: str) -> tuple[str, str] | None:
    """Return a percentage and a number of a column that has both, and nothing else; ``None`` of another."""
    shares = [word for word in words if word.endswith("%")]
    numbers = [word for word in words if not word.endswith("%") and word != "0"]
    if not shares or not numbers or len(words) <= _FEW or as_numbers(_without_percent(words), decimal) is None:
        return None
    return shares[0], numbers[0]


def unaccounted(words: Words) -> Words:
    """Return texts with a minus before negative amounts, for one behind, or for parentheses if others have none."""
    behind = [_MINUS_BEHIND.fullmatch(word) for word in words]
    words = np.array([f"-{own[1]}" if own else word for own, word in zip(behind, words, strict=True)], dtype=object)
    found = [_ACCOUNTED.fullmatch(word) for word in words]
    if not any(found) or all(found):
        return words
    return np.array(
        [f"-{own[1].strip()}" if own else word for own, word in zip(found, words, strict=True)], dtype=object
    )


def _plain(word: str, decimal: str, parted: bool) -> str:
    """Return a number in Python's notation, without separators of thousands if `parted`; other texts unchanged."""
    if parted and _GROUPED[decimal].fullmatch(word):
        word = word.replace("'", "").replace(" ", "").replace("." if decimal == "," else ",", "")
    return word.replace(",", ".", 1) if decimal == "," else word


def _apart_from_a_thousand_on(words: Words) -> bool:
    """Return whether commas stand from 1,000 on alone, beside numbers of three digits, or ten such for one comma."""
    with_comma = [word for word in words if "," in word]
    others = [word for word in words if "," not in word]
    hundreds = sum(_HUNDREDS.fullmatch(word) is not None for word in others)
    return (
        len(with_comma) > 0
        and hundreds >= (1 if len(with_comma) > 1 else _ENOUGH)
        and all(_GROUPED["."].fullmatch(word) and word.lstrip("+-")[0] != "0" for word in with_comma)
        and all(NUMBER.fullmatch(word) and abs(float(word)) < 1_000 for word in others)
    )


def _could_be_decimal(word: str) -> bool:
    """Return whether the comma in a number may be a decimal separator, as in 1,234."""
    return word.count(",") == 1 and not set(".' ") & set(word)


def limit_in(word: str) -> str | None:
    """Return the number of a limit of detection, as 0.5 of <0.5; ``None`` of other texts."""
    found = _LIMIT.fullmatch(word)
    return found[1] if found else None


def too_diverse(distinct: int, filled: int) -> bool:
    """Return whether so many distinct texts in so many cells are hardly categories."""
    return distinct > _MANY or (distinct > _FEW and 2 * distinct > filled)


def number_form(words: Words, filled: int) -> str | None:
    """Return the usual form of numbers with signs, letters or other numbers, as ``0K`` of 10K, if a column holds such.

    `words` are the distinct texts, none of which alone is a number, and `filled` is the number of cells that are not
    empty. ``None`` of codes, which have leading zeros or count their rows; and of what may be categories: a few texts,
    and ranges and texts that begin with letters up to as many as categories have names.
    """
    if not too_diverse(len(words), filled):
        return None
    forms, numbers = Counter[str](), []
    for word in unaccounted(words):
        word = word.translate(_MINUS)
        forms[_NUMBER_IN.sub("0", word).lstrip("+-")] += 1
        numbers += _NUMBER_IN.findall(word)
    usual = [(form, count) for form, count in forms.most_common(_FORMS) if "0" in form]
    marked = [(form, count) for form, count in usual if form != "0"]
    covered = sum(count for _, count in usual) >= _MOSTLY * len(words)
    if not marked or not covered or any(map(LEADING_ZERO.match, numbers)):
        return None
    form, count = marked[0]
    if count < _MOSTLY * len(words) and (form[0].isalpha() or len(words) <= _MANY):  # codes, and grades such as 2-
        return None
    if _RANGE_OR_NAME.match(form):
        values = [int(number) for number in numbers if number.isdigit()]
        counts_rows = len(values) == len(numbers) == len(set(values)) and max(values) - min(values) < 2 * len(values)
        is_code = form[0].isalpha() and form.count("0") > 1
        if is_code or counts_rows or (2 * len(words) <= filled and len(words) <= MAX_CATEGORIES):
            return None
    return form
