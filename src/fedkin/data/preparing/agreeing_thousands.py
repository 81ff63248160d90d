"""Clients that write 120.000 where others have numbers such as 250000, which only all of them together show."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedkin.core.table import Table
from fedkin.data.reading.values.text_values import COMMA_THOUSANDS, POINT_THOUSANDS

_MAY_PART = re.compile(f"{POINT_THOUSANDS.pattern}|{COMMA_THOUSANDS.pattern}", re.ASCII)
_FEWEST = 5
"""Cells of a client from which on its median says something."""
_WITHIN = 20.0
"""Times that the medians of clients differ at most once thousands are read as such."""


def thousands_at_some(tables: Mapping[str, Table]) -> list[str]:
    """Return a sentence on each column whose numbers at some client have three decimals that seem to be thousands.

    All of a client's have three, as 120.000 and 95.500, and all of another, who writes otherwise, are whole and about a
    thousand times as large in the median.
    """
    problems: dict[str, str] = {}
    for client, table in tables.items():
        for at, column in enumerate(table.columns):
            if column.name in problems or not _MAY_PART.fullmatch(column.written):
                continue
            own = _filled(table, at)
            for other, theirs in tables.items():
                whole = _whole(theirs, column.name)
                if min(len(own), len(whole)) >= _FEWEST and _are_thousands(own, whole):
                    sign = "point" if "." in column.written else "comma"
                    problems[column.name] = (
                        f"Column '{column.name}' holds '{column.written}' at client {client}, where the {sign} seems "
                        f"to separate thousands, and {np.median(whole):,.0f} in the median at client {other}; write "
                        "the numbers without it, or in the same unit."
                    )
                    break
    return [*problems.values()]


def _filled(table: Table, at: int) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = table.values[:, at].numpy()
    return values[~np.isnan(values)]


def _whole(table: Table, name: str) -> npt.NDArray[np.float64]:
    """Return a column's filled cells if they are whole numbers, written as such; none otherwise."""
    column = next((at for at, own in enumerate(table.columns) if own.name == name and own.kind == "number"), None)
    if column is None or _MAY_PART.fullmatch(table.columns[column].written):
        return np.zeros(0)
    values = _filled(table, column)
    return values if not (values % 1).any() else np.zeros(0)


def _are_thousands(own: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> bool:
    one, other = float(np.median(own)), float(np.median(whole))
    return other >= 1_000 and 1 / _WITHIN <= 1_000 * one / other <= _WITHIN
