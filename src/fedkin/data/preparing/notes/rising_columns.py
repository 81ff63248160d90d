"""A note on columns of numbers or dates that rise from row to row, as a time of measurement does.

They need the rows in their order, so they are made where the data are, and not sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import listing
from fedkin.core.table import Column, Table
from fedkin.data.preparing.column_reports import names_rows
from fedkin.data.reading.cells import EXACT

_ROWS, _NAMED = 20, 8
"""Filled cells of a client from which on a column says something, and columns that a note names."""
_ALMOST, _DIFFERENT = 0.98, 0.9
"""Steps from row to row that go one way, and distinct values per filled cell, at least."""
_EVEN = 0.7
"""Standard deviation of steps by their mean below which they are even; of sorted measurements it is about 1 or more."""
_DENSE = 5.0
"""Mean step by the common divisor of all steps up to which values are numbered or counted, some of them absent."""
_CALLED = re.compile(
    r"(?i:(^|[_\W\d])(time|timestamp|date|datetime|year|yr|month|week|day|hour|minute|second|sec|epoch|t|ts|seq|sequence|trial"
    r"|zeit|zeitstempel|datum|jahr|monat|woche|tag|heure|jour|mois|annee|année|ann|an|fecha|anno)s?([_\W\d]|$))"
    r"|(?i:timestamp|datetime|_at$)|[a-z](Time|Date|Year|Day|At)$"
)
_EPOCHS = ((3e8, 4.2e9), (3e11, 4.2e12), (3e14, 4.2e15), (3e17, 4.2e18))
"""Seconds since 1970 from 1979 to 2103, and milliseconds, microseconds and nanoseconds."""

Values = npt.NDArray[np.float64]


def notes_on_rising_columns(tables: Mapping[str, Table]) -> list[str]:
    """Return a note on columns that rise from row to row, or fall, at all clients with enough rows, if any.

    A table may be sorted by what was measured, so more must speak for a time or a number of the row: a date, a name,
    even steps, or seconds since 1970. Columns that name the rows are left out of the features anyway.
    """
    judged: dict[str, list[bool]] = {}
    for table in tables.values():
        for at, column in enumerate(table.columns):
            if column.kind in ("number", "date"):
                values = table.values[:, at]
                own = values[~values.isnan()].numpy()
                if len(own) >= _ROWS:
                    rises = _goes_one_way(own) and _may_be_time(column, own) and not names_rows(table, at)
                    judged.setdefault(column.name, []).append(rises)
    names = [f"'{name}'" for name, rises in judged.items() if all(rises)]
    if not names:
        return []
    some = len(names) > 1
    which = f"Columns {listing(names, _NAMED)} go" if some else f"Column {names[0]} goes"
    divide, them = ("they divide", "them") if some else ("it divides", "it")
    features = "they are no features" if some else "it is no feature"
    return [
        f"{which} one way from row to row, as a time or a row's number does, so {divide} early from late rows; name "
        f"{them} in drop if {features} of samples."
    ]


def _goes_one_way(own: Values) -> bool:
    """Return whether nearly all values are different, and nearly all steps from row to row rise, or fall."""
    steps = np.diff(own)
    rising = max((steps >= 0).sum(), (steps <= 0).sum())
    return bool(rising >= _ALMOST * len(steps) and len(np.unique(own)) >= _DIFFERENT * len(own))


def _may_be_time(column: Column, own: Values) -> bool:
    """Return whether a column that goes one way is more than one that its table is sorted by."""
    if column.kind == "date" or _CALLED.search(column.name):
        return True
    whole = bool((own == own.round()).all())
    if whole and any(low <= own.min() and own.max() <= high for low, high in _EPOCHS):
        return True
    steps = np.abs(np.diff(own))
    steps = steps[steps > 0]
    if steps.std() <= _EVEN * steps.mean():
        return True
    return whole and bool(np.abs(own).max() < EXACT and steps.mean() <= _DENSE * np.gcd.reduce(steps.astype(np.int64)))
