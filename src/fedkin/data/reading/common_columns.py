"""Common columns for tables that were read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, refuse
from fedkin.core.table import Column, Table
from fedkin.data.reading.dataset import in_order


def united(tables: Sequence[Table], where: Sequence[str]) -> list[Table]:
    """Give the tables of one data set the columns of the first, and the categories of all; `where` names each table.

    Raises FedkinError if one lacks a column, or it holds something else there; a line for each such column.
    """
    problems: list[str] = []
    columns = []
    for column in tables[0].columns:
        own = []
        for table, place in zip(tables, where, strict=True):
            if column.name not in table.names:
                problems.append(f"Column '{column.name}' of {where[0]} is not in {place}.")
            else:
                own.append((table.columns[table.names.index(column.name)], table.of(column.name), place))
        filled = [(one, place) for one, values, place in own if not values.isnan().all()] or [(column, where[0])]
        kinds = {one.kind for one, _ in filled}
        if len(kinds) > 1:
            found = " and ".join(f"{one.kind} in {place}" for one, place in filled)
            problems.append(f"Column '{column.name}' is {found}; it should be the same in all.")
            continue
        columns.append(_common([one for one, _ in filled]))
    refuse(problems)
    return [
        replace(table, columns=tuple(columns), values=torch.stack([_recoded(table, one) for one in columns], 1))
        for table in tables
    ]


def _common(columns: Sequence[Column]) -> Column:
    first = columns[0]
    if first.kind != "category":
        return first
    return Column(first.name, "category", tuple(in_order(name for one in columns for name in one.categories)))


def _recoded(table: Table, column: Column) -> Tensor:
    own, values = table.columns[table.names.index(column.name)], table.of(column.name)
    if own.categories == column.categories or column.kind == "boolean" or not own.is_coded:
        return values
    unknown = [name for name in own.categories if name not in column.categories]
    if unknown:
        raise FedkinError(f"Column '{column.name}' holds '{unknown[0]}' in one place, which others do not know.")
    index = torch.tensor([column.categories.index(name) for name in own.categories], dtype=torch.float64)
    empty = values.isnan()
    return torch.where(empty, values, index[values.nan_to_num().long()])
