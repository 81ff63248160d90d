"""Recognition of a last row of totals, as spreadsheets have below a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from fedkin.core.errors import FedkinError, mid_sentence

if TYPE_CHECKING:
    import pandas as pd

_TOTAL = re.compile(
    r"(?:grand |sub ?)?(?:totals?|sums?)|total (?:général|general)|(?:gesamt)?summe|gesamt|insgesamt|somme|suma|totale",
    re.IGNORECASE,
)
_ROWS = 4
_ROUNDED = 1e-4
"""Relative difference from a sum that rounding of many numbers makes."""


def check_no_totals(frame: pd.DataFrame, where: str) -> None:
    """Refuse a last row that is called a total, or a sum, and holds sums of half of the columns of numbers or more."""
    from pandas.api import types

    if len(frame) < _ROWS:
        return
    last = frame.iloc[-1].tolist()
    called = [cell.strip() for cell in last if isinstance(cell, str) and _TOTAL.fullmatch(cell.strip().rstrip(":"))]
    if not called:
        return
    kinds = [types.is_integer_dtype(kind) or types.is_float_dtype(kind) for kind in frame.dtypes]
    values = frame.iloc[:, kinds].to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers too large for a sum, which have an error of theirs
        sums, known = np.nansum(values[:-1], axis=0), values[-1]
    counted = ~np.isnan(known) & (known != 0)
    right = np.isclose(sums[counted], known[counted], rtol=_ROUNDED, atol=0)
    if right.any() and 2 * right.sum() >= counted.sum():
        raise FedkinError(f"The last row of {mid_sentence(where)} is one of totals ('{called[0]}'); delete it.")
