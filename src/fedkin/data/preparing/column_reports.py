"""Report of a client on its table's columns, from which the clients' schema is agreed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, get_args

import torch
from torch import Tensor

from fedkin.core.table import MAX_CATEGORIES, Column, Kind, Table
from fedkin.data.reading.id_columns import is_called_number, is_called_whose

MIN_MEMBERS = 5
"""Samples of a client that a category needs for its name to leave the client."""

_MAX_TEXT, _MAX_NAMES = 500, 1_000_000
_SHOWN = 60
"""Characters of a name that a sentence shows."""
_KINDS = get_args(Kind)
_MIN_ROWS, _NEARLY = 20, 0.9
"""Distinct values per row from which a column names its rows, if there are so many; of fewer, all must differ."""
_RETURNING, _FEW_ROWS = 0.1, 200
"""Distinct values per row from which such a column says whose rows are, and rows from which on it needs `_MIN_ROWS` of
them."""


@dataclass(frozen=True)
class ColumnReport:
    """Report on one column of one client.

    `filled` says whether any cell is not empty. `unique` says whether the column may name the rows, or whose they are:
    the values are nearly all different, or they come again and the column is called like the id of a person.
    `categories` are for a category column the names of those with enough samples, at most the 50 most frequent; for a
    boolean or ordinal one, all its values, in order.
    """

    kind: Kind
    filled: bool
    unique: bool = False
    categories: tuple[str, ...] = ()
    asked: bool = False

    def plain(self) -> list[Any]:
        """Return the fields as plain values, to be sent."""
        return [self.kind, self.filled, self.unique, list(self.categories), self.asked]

    @classmethod
    def from_plain(cls, fields: Sequence[Any]) -> Self:
        """Return the report that `plain` was made of."""
        kind, filled, unique, categories, asked = fields
        return cls(kind, filled, unique, tuple(categories), asked)


def reports_of(table: Table, min_members: int) -> dict[str, Any]:
    """Report on a client's table: the columns' ``names``, and in ``columns`` the plain `ColumnReport` of each."""
    filled = (~table.values.isnan()).sum(0).tolist()
    columns = [
        _report(column, table.values[:, at], filled[at], min_members, table.id).plain()
        for at, column in enumerate(table.columns)
    ]
    return {"names": table.names, "columns": columns}


def too_long(table: Table, min_members: int, where: str = "the table") -> list[str]:
    """Return a sentence on each column whose name, or a category that leaves the client, is longer than may be sent."""
    problems = []
    for at, column in enumerate(table.columns):
        shown = column.name if len(column.name) <= _SHOWN else f"{column.name[:_SHOWN]}…"
        if (length := len(column.name)) > _MAX_TEXT:
            said = f"Column {at + 1} of {where}, '{shown}', has a name of {length:,} characters; rename it to at most"
        elif max(map(len, column.categories), default=0) > _MAX_TEXT:
            values = table.values[:, at]
            report = _report(column, values, int((~values.isnan()).sum()), min_members, table.id)
            if (length := max(map(len, report.categories), default=0)) <= _MAX_TEXT:
                continue
            said = (
                f"Column '{shown}' of {where} has a text of {length:,} characters that comes so often that it is a "
                "category; name the column in drop, or shorten its texts to at most"
            )
        else:
            continue
        problems.append(f"{said} {_MAX_TEXT}.")
    return problems


def moments_of(table: Table) -> dict[str, Any]:
    """Return sums over a client's table, by column: ``filled``, ``sum``, ``min`` and ``max``, float64 ``(columns,)``.

    ``filled`` counts the cells that are not empty. The others are of numbers, logarithms, dates, and the indices of
    booleans and ordinals; 0 for categories and empty columns.
    """
    values = table.values
    empty = values.isnan()
    filled = (~empty).sum(0)
    none = torch.tensor([column.kind == "category" for column in table.columns]) | (filled == 0)
    return {
        "filled": filled.double(),
        "sum": torch.where(none, 0.0, torch.where(empty, 0.0, values).sum(0)),
        "min": torch.where(none, 0.0, torch.where(empty, math.inf, values).amin(0)),
        "max": torch.where(none, 0.0, torch.where(empty, -math.inf, values).amax(0)),
    }


def _report(column: Column, values: Tensor, filled: int, min_members: int, own_id: str) -> ColumnReport:
    """Return the report on a column; `own_id` is the client's own setting for the column that names rows."""
    unique = _is_unique(column, values, filled, own_id)
    if column.kind != "category":
        return ColumnReport(column.kind, filled > 0, unique, column.categories)
    counts = values[~values.isnan()].long().bincount(minlength=len(column.categories))
    frequent = [int(code) for code in counts.argsort(descending=True, stable=True) if counts[code] >= min_members]
    known = [column.categories[code] for code in sorted(frequent[:MAX_CATEGORIES])]
    return ColumnReport("category", filled > 0, unique, () if unique else tuple(known), column.asked)


def names_rows(table: Table, at: int) -> bool:
    """Return whether the column at a position may name a table's rows, as a client reports it."""
    values = table.values[:, at]
    return _is_unique(table.columns[at], values, int((~values.isnan()).sum()), table.id)


def _is_unique(column: Column, values: Tensor, filled: int, own_id: str) -> bool:
    return own_id == column.name or (own_id == "auto" and _names_rows(column, values, filled))


def _names_rows(column: Column, values: Tensor, filled: int) -> bool:
    """Return whether a column may identify rows: nearly all values differ, and are texts or integers called an id.

    A column that is mostly empty does not. One that is called like the id of a person may have each value ten times.
    """
    if not filled or 2 * filled < len(values) or column.kind not in ("category", "number"):
        return False
    own = values[~values.isnan()]
    if column.kind == "number" and not (is_called_number(column.name) and bool((own == own.round()).all())):
        return False
    threshold, distinct = _NEARLY * filled if filled >= _MIN_ROWS else filled - 1, len(own.unique())
    if is_called_whose(column.name) and distinct >= (3 if filled < _FEW_ROWS else _MIN_ROWS):
        threshold = min(threshold, _RETURNING * filled)
    return distinct > threshold


def are_reports(value: Any) -> bool:
    """Return whether a value is a list of `ColumnReport.plain`, of bounded size."""
    return isinstance(value, list) and all(map(_is_report, value))


def are_names(value: Any) -> bool:
    """Return whether a value is a list of distinct texts of bounded length."""
    if not isinstance(value, list) or len(value) > _MAX_NAMES:
        return False
    return all(isinstance(text, str) and len(text) <= _MAX_TEXT for text in value) and len(set(value)) == len(value)


def _is_report(fields: Any) -> bool:
    if not isinstance(fields, list) or len(fields) != 5:
        return False
    kind, filled, unique, categories, asked = fields
    return kind in _KINDS and all(isinstance(flag, bool) for flag in (filled, unique, asked)) and are_names(categories)
