"""Texts of new rows read as what their columns hold at the clients, which a few cells alone may not show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.data.reading.values.coded_missing import coded_missing
from fedkin.data.reading.values.text_values import Values, Words, as_numbers
from fedkin.data.reading.values.truth_values import meant_as_truths

_BESIDE = {".": ("1", "1,234,567.5", "1h 1m"), ",": ("1", "1.234.567,5", "1h 1m")}
"""Numbers by the sign before decimals, beside which (5.30) is negative, 105,957 has thousands and 45m is a duration."""


def as_known_numbers(words: Words, decimal: str) -> Values | None:
    """Return distinct texts of a column of numbers as such, with NaN for missing ones; ``None`` if some are none.

    A comma separates thousands unless it is the `decimal` sign, for others were refused at the clients.
    """
    coded = coded_missing(np.append(words, "1"), decimal)[:-1]
    found: Values = np.full(len(words), np.nan)
    rest = words[~coded]
    for beside in ((), *((each,) for each in _BESIDE[decimal])):
        if len(rest) and (numbers := as_numbers(np.append(rest, beside), decimal)) is not None:
            found[~coded] = numbers[: len(rest)]
            return found
    return None if len(rest) else found


def as_known_truths(words: Words, names: Sequence[str]) -> Values | None:
    """Return distinct texts of a column of truth values as 0 and 1; ``None`` if some are others.

    They are the clients' own `names` of false and true, or other words for these, of which letters may stand alone.
    """
    own = [name.casefold() for name in names]
    found = [float(own.index(word.casefold())) if word.casefold() in own else meant_as_truths(word) for word in words]
    return None if None in found else np.array(found, dtype=np.float64)
