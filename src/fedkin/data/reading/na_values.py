"""Values that options name as standing for empty cells, and those of them that no cell holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedkin.core.errors import listing
from fedkin.core.options import toml_text
from fedkin.data.reading.cells import MISSING, NONE, composed
from fedkin.data.reading.dataset import Dataset
from fedkin.data.reading.table_options import TableOptions

if TYPE_CHECKING:
    import pandas as pd

_NAMED = 8
"""Values that a note names."""
_SHARE, _CELLS = 0.05, 3
"""Part of a column, and cells, beyond which a value that was named for all columns is no slip in this one."""


def without_na_values(frame: pd.DataFrame, options: TableOptions) -> pd.DataFrame:
    """Return a DataFrame in which cells with a value of `TableOptions.na_values` are empty.

    A number stands for all cells of this number, also as text; a text for cells of this text, but for blanks around it.
    """
    wanted = {at: given for at, name in enumerate(frame.columns) if (given := options.na_of(composed(name)))}
    if not wanted:
        return frame
    frame = frame.copy()
    for at, given in wanted.items():
        frame.isetitem(at, _emptied(frame.iloc[:, at], given))
    return frame


def values_of_other_columns(frame: pd.DataFrame, where: str, options: TableOptions) -> list[str]:
    """Return a problem for each number that `na_values` names for all columns, and that is a true value of some.

    So is 0 of a number of children, though none of a blood pressure: it lies among the column's other numbers, or no
    farther from them than these are from each other, in more cells than a few. The problem says what to type instead.
    """
    problems = []
    for value in options.na_values_of.get("", ()):
        if (number := _cell_number(value)) is None:
            continue
        codes, values = [], {}
        for at, name in enumerate(frame.columns):
            if not _is_hashable(frame.iloc[:, at]):
                continue
            counts = frame.iloc[:, at].value_counts()
            numbers = np.array([_cell_number(cell) for cell in counts.index], np.float64)
            cells = int(counts.to_numpy()[numbers == number].sum())
            others = np.unique(numbers[np.isfinite(numbers) & (numbers != number)])
            if cells and len(others):
                if _is_code(number, others):
                    codes.append(composed(name))
                elif cells >= _CELLS and cells > _SHARE * counts.sum():
                    values[composed(name)] = cells
        if values:
            emptied = listing([f"{cells:,} cells of '{name}'" for name, cells in values.items()], _NAMED)
            form = toml_text({name: [value] for name in codes or list(values)[:1]})
            problems.append(
                f"na_values has {value!r} for all columns of {where}, which would empty {emptied}, among whose values "
                f"it lies; name the columns in which it stands for a missing one: set na_values = {form}."
            )
    return problems


def _is_code(number: float, others: NDArray[np.float64]) -> bool:
    """Return whether a number is farther from a column's `others`, in order, than any two neighbours of these."""
    step = float(np.diff(others).max(initial=0.0)) or abs(float(others[0]))
    return number < 0 <= others[0] or not others[0] - step <= number <= others[-1] + step


def _emptied(cells: pd.Series, given: Sequence[str | float]) -> pd.Series:
    from pandas import CategoricalDtype

    gone = _equal(cells.dropna().unique(), given) if _is_hashable(cells) else []
    if isinstance(cells.dtype, CategoricalDtype):
        return cells.cat.remove_categories(gone)
    return cells.mask(cells.isin(gone)) if gone else cells


def _is_hashable(cells: pd.Series) -> bool:
    """Return whether a column's cells are single values; those with lists and the like are refused later."""
    return cells.dtype != object or all(isinstance(cell, Hashable) for cell in cells)


def _cell_text(value: Any) -> str:
    text = composed(value).strip()
    return text.removesuffix(" 00:00:00")  # of a date


def _cell_number(value: Any) -> float | None:
    """Return a cell's number; ``None`` if it is none, as truth values are."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return float(value.replace(",", ".") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None


def _equal(distinct: Iterable[Any], given: Sequence[str | float]) -> list[Any]:
    """Return the distinct values of cells that are one of those `given`."""
    numbers = {number for value in given if (number := _cell_number(value)) is not None}
    texts = {_cell_text(value) for value in given}
    return [value for value in distinct if _cell_text(value) in texts or _cell_number(value) in numbers]


def na_values_in(frame: pd.DataFrame, options: TableOptions) -> frozenset[tuple[str, str | float]]:
    """Return the values of `TableOptions.na_values` that some cell of a DataFrame holds, each with its column.

    The column of a value that is given for all columns is "".
    """
    held: set[tuple[str, str | float]] = set()
    for at, name in enumerate(frame.columns):
        sought = {(column, value) for column in ("", composed(name)) for value in options.na_values_of.get(column, ())}
        if (sought := sought - held) and _is_hashable(frame.iloc[:, at]):
            distinct = frame.iloc[:, at].dropna().unique()
            held |= {one for one in sought if _equal(distinct, [one[1]])}
    return frozenset(held)


def note_on_unheld(clients: Iterable[Dataset], options: TableOptions) -> list[str]:
    """Return a note on values of `TableOptions.na_values` that no client's cells hold, as misspelt ones.

    Words that stand for an empty cell anyway are none of these.
    """
    held = {each for one in clients for each in one.na_values}
    unheld = [
        f"{value!r}" + (f" in column '{column}'" if column else "")
        for column, values in options.na_values_of.items()
        for value in values
        if (column, value) not in held and str(value).strip().lower() not in MISSING and value != NONE
    ]
    if not unheld:
        return []
    written = "are they" if len(unheld) > 1 else "is it"
    return [f"No cell holds {listing(unheld, _NAMED)}, as named in na_values; {written} written otherwise there?"]
