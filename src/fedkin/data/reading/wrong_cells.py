"""Refusal of columns of text that are meant to be numbers or dates, with a sentence on what is wrong in them."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import FedkinError
from fedkin.data.reading.table_errors import DecimalCommaError
from fedkin.data.reading.values.date_texts import looks_like_date, no_date_in
from fedkin.data.reading.values.durations import is_duration
from fedkin.data.reading.values.text_values import (
    LEADING_ZERO,
    Words,
    are_numbers,
    have_points_between_thousands,
    limit_in,
    number_form,
    percentages_beside_numbers,
)

Codes = npt.NDArray[np.int64]
"""Index of each cell's distinct value; -1 where the cell is empty."""

_DECIMAL_COMMA = re.compile(r"[^,]*\d,\d+(?:[eE][+-]?\d+)?\)?", re.ASCII)
_MOSTLY, _HALF, _SOME, _FEW_WORDS = 0.9, 0.5, 20, 3
"""A column of text with the first fraction of numbers, or the second beside so few words such as "unknown", and so many
distinct numbers, is one of numbers with wrong cells."""
_SOME_MEASURED, _FRACTIONS = 10, 5
"""So many are enough beside a single word if so many of them have decimals, which codes hardly have."""


def check_no_numbers(words: Words, codes: Codes, here: str, decimal: str) -> None:
    """Refuse a column of numbers or times in which some cells are none, or all have another decimal separator."""
    if decimal == "." and (comma := next(filter(_DECIMAL_COMMA.fullmatch, words), None)) is not None:
        with_comma, with_point = are_numbers(words, ","), are_numbers(words, ".")
        if with_comma.all() or (_are_most(words, codes, with_comma) and with_comma.sum() > with_point.sum()):
            raise DecimalCommaError(here, comma)
    if decimal == "." and have_points_between_thousands(words):
        example = max(words, key=len)
        raise FedkinError(
            f"{here} holds '{example}', whose points separate thousands; set decimal = ',', or write it without them."
        )
    if (both := percentages_beside_numbers(words, decimal)) is not None:
        raise FedkinError(
            f"{here} holds percentages, such as '{both[0]}', beside numbers, such as '{both[1]}'; write all in one "
            "way, or name the column in categorical or drop."
        )
    if len(words) > _SOME_MEASURED and not any(map(LEADING_ZERO.match, words)):
        times = np.array([is_duration(word) for word in words])
        for fitting, what in ((are_numbers(words, decimal), "numbers"), (times, "times of day or durations")):
            _check_mostly(words, codes, fitting, here, what)


def check_no_units(words: Words, codes: Codes, here: str) -> None:
    """Refuse a column of numbers with signs, units or other numbers, which would be lost among names of rows."""
    if (form := number_form(words, int((codes >= 0).sum()))) is not None:
        raise FedkinError(
            f"{here} holds numbers in texts, most of the form '{form}', where 0 is a number; convert them, as pandas' "
            "str.extract and skrub's ToFloat do, or name the column in categorical or drop, or, if it names the rows, "
            "in id."
        )


def check_mostly_dates(words: Words, codes: Codes, here: str) -> None:
    """Refuse a column of dates in which some cells are no dates, or none of the calendar, naming the first of these."""
    dated = np.array([looks_like_date(word) for word in words])
    if dated.sum() < _SOME:
        return
    if dated.all():
        wrong = no_date_in(words)
        if wrong is None:  # some have the day first, and others the month
            raise FedkinError(
                f"{here} holds dates such as '{words[0]}' that cannot be read together; write them as 2024-12-31, or "
                "name the column in categorical or drop."
            )
        dated = words != wrong
    _check_mostly(words, codes, dated, here, "dates")


def _check_mostly(words: Words, codes: Codes, fitting: npt.NDArray[np.bool_], here: str, what: str) -> None:
    """Refuse a column of which most, but not all, is `fitting`, as of `_are_most`; name the first other text."""
    if _are_most(words, codes, fitting):
        wrong = (codes >= 0) & ~np.append(fitting, False)[codes]
        row, count = int(wrong.argmax()), int(wrong.sum())
        more, them = (f", and {count} such cells in all", "them") if count > 1 else ("", "it")
        example, alone = words[codes[row]], " if its numbers are codes" if what == "numbers" else ""
        way = f"correct or empty {them}, name {them} in na_values, or name the column in categorical{alone}."
        if (limit := limit_in(example)) is not None:
            way = f"write limits of detection as numbers, such as {limit}, or name {them} in na_values."
        raise FedkinError(f"{here} holds {what}, but '{example}' in row {row + 1}{more}; {way}")


def _are_most(words: Words, codes: Codes, fitting: npt.NDArray[np.bool_]) -> bool:
    """Return whether enough of a column's distinct texts are `fitting`, and most cells that are not empty."""
    right = np.append(fitting, False)[codes].sum()
    others = int((~fitting).sum())
    most = _MOSTLY if others > _FEW_WORDS else _HALF
    measured = others == 1 and sum("." in word or "," in word for word in words[fitting]) >= _FRACTIONS
    return bool(fitting.sum() >= (_SOME_MEASURED if measured else _SOME) and right >= most * (codes >= 0).sum())
