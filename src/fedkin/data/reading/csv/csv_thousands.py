"""Numbers of a CSV file in which a point or comma that was taken for a decimal one seems to separate thousands."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from fedkin.core.errors import refuse
from fedkin.data.reading.values.text_values import COMMA_THOUSANDS, POINT_THOUSANDS

if TYPE_CHECKING:
    import pandas as pd

_FEW = 10
"""Distinct numbers like 1.234 that may still be fractions beside whole ones."""


def check_thousands(
    frame: pd.DataFrame,
    as_texts: Callable[..., pd.DataFrame],
    where: str,
    decimal: str,
    separator: str,
    sure: Collection[int] = (),
) -> None:
    """Refuse columns in which what is read as decimal seems to separate thousands, as 937 beside 1.937 and 12.500.

    Fractions with three decimals all, beside whole numbers, are refused with them; where cells are separated by commas,
    points hardly separate thousands, so some must be like 12.500, for programs leave zeros at the end away. `as_texts`
    returns the cells as they are written; the columns at the positions `sure` hold numbers anyway.
    """
    able = [at for at in _may_part_thousands(frame) if at not in sure]
    if not able:
        return
    written, with_comma = as_texts(usecols=able), decimal == ","
    pattern, called = (COMMA_THOUSANDS, "comma") if with_comma else (POINT_THOUSANDS, "point")
    rare = separator == "," and not with_comma
    advice = "write" if with_comma or rare else "set decimal = ',', or write"
    problems = []
    for at in able:
        words = written[frame.columns[at]].dropna().str.strip().unique()
        parted = [word for word in words if pattern.fullmatch(word)]
        whole = [word for word in words if re.fullmatch(r"[+-]?\d{1,3}", word)]
        is_few, others = len(parted) <= _FEW, len(parted) + len(whole) < len(words)
        if is_few or others or not whole or (rare and not any(word.endswith("0") for word in parted)):
            continue
        problems.append(
            f"Column '{frame.columns[at]}' of {where} holds '{max(whole, key=len)}' and '{parted[0]}', where the "
            f"{called} seems to separate thousands; {advice} the numbers without it."
        )
    refuse(problems)


def _may_part_thousands(frame: pd.DataFrame) -> list[int]:
    """Return the positions of columns in which what is read as decimal may separate thousands.

    Their fractions have at most three decimals, and some integer in them has three digits.
    """
    at = [at for at, kind in enumerate(frame.dtypes) if isinstance(kind, np.dtype) and kind.kind == "f"]
    values = np.abs(frame.iloc[:, at].to_numpy(dtype=np.float64))
    filled = ~np.isnan(values)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and very large ones
        whole = filled & (values % 1 == 0)
        fine = (np.round(values * 1000) / 1000 == values) | ~filled
    hundreds = whole & (values >= 100) & (values < 1000)
    able = fine.all(0) & (whole.sum(0) < filled.sum(0)) & hundreds.any(0)
    return [at[column] for column in np.flatnonzero(able)]
