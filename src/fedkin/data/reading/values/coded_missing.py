"""Codes of missing values of statistics programs among numbers and dates: .a to .z of Stata, ._ and .A of SAS."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from fedkin.data.reading.values.date_texts import Ambiguous, as_dates
from fedkin.data.reading.values.text_values import Words, are_numbers

_CODE = re.compile(r"\.[A-Za-z_]", re.ASCII)


def coded_missing(words: Words, decimal: str) -> npt.NDArray[np.bool_]:
    """Return which of a column's distinct texts, bool ``(n,)``, stand for missing values.

    None do unless all others are numbers with this decimal separator, or dates: a column of ``.c`` and ``.h`` alone
    has names.
    """
    coded = np.array([_CODE.fullmatch(word) is not None for word in words], dtype=bool)
    others = words[~coded]
    if not coded.any() or not len(others):
        return np.zeros(len(words), dtype=bool)
    known = are_numbers(others, decimal).all() or not isinstance(as_dates(others), Ambiguous | None)
    return coded & known
