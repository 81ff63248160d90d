"""Conversion of a DataFrame's columns to numbers, with the kind of each column."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from fedkin.core.errors import FedkinError, mid_sentence
from fedkin.core.table import Column
from fedkin.data.reading.cells import (
    DASHES,
    EXACT,
    MISSING,
    NONE,
    POSITIVE,
    Codes,
    Values,
    Words,
    as_dates,
    as_hours,
    as_numbers,
    check_no_mixture,
    check_no_units,
    composed,
    truths_in,
)
from fedkin.data.reading.dataset import in_order
from fedkin.data.reading.id_columns import is_called_number
from fedkin.data.reading.table_options import TableOptions

if TYPE_CHECKING:
    import pandas as pd

_NAMES = (str, int, float, bool, np.generic, UUID)
_NAMED_BY = ("isoformat", "closed_left")
"""Attributes of dates, times and intervals, which have a text of their own."""
_DAY = 86_400_000_000
"""Microseconds."""


def read_column(cells: pd.Series, name: str, where: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a DataFrame's column, and its values, float64 ``(rows,)`` with NaN for empty cells.

    The column may be of any type that pandas has for numbers, booleans, texts, dates and categories. `where` names the
    source, at the beginning of error messages. Raises FedkinError if cells are of no such type, a few are unlike the
    others, or one is no level that `options` name; and `AmbiguousError` if all numbers are such as 1.234.
    """
    from pandas import CategoricalDtype
    from pandas.api import types

    here, kind = f"Column '{name}' of {mid_sentence(where)}", cells.dtype
    if name in options.ordinal:
        return _of_levels(name, cells, options.ordinal[name], here)
    if name in options.categorical:
        column, values = _category(name, *_words(cells, here, options.levels.get(name, ())))
        return replace(column, asked=True), values
    if isinstance(kind, CategoricalDtype):
        levels = [as_text(value, here) for value in kind.categories]
        words = cells.cat.rename_categories(levels).astype(object) if len(set(levels)) == len(levels) else cells
        if kind.ordered:
            return _of_levels(name, words, levels, here)
        return _category(name, *_words(words, here))
    if types.is_bool_dtype(kind):
        return Column(name, "boolean", ("false", "true")), _floats(cells)
    if types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind):
        values = _floats(cells)
        if types.is_integer_dtype(kind) and len(values) and np.nanmax(np.abs(values), initial=0) > EXACT:
            return _category(name, *_words(cells, here))
        return Column(name), values
    if types.is_datetime64_any_dtype(kind):
        return Column(name, "date"), _days(cells)
    if types.is_timedelta64_dtype(kind):
        written = str(next(iter(cells.dropna()), ""))
        return Column(name, written=written), cells.dt.total_seconds().to_numpy(np.float64) / 3_600
    if str(kind).startswith("period"):
        return Column(name, "date"), _days(cells.dt.to_timestamp())
    return _of_objects(name, cells, here, options)


def _of_objects(name: str, cells: pd.Series, here: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a column of texts or Python objects, from its distinct values."""
    import pandas as pd

    codes, distinct = _distinct(cells, here)
    kind = "string" if isinstance(cells.dtype, pd.StringDtype) else pd.api.types.infer_dtype(distinct, skipna=False)
    if kind == "boolean":
        return Column(name, "boolean", ("false", "true")), _at(codes, distinct.astype(np.float64))
    if kind in ("date", "datetime", "datetime64"):
        return Column(name, "date"), _at(codes, _days(pd.Series(pd.to_datetime(distinct, utc=True))))
    if kind in ("timedelta", "timedelta64"):
        hours = pd.Series(pd.to_timedelta(distinct)).dt.total_seconds() / 3_600
        return Column(name, written=str(distinct[0])), _at(codes, hours.to_numpy(np.float64))
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        values = _at(codes, np.array([_as_float(number) for number in distinct]))
        big = kind == "integer" and np.nanmax(np.abs(values), initial=0) > EXACT
        return _category(name, *_merged(codes, distinct, here)) if big else (Column(name), values)
    codes, words = _merged(codes, distinct, here)
    if not len(words):
        return Column(name), np.full(len(codes), np.nan)
    return _of_words(name, codes, words, here, options)


def _of_words(name: str, codes: Codes, words: Words, here: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a column of texts, in which "None" is an empty cell unless it is a level."""
    some = words != NONE
    filled, places = words[some], np.append(np.where(some, np.cumsum(some) - 1, -1), -1)[codes]
    if not len(filled):
        return Column(name), np.full(len(codes), np.nan)
    if (numbers := as_numbers(filled, options.decimal, here)) is not None:
        return Column(name, percent=any(word.endswith("%") for word in filled)), _at(places, numbers)
    if (truths := truths_in(filled.tolist(), options.levels.get(name))) is not None:
        return Column(name, "boolean", truths[0]), _at(places, np.array(truths[1]))
    if (dates := as_dates(filled, options.dayfirst, here)) is not None:
        return Column(name, "date"), _at(places, _days(dates))
    if (hours := as_hours(filled)) is not None:
        return Column(name, written=str(filled[0])), _at(places, hours)
    check_no_mixture(words, codes, here)
    if options.id != name and not is_called_number(name):
        check_no_units(words, codes, here)
    return _category(name, codes, words)


def _as_float(number: Any) -> float:
    """Return a Python number as a float, infinite if it is out of range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _of_levels(name: str, cells: pd.Series, levels: Sequence[str], here: str) -> tuple[Column, Values]:
    levels = [composed(level) for level in levels]
    codes, words = _words(cells, here, levels)
    rank = {level: float(at) for at, level in enumerate(levels)}
    unknown = np.array([word not in rank for word in words], dtype=bool)
    if unknown.any():
        row = int(np.append(unknown, False)[codes].argmax())
        raise FedkinError(
            f"{here} has a text in row {row + 1:,} that is none of its levels {', '.join(levels)}.", public=True
        )
    return Column(name, "ordinal", tuple(levels)), _at(codes, np.array([rank[word] for word in words]))


def _category(name: str, codes: Codes, words: Words) -> tuple[Column, Values]:
    categories = in_order(words)
    rank = {word: float(at) for at, word in enumerate(categories)}
    return Column(name, "category", tuple(categories)), _at(codes, np.array([rank[word] for word in words]))


def _words(cells: pd.Series, here: str, kept: Collection[str] = ()) -> tuple[Codes, Words]:
    """Return the index of each cell's text, -1 where it is empty, and the distinct texts, stripped of blanks."""
    return _merged(*_distinct(cells, here), here, kept)


def _merged(codes: Codes, distinct: Words, here: str, kept: Collection[str] = ()) -> tuple[Codes, Words]:
    """Merge distinct values with the same text, and set those that stand for empty cells to -1.

    Texts that are `kept` are values whatever they are, and a dash is one beside "+".
    """
    texts = [composed(value if isinstance(value, str) else as_text(value, here)).strip() for value in distinct]
    if any(map(POSITIVE.fullmatch, texts)) or "-" in kept:
        texts, kept = ["-" if text in DASHES else text for text in texts], {*kept, "-"}
    index: dict[str, int] = {}
    merged = np.full(len(distinct) + 1, -1)
    for at, text in enumerate(texts):
        if text.lower() not in MISSING or text in kept:
            merged[at] = index.setdefault(text, len(index))
    return merged[codes], np.array(list(index), dtype=object)


def distinct_texts(cells: pd.Series) -> Words:
    """Return the distinct texts of a column that are no empty cells; none if some cells are no texts."""
    _, distinct = cells.factorize()
    texts = [text.strip() for text in distinct if isinstance(text, str)]
    filled = [text for text in texts if text.lower() not in MISSING and text != NONE]
    return np.array(filled if len(texts) == len(distinct) else [], dtype=object)


def _distinct(cells: pd.Series, here: str) -> tuple[Codes, Words]:
    """Factorise a column: return each cell's code, -1 where pandas calls it missing, and the distinct values."""
    try:
        codes, distinct = cells.factorize()
        return codes, np.asarray(distinct, dtype=object)
    except TypeError as error:  # what cannot be hashed
        example = next(value for value in cells if not isinstance(value, str | int | float))
        raise _no_cell(here, example) from error


def _no_cell(here: str, value: object) -> FedkinError:
    return FedkinError(
        f"{here} holds values of type {type(value).__name__}, but a cell needs a number, text or date; write their "
        "parts into columns, or name it in drop.",
        public=True,
    )


def as_text(value: Any, here: str = "The column") -> str:
    """Return a value as text; floats that are integers have no decimals."""
    if not isinstance(value, _NAMES) and not any(hasattr(value, attribute) for attribute in _NAMED_BY):
        raise _no_cell(here, value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _at(codes: Codes, values: Values) -> Values:
    """Return `values` at the codes; NaN at -1."""
    return np.append(values.astype(np.float64), np.nan)[codes]


def _floats(cells: pd.Series) -> Values:
    values: Values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _days(cells: pd.Series) -> Values:
    """Return dates as days since 1970-01-01 in UTC."""
    from pandas import to_datetime

    stamps = to_datetime(cells, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
    days: Values = stamps.astype(np.int64) / _DAY
    days[np.isnat(stamps)] = np.nan
    return days
