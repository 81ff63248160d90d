"""Columns of positive numbers on a logarithmic scale, so that ratios count instead of differences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, mid_sentence, refuse
from fedkin.core.table import IN_WORDS, LOGARITHMS, Column, Kind, Table
from fedkin.data.reading.columns import ALONE
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.values.text_values import NUMBER, Values

_LARGEST = 700.0
"""Logarithm of numbers that are hardly below the largest float."""
_DIGITS = 12
"""Significant digits that a number keeps when it becomes a logarithm and a number again."""


def logarithms(
    column: Column, values: Values, kind: Literal["log", "log1p"], here: str, are_new: bool = False
) -> tuple[Column, Values]:
    """Return a column of numbers as one of their logarithms, of `kind`: values float64 ``(rows,)``, NaN where empty.

    `here` names the column, at the beginning of error messages. Where rows `are_new`, the user has no choice of the
    kind. Raises FedkinError if it holds anything but numbers, which are above 0 for "log" and not below 0 for "log1p".
    """
    empty = np.isnan(values)
    if column.categories == ALONE or empty.all():
        return Column(column.name, kind), np.full(len(values), np.nan)
    if column.kind != "number":
        levels = sorted(column.categories, key=lambda level: NUMBER.fullmatch(level) is not None)
        example = f" such as '{levels[0]}'" if column.kind in ("category", "ordinal") else ""
        only = "in the clients' tables it holds numbers" if are_new else f"only columns of numbers can be in {kind}"
        raise FedkinError(f"{here} holds {IN_WORDS[column.kind]}{example}; {only}.")
    wrong = values <= 0 if kind == "log" else values < 0
    if wrong.any():
        row, count = int(wrong.argmax()), int(wrong.sum())
        more, them = (f", and {count} such cells in all", "them") if count > 1 else ("", "it")
        wanted = "above 0" if kind == "log" else "of 0 or above"
        way = f"correct or empty {them}, or name {them} in na_values."
        if not are_new and bool((values[wrong] == 0).all()):
            way = (
                f"name the column in log1p, for log(1 + x), or if 0 stands for a missing value, empty "
                f"{'these cells' if count > 1 else 'this cell'} or name it in na_values."
            )
        elif not are_new:
            way = f"correct or empty {them}, name {them} in na_values, or do not name the column in {kind}."
        value = f"{values[row] + 0.0:.15g}"
        raise FedkinError(f"{here} holds {value} in row {row + 1}{more}, but {kind} needs numbers {wanted}; {way}")
    return Column(column.name, kind), np.log(values) if kind == "log" else np.log1p(values)


def on_their_scale(table: Table, options: TableOptions, where: str) -> Table:
    """Return a table of numbers with the logarithms of those columns that the options name.

    `where` names the table, at the beginning of error messages. Raises FedkinError as `logarithms`, with a line for
    each column.
    """
    kinds, problems = options.logarithmic, list[str]()
    columns, values = list(table.columns), table.values.clone()
    for at, column in enumerate(columns):
        if column.name in kinds:
            here = f"Column '{column.name}' of {mid_sentence(where)}"
            try:
                own = table.values[:, at].numpy()
                columns[at], found = logarithms(column, own, kinds[column.name], here, bool(options.features))
                values[:, at] = torch.from_numpy(found)
            except FedkinError as error:
                problems.append(str(error))
    refuse(problems)
    return replace(table, columns=tuple(columns), values=values)


def original(value: float, kind: Kind) -> float:
    """Return the number of which a column of `kind` holds the logarithm, at most 1e304; of other kinds the value."""
    if kind not in LOGARITHMS:
        return value
    value = min(value, _LARGEST)
    return math.exp(value) if kind == "log" else math.expm1(value)


def slope(value: float, kind: Kind) -> float:
    """Return by how much a number of a column of `kind` differs if what is held differs by 1; 1 for other kinds."""
    return math.exp(min(value, _LARGEST)) if kind in LOGARITHMS else 1.0


def as_numbers(table: Table) -> Table:
    """Return a table with the numbers, of 12 digits, in place of their logarithms."""
    at = [place for place, column in enumerate(table.columns) if column.kind in LOGARITHMS]
    if not at:
        return table
    columns, values = list(table.columns), table.values.clone()
    for place in at:
        own = values[:, place].clamp_max(_LARGEST)
        values[:, place] = _rounded(own.exp() if columns[place].kind == "log" else own.expm1())
        columns[place] = Column(columns[place].name)
    return replace(table, columns=tuple(columns), values=values)


def _rounded(values: Tensor) -> Tensor:
    """Round numbers to so many significant digits that they are what their logarithms were taken of."""
    return torch.tensor([float(f"{value:.{_DIGITS}g}") for value in values.tolist()], dtype=torch.float64)
