"""Files with points before decimals, read among others that have decimal commas."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from fedkin.core.errors import refuse
from fedkin.data.reading.values.text_values import NUMBER, POINT_THOUSANDS, Words, composed, has_plain_point

if TYPE_CHECKING:
    import pandas as pd

_HUNDREDS = re.compile(r"[+-]?[1-9]\d\d", re.ASCII)
_WITH_COMMA = re.compile(r"[+-]?[\d.' ]*\d,\d+(?:[eE][+-]?\d+)?", re.ASCII)


def with_points(frame: pd.DataFrame, where: str, named: Collection[str | None] = ()) -> pd.DataFrame:
    """Return a table, read with decimal commas, with numbers such as 2.025 as such if its other numbers have points.

    They are thousands if others have commas, or if there are numbers such as 937 beside them. `named` columns are left
    as they are, and `where` is the source in error messages. Raises FedkinError, with a line for each column, if
    nothing tells, or the file has numbers of both kinds.
    """
    from pandas.api import types

    commas, points = False, False
    unclear: dict[int, Words] = {}
    for at, name in enumerate(frame.columns):
        cells = frame.iloc[:, at]
        if types.is_float_dtype(cells.dtype):  # whole ones without empty cells were written as 10,0
            commas |= bool((cells % 1 > 0).any() or cells.notna().all())
        elif composed(name) not in named and not types.is_numeric_dtype(cells.dtype):
            words = np.array([str(word).strip() for word in cells.dropna().unique()], dtype=object)
            commas |= any(map(_WITH_COMMA.fullmatch, words))
            if all(map(NUMBER.fullmatch, words)):
                points |= any(map(has_plain_point, words))
                if any(map(POINT_THOUSANDS.fullmatch, words)) and not any(map(has_plain_point, words)):
                    unclear[at] = words
    problems = []
    for at, words in unclear.items():
        in_hundreds = any(map(_HUNDREDS.fullmatch, words))
        if points and not commas and not in_hundreds:
            frame.isetitem(at, frame.iloc[:, at].astype(float))
        elif points or not (commas or in_hundreds):
            problems.append(_unclear(str(frame.columns[at]), where, words, points and commas))
    refuse(problems)
    return frame


def _unclear(name: str, where: str, words: Words, both: bool) -> str:
    example = next(word for word in words if POINT_THOUSANDS.fullmatch(word))
    other = "columns with points and with commas before decimals" if both else "no other number that tells"
    whole = example.replace(".", "")
    return (
        f"Column '{name}' of {where} holds '{example}', whose point may separate thousands or stand before decimals, "
        f"and the file has {other}; write {whole} or {example.replace('.', ',')} instead, or name the column in "
        "categorical or drop."
    )
