"""A note on columns of numbers that stay at one value for many rows in succession, as a stuck sensor does.

They need the rows in their order, so they are made where the data are, and not sent.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import listing
from fedkin.core.table import Table
from fedkin.data.preparing.notes.column_notes import as_written

_ROWS, _PART = 20, 0.05
"""Rows in succession with one value from which on it is frozen, and the part of a client's rows that they are."""
_MOSTLY, _OTHERS = 0.9, 50
"""Part of a client's rows from which on a value is simply that of nearly all, and other values to compare with."""
_AGAIN = 0.1
"""Other values that are equal to that of the row before, at most: of slow, coarse or sorted numbers more are."""
_NAMED = 5

Values = npt.NDArray[np.float64]


def notes_on_frozen_columns(tables: Mapping[str, Table]) -> list[str]:
    """Return a note for each column that is frozen at some client, by the longest such run of rows.

    Nothing is said of a client's least or largest value, such as the power of a panel at night or a full scale, nor of
    several columns of a client that stay the same in the same rows: those are of one thing, such as a person's visits.
    """
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for client, table in tables.items():
        own = {}
        for at, column in enumerate(table.columns):
            if column.kind == "number" and (run := _longest(table.values[:, at].numpy())) is not None:
                own[column.name] = run
        starts = [start for start, _, _ in own.values()]
        for name, (start, rows, value) in own.items():
            if starts.count(start) == 1:
                found.setdefault(name, {})[client] = (value, rows)
    notes = []
    for name, runs in found.items():
        where = [f"{as_written(own, 'number')} for {rows:,} rows of {client}" for client, (own, rows) in runs.items()]
        notes.append(
            f"Column '{name}' stays the same for many rows, at {listing(where, _NAMED)}, and changes from row to row "
            "elsewhere; if it was not measured there, empty these cells."
        )
    return notes


def _longest(values: Values) -> tuple[int, int, float] | None:
    """Return first row, number of rows and value of the longest run of one value, if a column is frozen there."""
    own = np.flatnonzero(~np.isnan(values))
    if len(own) < _ROWS + _OTHERS:
        return None
    filled = values[own]
    begins = np.flatnonzero(np.r_[True, filled[1:] != filled[:-1]])
    lengths = np.diff(np.r_[begins, len(filled)])
    frozen = lengths >= max(_ROWS, _PART * len(filled))
    others = lengths[~frozen]
    if not frozen.any() or others.sum() < max(_OTHERS, (1 - _MOSTLY) * len(filled)):
        return None
    if (others - 1).sum() > _AGAIN * others.sum():
        return None
    best = int(np.where(frozen, lengths, 0).argmax())
    value = float(filled[begins[best]])
    if not filled.min() < value < filled.max() or (filled == value).sum() > 2 * lengths[frozen].sum():
        return None
    return int(own[begins[best]]), int(lengths[best]), value
