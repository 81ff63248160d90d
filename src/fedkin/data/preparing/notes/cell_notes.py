"""Notes on what clients' cells hold, which need the cells themselves: they are made where the data are, and not sent.

They show no value that fewer than five rows share, since reports of runs are passed on. What the clients' reports show
is noted in `fedkin.data.preparing.notes.column_notes`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import listing
from fedkin.core.table import Table
from fedkin.data.preparing.notes.alike_columns import notes_on_alike_columns
from fedkin.data.preparing.notes.equal_rows import are_copies, row_hashes
from fedkin.data.preparing.notes.missing_codes import notes_on_missing_codes
from fedkin.data.preparing.notes.rising_columns import notes_on_rising_columns
from fedkin.data.reading.cells import NONE

_REPEATED = 3
"""Copies of rows from which on they are no slips."""
_ROWS, _COLUMNS, _FINE = 20, 3, 0.5
"""A table of fewer rows or columns, or without a column of so many distinct values per distinct row, repeats rows by
chance."""
_EQUALLY = 0.9
"""Where most rows are copies, as in a file that was appended to itself, this part of them comes equally often."""
_ROUNDED = 1e-6
"""Relative difference from a sum that rounding makes."""
_NAMED = 5
"""Clients that a note names."""

Values = npt.NDArray[np.float64]


def notes_on_cells(tables: Mapping[str, Table]) -> list[str]:
    """Return notes on the tables of clients, which are given by name."""
    return [
        *_on_copies(tables),
        *_on_sums(tables),
        *notes_on_rising_columns(tables),
        *notes_on_alike_columns(tables),
        *notes_on_missing_codes(tables),
        *_on_none(tables),
    ]


def _on_copies(tables: Mapping[str, Table]) -> list[str]:
    """Return notes on clients with the same rows, and on clients in which rows are repeated."""
    notes: list[str] = []
    seen: dict[bytes, str] = {}
    for client, table in tables.items():
        if len(table) < _ROWS or len(table.columns) < _COLUMNS:
            continue
        rows = np.sort(row_hashes(table.values.numpy()))
        first = seen.setdefault(rows.tobytes(), client)
        if first != client:
            notes.append(f"{first} and {client} hold the same rows; leave one of them out if it is a copy.")
        times = np.unique(rows, return_counts=True)[1]
        repeated = len(rows) - len(times)
        if repeated >= _REPEATED and _has_fine_column(table, times) and are_copies(table):
            notes.append(f"{repeated} of {len(rows)} rows of {client} are copies of others.")
    return notes


def _on_sums(tables: Mapping[str, Table]) -> list[str]:
    """Return a note on clients whose last row holds the sums of the others, as spreadsheets have below a table."""
    summed = []
    for client, table in tables.items():
        at = [place for place, column in enumerate(table.columns) if column.kind == "number"]
        values = table.values[:, at].numpy()
        last = values[-1:].ravel()
        known = last[~np.isnan(last)]
        if len(values) < _ROWS or len(known) < 2 or not known.all():
            continue
        sums = np.nansum(values[:-1], axis=0)[~np.isnan(last)]
        if np.allclose(sums, known, rtol=_ROUNDED, atol=0):
            summed.append(client)
    if not summed:
        return []
    if len(summed) == 1:
        return [f"The last row of {summed[0]} holds the sums of the others; delete it."]
    return [f"The last rows of {listing(summed, _NAMED)} hold the sums of the others; delete them."]


def _has_fine_column(table: Table, times: npt.NDArray[np.int64]) -> bool:
    """Return whether some numbers are so fine that rows, each there so many `times`, are hardly equal by chance."""
    if 2 * len(times) <= len(table) and (times == np.median(times)).mean() < _EQUALLY:
        return False
    numbers = (table.values[:, at].numpy() for at, column in enumerate(table.columns) if column.kind == "number")
    return any(len(np.unique(own)) > _FINE * len(times) for own in numbers)


def _on_none(tables: Mapping[str, Table]) -> list[str]:
    """Return a note on columns in which the text "None" is taken for a category, with their numbers of cells."""
    cells: dict[str, int] = {}
    for table in tables.values():
        for column, values in zip(table.columns, table.values.numpy().T, strict=True):
            if column.kind == "category" and NONE in column.categories and not column.asked:
                count = int((values == column.categories.index(NONE)).sum())
                cells[column.name] = cells.get(column.name, 0) + count
    if not cells:
        return []
    named = listing([f"'{name}' ({count:,} cell{'s' * (count != 1)})" for name, count in cells.items()], _NAMED)
    columns = f"column{'s' * (len(cells) != 1)}"
    return [
        f"The text '{NONE}' is a category of its own in {columns} {named}; name it in na_values if it stands for an "
        "empty cell."
    ]
