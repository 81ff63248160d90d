"""Conversion of a DataFrame's columns to numbers, with the kind of each column."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from fedkin.core.errors import FedkinError, mid_sentence
from fedkin.core.table import Column
from fedkin.data.reading.dataset import in_order
from fedkin.data.reading.id_columns import is_called_number
from fedkin.data.reading.table_options import NONE, TableOptions
from fedkin.data.reading.values.coded_missing import coded_missing
from fedkin.data.reading.values.date_texts import UNCLEAR, Ambiguous, as_dates, compact_dates
from fedkin.data.reading.values.known_kinds import as_known_numbers, as_known_truths
from fedkin.data.reading.values.text_values import (
    EXACT,
    Values,
    Words,
    as_numbers,
    composed,
)
from fedkin.data.reading.values.truth_values import truths_in
from fedkin.data.reading.values.written_numbers import written_as
from fedkin.data.reading.wrong_cells import Codes, check_mostly_dates, check_no_numbers, check_no_units

if TYPE_CHECKING:
    import pandas as pd

MISSING = frozenset({"", "?", ".", "-", "–", "—", "na", "n/a", "nan", "null", "<na>", "#n/a", "#na", "#n/a n/a", "\\n"})
MISSING |= {"0000-00-00", "0000-00-00 00:00:00", "00.00.0000", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
MISSING |= {"#null!", "#div/0!", "#num!"}
"""Words of an empty cell, in lower case, of which "\\\\n" is that of databases' exports, "#null!" that of
spreadsheets and SPSS; "None" is one in this spelling alone, for "none" is often an answer."""

DASHES = frozenset({"-", "–", "—"})
"""Words of an empty cell that are a value in a column with "+", "++" or "2+", as of a laboratory's results."""
POSITIVE = re.compile(r"\(?\++\)?|[1-4]\+")
ALONE = ("-",)
"""Categories of a column that has no other text; it is empty unless other clients have such dashes or "+"."""
_LEVELS = 20
"""Other words beside which "None" is a level."""
_SPELLINGS = 12
"""Different spellings of false and true up to which a column may hold them."""
_DASHED = 5
"""Dashes alone that may be values; as many as a category needs for its name to leave a client."""
_NAMES = (str, int, float, bool, np.generic, UUID)
_NAMED_BY = ("isoformat", "closed_left")
"""Attributes of dates, times and intervals, which have a text of their own."""
_DAY = 86_400_000_000
"""Microseconds."""


def read_column(cells: pd.Series, name: str, where: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a DataFrame's column, and its values, float64 ``(rows,)`` with NaN for empty cells.

    The column may be of any type that pandas has for numbers, booleans, texts, dates and categories. A few texts among
    numbers are refused, a level that `options` does not name, and with a `DecimalCommaError` numbers with a comma where
    `options` say a point. `where` names the source, at the beginning of error messages.
    """
    from pandas import CategoricalDtype
    from pandas.api import types

    here, kind = f"Column '{name}' of {mid_sentence(where)}", cells.dtype
    if name in options.ordinal:
        return _of_levels(name, cells, options.ordinal[name], here)
    if name in options.categorical:
        column, values = _category(name, *_words(cells, here, name in options.signed, options.kept(name)))
        return replace(column, asked=True), values
    if isinstance(kind, CategoricalDtype):
        levels = [as_text(value, here) for value in kind.categories]
        words = cells.cat.rename_categories(levels).astype(object) if len(set(levels)) == len(levels) else cells
        if kind.ordered:
            return _of_levels(name, words, levels, here)
        return _category(name, *_words(words, here, kept=options.kept(name)))
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
    known = _known(name, cells, here, options) if name in options.numbers or name in options.truths else None
    is_id = options.id == name or is_called_number(name)
    return known or _guessed(name, cells, here, options, is_id)


def _known(name: str, cells: pd.Series, here: str, options: TableOptions) -> tuple[Column, Values] | None:
    """Read texts of new rows as what the clients' column holds; ``None`` if they are something else."""
    codes, distinct = _distinct(cells, here)
    if not len(distinct) or not all(isinstance(value, str) for value in distinct):
        return None
    codes, words = _merged(codes, distinct, here)
    if (truths := options.truths.get(name)) is None:
        values = as_known_numbers(words, options.decimal)
        return None if values is None else (Column(name), _at(codes, values))
    values = as_known_truths(words, truths)
    return None if values is None else (Column(name, "boolean", tuple(truths)), _at(codes, values))


def read_number(name: str, values: Values) -> tuple[Column, Values]:
    """Return a column of numbers as it is, or as one of dates if all its numbers are such, as 20241231 is."""
    dates = compact_dates(values)
    return (Column(name), values) if dates is None else (Column(name, "date"), _days(dates))


def _guessed(name: str, cells: pd.Series, here: str, options: TableOptions, is_id: bool) -> tuple[Column, Values]:
    """Infer the kind of a column of texts or Python objects, which may be an id, from its distinct values."""
    import pandas as pd

    decimal, (codes, distinct) = options.decimal, _distinct(cells, here)
    kind = pd.api.types.infer_dtype(distinct, skipna=False)
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
        return Column(name), _at(codes, np.zeros(0))
    if (coded := coded_missing(words, decimal)).any():
        places = np.where(coded, -1, np.cumsum(~coded) - 1)
        codes, words = np.append(places, -1)[codes], words[~coded]
    numbers = as_numbers(words, decimal)
    if numbers is not None:
        percent = any(word.endswith("%") for word in words)
        return Column(name, percent=percent, written=written_as(words, decimal)), _at(codes, numbers)
    if (boolean := _boolean(name, codes, words)) is not None:
        return boolean
    dates = as_dates(words, int((codes >= 0).sum()), options.dayfirst)
    if isinstance(dates, Ambiguous):
        raise FedkinError(
            f"{here} holds dates such as '{dates.example}', {dates.why}; "
            f"{'set dayfirst = true or false, ' if dates.why == UNCLEAR else ''}write them as 2024-12-31, or name the "
            "column in categorical or drop."
        )
    if dates is not None:
        return Column(name, "date"), _at(codes, _days(dates))
    check_no_numbers(words, codes, here, decimal)
    check_mostly_dates(words, codes, here)
    if not is_id:
        check_no_units(words, codes, here)
    return _category(name, codes, words)


def _as_float(number: Any) -> float:
    """Return a Python number as a float, infinite if it is out of range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _boolean(name: str, codes: Codes, words: Words) -> tuple[Column, Values] | None:
    """Read a column of opposites such as yes and no, as of `truths_in`; ``None`` if it holds none."""
    if len(words) > _SPELLINGS or (found := truths_in(words.tolist())) is None:
        return None
    return Column(name, "boolean", found[0]), _at(codes, np.array(found[1]))


def _of_levels(name: str, cells: pd.Series, levels: Sequence[str], here: str) -> tuple[Column, Values]:
    levels = [composed(level) for level in levels]
    codes, words = _words(cells, here, not DASHES.isdisjoint(levels), levels)
    rank = {level: float(at) for at, level in enumerate(levels)}
    unknown = [word for word in words if word not in rank]
    if unknown:
        raise FedkinError(f"{here} holds '{unknown[0]}', which is none of its levels {', '.join(levels)}.")
    return Column(name, "ordinal", tuple(levels)), _at(codes, np.array([rank[word] for word in words]))


def _category(name: str, codes: Codes, words: Words) -> tuple[Column, Values]:
    categories = in_order(words)
    rank = {word: float(at) for at, word in enumerate(categories)}
    return Column(name, "category", tuple(categories)), _at(codes, np.array([rank[word] for word in words]))


def _words(cells: pd.Series, here: str, signed: bool = False, kept: Collection[str] = ()) -> tuple[Codes, Words]:
    """Return the index of each cell's text, -1 where it is empty, and the distinct texts, stripped of blanks.

    A dash is a value if the column is `signed`, or has a text that is positive or none but dashes; see `DASHES`. Texts
    that are `kept` are values whatever they are, and "None" is one beside a few categories.
    """
    return _merged(*_distinct(cells, here), here, signed, kept)


def _merged(
    codes: Codes, distinct: Words, here: str, signed: bool = False, kept: Collection[str] = ()
) -> tuple[Codes, Words]:
    """Merge distinct values with the same text, and set those that stand for empty cells to -1; see `_words`."""
    texts = [composed(value if isinstance(value, str) else as_text(value, here)).strip() for value in distinct]
    dashed = [at for at, text in enumerate(texts) if text in DASHES]
    alone = all(text in DASHES or text.lower() in MISSING or text == "None" for text in texts)
    signed = signed or (alone and int(np.isin(codes, dashed).sum()) >= _DASHED)
    if signed or any(map(POSITIVE.fullmatch, texts)):
        texts = ["-" if text in DASHES else text for text in texts]
        signed = True
    kept = {*kept, *(["-"] if signed else []), *([NONE] if _has_level_none(texts, codes) else [])}
    index: dict[str, int] = {}
    merged = np.full(len(distinct) + 1, -1)
    for at, text in enumerate(texts):
        if text in kept or (text.lower() not in MISSING and text != NONE):
            merged[at] = index.setdefault(text, len(index))
    return merged[codes], np.array(list(index), dtype=object)


def _has_level_none(texts: Sequence[str], codes: Codes) -> bool:
    """Return whether "None" is a level of a category: beside a few other words, each of which comes again.

    Among numbers, dates and truth values it is an empty cell.
    """
    if NONE not in texts:
        return False
    is_other = np.array([text.lower() not in MISSING and text != NONE for text in texts], dtype=bool)
    others = np.array(list({text: None for text, other in zip(texts, is_other, strict=True) if other}), dtype=object)
    if not 0 < len(others) <= _LEVELS:
        return False
    if np.append(is_other, False)[codes].sum() < 2 * len(others) or _boolean("", codes, others) is not None:
        return False
    return as_numbers(others, ".") is None and as_numbers(others, ",") is None and as_dates(others) is None


def _distinct(cells: pd.Series, here: str) -> tuple[Codes, Words]:
    """Factorise a column: return each cell's code, -1 where pandas calls it missing, and the distinct values."""
    try:
        codes, distinct = cells.factorize()
        return codes, np.asarray(distinct, dtype=object)
    except TypeError as error:  # what cannot be hashed
        example = next(value for value in cells if not isinstance(value, str | int | float))
        kind = type(example).__name__
        raise FedkinError(
            f"{here} holds values of type {kind}, but a cell needs a number, text or date; write their parts "
            "into columns, or name it in drop."
        ) from error


def as_text(value: Any, here: str = "The column") -> str:
    """Return a value as text; floats that are integers have no decimals."""
    if not isinstance(value, _NAMES) and not any(hasattr(value, own) for own in _NAMED_BY):
        raise FedkinError(f"{here} holds {value!r}, of type {type(value).__name__}, which is not supported.")
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
