"""Values that a table's author has used for missing ones, such as -9 or "unknown"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkin.data.reading.text_values import composed

if TYPE_CHECKING:
    import pandas as pd

    from fedkin.data.reading.table_options import TableOptions


def without_na_values(frame: pd.DataFrame, options: TableOptions) -> pd.DataFrame:
    """Return a DataFrame in which cells with a value of `TableOptions.na_values` are empty.

    A number stands for all cells of this number, also as text; a text for cells of this text, but for blanks around it.
    """
    wanted = {at: given for at, name in enumerate(frame.columns) if (given := options.na_of(composed(name)))}
    if not wanted:
        return frame
    frame = frame.copy()
    for at, given in wanted.items():
        frame.isetitem(at, _emptied(frame.iloc[:, at], given, options.decimal))
    return frame


def _emptied(cells: pd.Series, given: Sequence[str | float], decimal: str) -> pd.Series:
    from pandas import CategoricalDtype

    numbers = {number for value in given if (number := _number(value, ".")) is not None}
    texts = {_text(value) for value in given}
    gone = [value for value in cells.dropna().unique() if _text(value) in texts or _number(value, decimal) in numbers]
    if isinstance(cells.dtype, CategoricalDtype):
        return cells.cat.remove_categories(gone)
    return cells.mask(cells.isin(gone)) if gone else cells


def _text(value: Any) -> str:
    text = composed(str(value)).strip()
    return text.removesuffix(" 00:00:00")  # of a date


def _number(value: Any, decimal: str) -> float | None:
    """Return a cell's number; ``None`` if it is none, as truth values are."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return float(value.replace(decimal, ".") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None
