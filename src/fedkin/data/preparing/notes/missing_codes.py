"""Notes on values that seem to stand for empty cells, such as 9999, or 0 where nothing else is near it.

They need the cells themselves, so they are made where the data are, and not sent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import listing
from fedkin.core.options import toml_text
from fedkin.core.table import Column, Table
from fedkin.data.preparing.column_reports import MIN_MEMBERS
from fedkin.data.preparing.notes.column_notes import as_written
from fedkin.data.preparing.notes.data_notes import DataNote, NotedValue

_REPEATED, _SEVERAL = MIN_MEMBERS, 3
"""Cells from which on a value is no slip and may be shown, and columns of a client in which it is a code in all others,
too."""
_DISTINCT, _LOOKED_AT = 10, 10_000
"""Other values that a measure has at least, so that codes and grades are none; among so many cells."""
_LEVELS, _FAR = 3, 10
"""Fewer other whole numbers are no scale, on which 9 is a code; and times that codes are as far as these reach."""
_NINES = re.compile(r"-?9+")
_ABOVE_ZERO, _STEPS = 0.25, 8
"""Of a measure that is never near 0: its least value by its median, and by the usual step between its small values."""
_NAMED = 5
"""Clients that a note names."""
_EACH, _COLUMNS_NAMED = 3, 8
"""Columns with the same code that have a note each, if they are no more, and columns that one note names."""

Values = npt.NDArray[np.float64]
Place = Literal["far above all other values", "far below all other values", "its only negative value"]


def notes_on_missing_codes(tables: Mapping[str, Table]) -> list[str]:
    """Return notes on values that seem to stand for empty cells, with the clients that have them.

    The same one in many columns, as in the answers to a questionnaire, is one note.
    """
    found: dict[tuple[str, Place], dict[str, dict[str, int]]] = {}
    for client, table in tables.items():
        repeated = [*_codes(table)]
        columns = Counter(value for column, value, *_ in repeated if column.kind == "number")
        known = {value for value, count in columns.items() if count >= _SEVERAL}
        for column, value, place, rows in [*repeated, *_codes(table, known)]:
            of_columns = found.setdefault((as_written(value, column.kind), place), {})
            of_columns.setdefault(column.name, {})[client] = rows
    for name, rows_of in _zeros(tables).items():
        found.setdefault(("0", "far below all other values"), {})[name] = rows_of
    notes: list[str] = []
    for (written, place), of_columns in found.items():
        groups = [[*of_columns]] if len(of_columns) > _EACH else [[name] for name in of_columns]
        for names in groups:
            most: dict[str, int] = {}
            for client, rows in (pair for name in names for pair in of_columns[name].items()):
                most[client] = max(rows, most.get(client, 0))
            where = listing([f"{rows} row{'s' * (rows != 1)} of {client}" for client, rows in most.items()], _NAMED)
            some = len(names) > 1
            quoted = listing([f"'{name}'" for name in names], _COLUMNS_NAMED)
            holds = f"Columns {quoted} hold" if some else f"Column {quoted} holds"
            sentence = (
                f"{holds} {written}, {place}, in {'up to ' if some else ''}{where}; if it is no true value but stands "
                f"for a missing one, set na_values = {toml_text({name: [_plain(written)] for name in names})}."
            )
            above = place == "far above all other values"
            noted = [NotedValue(name, client, written, above) for name in names for client in of_columns[name]]
            notes.append(DataNote(sentence, noted))
    return notes


def _plain(written: str) -> str | float:
    """Return a value as options take it: a number, or the text of a date."""
    try:
        number = float(written)
    except ValueError:
        return written
    return int(number) if number.is_integer() else number


def _codes(table: Table, known: Collection[float] | None = None) -> Iterator[tuple[Column, float, Place, int]]:
    """Yield columns with a value at an end that is repeated and far from all others, and in how many rows.

    Of values that are `known` for codes, yield only those that are not repeated.
    """
    if not len(table):
        return
    values = table.values.numpy()
    empty = np.isnan(values)
    low, high = np.where(empty, np.inf, values).min(0), np.where(empty, -np.inf, values).max(0)
    often = [(values == end).sum(0) for end in (low, high)]
    for at, column in enumerate(table.columns):
        if column.kind in ("number", "date") and low[at] < high[at]:
            own = values[~empty[:, at], at]
            for end, rows in zip((float(low[at]), float(high[at])), (int(count[at]) for count in often), strict=True):
                sought = rows >= _REPEATED if known is None else rows < _REPEATED and end in known
                if sought and (place := _place(own, end, column.kind == "number")):
                    yield column, end, place, rows


def _place(own: Values, value: float, is_number: bool) -> Place | None:
    """Return where a value at an end is, if it is farther from all others than 90 % of these are from each other.

    Or if it is the only negative one, as -1 is beside concentrations. Of few numbers `_is_code_of_few` judges.
    """
    others = own[own != value]
    below = bool(value < others.min())
    if len(np.unique(others[:_LOOKED_AT])) < _DISTINCT:
        if not is_number or 2 * len(others) < len(own) or not _is_code_of_few(np.unique(others), value):
            return None
        return "far below all other values" if below else "far above all other values"
    if is_number and value < 0 <= others.min():
        return "its only negative value"
    middle = others[others != (others.max() if below else others.min())]  # a code may be at the other end, too
    least, most = np.quantile(middle, (0.05, 0.95))
    if 2 * len(others) < len(own) or np.abs(others - value).min() <= most - least:
        return None
    return "far below all other values" if below else "far above all other values"


def _is_code_of_few(levels: Values, value: float) -> bool:
    """Return whether a value is a code beside `levels`, a few whole numbers in order of which at most one is left out.

    Such are grades and answers. A code is then written in nines, as 9 beside 1 to 5 and -99, and not nearer to these
    than they are to each other; or it is ten times as far.
    """
    reach, gap = float(levels[-1] - levels[0]), float(np.abs(levels - value).min())
    if reach == 0 or len(levels) < reach or not (levels == levels.round()).all():
        return False
    in_nines, is_scale = _NINES.fullmatch(f"{value:.15g}") is not None, len(levels) >= _LEVELS
    return (in_nines or is_scale) and gap >= (reach if in_nines and is_scale else _FAR * reach)


def _zeros(tables: Mapping[str, Table]) -> dict[str, dict[str, int]]:
    """Return columns of which 0 is no measurement, as it is none of a blood pressure, with its rows by client.

    Those of all clients show it: nothing is negative, 0 is repeated but not in most rows, and all other values are far
    from 0, by their median and by the steps between them. So counts are none, whose least value is a step above 0.
    """
    cells: dict[str, dict[str, Values]] = {}
    for client, table in tables.items():
        for column, values in zip(table.columns, table.values.numpy().T, strict=True):
            if column.kind == "number":
                cells.setdefault(column.name, {})[client] = values
    return {name: rows for name, own in cells.items() if (rows := _rows_of_zero(own))}


def _rows_of_zero(cells: Mapping[str, Values]) -> dict[str, int]:
    """Return the clients at which a column holds 0, in how many rows, if it seems to stand for an empty cell.

    Empty cells are NaN, which is neither 0 nor above or below it.
    """
    rows = {client: zeros for client, own in cells.items() if (zeros := int((own == 0).sum()))}
    others = np.concatenate([own[own > 0] for own in cells.values()])
    negative = any((own < 0).any() for own in cells.values())
    if negative or not _REPEATED <= sum(rows.values()) <= len(others):
        return {}
    least = others.min()
    distinct = np.unique(np.concatenate([own[own > 0][:_LOOKED_AT] for own in cells.values()]))
    if len(distinct) < _DISTINCT or least < _ABOVE_ZERO * np.median(others):
        return {}
    step = np.median(np.diff(distinct[: max(_DISTINCT, len(distinct) // 4)]))
    return rows if least >= _STEPS * step else {}
