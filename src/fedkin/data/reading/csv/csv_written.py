"""How a CSV file writes numbers that may be read in two ways: 120.000, and codes such as 2E5."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from fedkin.data.reading.values.written_numbers import written_as

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 1_000
"""Rows that are looked at."""


def written_in(
    frame: pd.DataFrame, as_texts: Callable[..., pd.DataFrame], decimal: str, sure: Collection[int] = ()
) -> dict[str, str]:
    """Return by column how a number is written that may be read in two ways, as of `written_as`.

    `as_texts` returns the cells as they are written, and `decimal` is the sign by which they were read; the columns
    at the positions `sure` hold numbers that can be read in one way only.
    """
    able = [at for at, kind in enumerate(frame.dtypes) if isinstance(kind, np.dtype) and kind.kind == "f"]
    values = frame.iloc[:_ROWS, able].to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and very large ones
        fine = (np.round(values * 1000) / 1000 == values) | np.isnan(values)
    able = [at for at, each in zip(able, fine.all(0), strict=True) if each and at not in sure]
    if not able:
        return {}
    cells = as_texts(usecols=able, nrows=_ROWS)
    found = {str(name): written_as(own.dropna().str.strip().unique(), decimal) for name, own in cells.items()}
    return {name: example for name, example in found.items() if example}
