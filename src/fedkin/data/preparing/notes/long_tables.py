"""A note on tables in long form: each row is a single measurement, and a category says of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import listing
from fedkin.core.table import Column, Table

_MIN_KEYS, _MAX_LEVELS, _COMPLETE = 10, 50, 0.9
"""Samples from which on a table may be long, kinds of measurement up to which it may be, and the part of all
measurements of all samples that it has."""
_APART = 10
"""Times that the middle halves of the kinds differ in width, as quantities in other units do and repeated measures
hardly."""
_NAMED = 3

Values = npt.NDArray[np.float64]


class _Long(NamedTuple):
    """Names of a long table's columns: of the numbers, of what they measure, and of the samples."""

    value: str
    kind: Column
    key: str


def notes_on_long_tables(tables: Mapping[str, Table]) -> list[str]:
    """Return a note if the rows of tables, which are given by the clients' names, seem to be single measurements."""
    long = {client: found for client, table in tables.items() if (found := _long_form(table)) is not None}
    if not long:
        return []
    value, kind, key = next(iter(long.values()))
    return [
        f"Rows of {listing(list(long), _NAMED)} seem to be single measurements: '{value}' holds what '{kind.name}' "
        f"names for each '{key}'. Give each a column of its own, as pandas' pivot does, or clusters are "
        "these."
    ]


def _long_form(table: Table) -> _Long | None:
    """Return the columns of a table in long form: one of numbers beside that of samples; else ``None``."""
    values = table.values.numpy()
    kinds = [at for at, column in enumerate(table.columns) if column.kind == "category"]
    for at in kinds:
        if not 2 <= len(table.columns[at].categories) <= _MAX_LEVELS or np.isnan(values[:, at]).any():
            continue
        for key in _keys(table, at):
            numbers = [one for one, column in enumerate(table.columns) if column.kind == "number" and one != key]
            if len(numbers) == 1 and _is_key(values[:, key], values[:, at], len(table.columns[at].categories)):
                if _are_other_quantities(values[:, numbers[0]], values[:, at]):
                    return _Long(table.columns[numbers[0]].name, table.columns[at], table.columns[key].name)
                return None
    return None


def _keys(table: Table, kind: int) -> Iterator[int]:
    return (at for at, column in enumerate(table.columns) if at != kind and column.kind != "boolean")


def _is_key(key: Values, kind: Values, levels: int) -> bool:
    """Return whether nearly each of many values of a column comes once with each level of a category."""
    if np.isnan(key).any():
        return False
    different, which = np.unique(key, return_inverse=True)
    if len(different) < _MIN_KEYS or not _COMPLETE * len(different) * levels <= len(key) <= len(different) * levels:
        return False
    return len(np.unique(which * levels + kind.astype(np.int64))) == len(key)


def _are_other_quantities(numbers: Values, kind: Values) -> bool:
    """Return whether numbers scatter so differently from level to level that they are hardly one quantity."""
    own = [numbers[(kind == level) & ~np.isnan(numbers)] for level in np.unique(kind)]
    widths = [float(np.subtract(*np.quantile(each, (0.75, 0.25)))) for each in own if len(each)]
    wide = [width for width in widths if width > 0]
    return len(wide) > 1 and max(wide) >= _APART * min(wide)
