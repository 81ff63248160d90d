"""Numbers in text that may be read in two ways: 120.000, codes such as 2E5, and durations, which have many units."""

from __future__ import annotations

import re

from fedkin.data.reading.values.durations import is_duration
from fedkin.data.reading.values.text_values import COMMA_THOUSANDS, POINT_THOUSANDS, Words

_EXPONENT = re.compile(r"\d+[eE]\d+", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_SEVERAL = 3
"""Different numbers from which on three decimals are no chance."""


def written_as(words: Words, decimal: str) -> str:
    """Return the first of a column's distinct texts that may be read in two ways; empty if there is none.

    That is 2E5, which no program writes so, if all others are whole numbers; and 120.000, which may be 120 or 120,000,
    if all have three decimals after the `decimal` sign. Of times and durations it is one of several parts.
    """
    thousands = COMMA_THOUSANDS if decimal == "," else POINT_THOUSANDS
    if (span := next(filter(is_duration, words), None)) is not None:
        return str(span)
    if exponents := [word for word in words if _EXPONENT.fullmatch(word)]:
        return exponents[0] if all(_EXPONENT.fullmatch(word) or _WHOLE.fullmatch(word) for word in words) else ""
    if len(words) >= _SEVERAL and all(map(thousands.fullmatch, words)):
        return str(words[0])
    return ""
