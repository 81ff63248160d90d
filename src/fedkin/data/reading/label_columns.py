"""Which column of a table is taken for labels, where none is named, and which column that is called so is a feature."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import FedkinError
from fedkin.core.table import Table
from fedkin.data.reading.cells import MISSING, AmbiguousError, as_numbers, composed
from fedkin.data.reading.columns import read_column
from fedkin.data.reading.dataset import NO_LABELS, Dataset, usual_label
from fedkin.data.reading.table_options import TableOptions

if TYPE_CHECKING:
    import pandas as pd

_FEW, _SOME, _SHARE = 20, 100, 0.1
"""Different labels that are never too many, and so many that are if they are more than this share of the rows."""
_ONCE_OR_TWICE = 3
"""Fewer rows to each of many numbers than this are too few for classes."""


def label_of(frame: pd.DataFrame, label: str | None, features: Collection[str | None] = ()) -> str | None:
    """Return the column of a DataFrame's labels: `label`; without it the first of a usual name that can hold labels.

    ``None`` if there is none such, or `label` is "none". `features` are none.
    """
    if label is not None:
        return None if label == NO_LABELS else label
    columns = [str(name) for name in frame.columns]
    names = [name for name in columns if name not in features]
    while (found := usual_label(names)) is not None:
        if names.count(found) > 1 or _can_be_labels(frame.iloc[:, columns.index(found)]):
            return found
        names.remove(found)
    return None


def _can_be_labels(cells: pd.Series) -> bool:
    """Return whether a column holds neither fractions nor dates, which are no classes."""
    try:
        column, values = read_column(cells, "", "", TableOptions(dayfirst=True))
    except AmbiguousError:
        return False
    except FedkinError:  # of cells that are unlike the others, which may still be classes
        return True
    if column.kind == "number":
        return not (values[np.isfinite(values)] % 1).any() and not column.percent
    return column.kind != "date"


def label_cells(cells: pd.Series) -> npt.NDArray[Any]:
    """Return the labels in a column: texts that are numbers as such, and ``None`` for empty cells."""
    if cells.dtype.kind in "biufmM" or not all(isinstance(cell, str) for cell in cells.dropna()):
        return np.asarray(cells.to_numpy())
    texts = cells.astype(object).where(cells.notna(), "").map(lambda cell: composed(cell).strip())
    texts = texts.where(~texts.str.lower().isin(MISSING), None).astype(object)
    try:
        numbers = as_numbers(texts.dropna().unique())
    except AmbiguousError:
        numbers = None
    if numbers is None:
        return np.asarray(texts.where(texts.notna(), None).to_numpy(dtype=object))
    known = dict(zip(texts.dropna().unique(), numbers, strict=True))
    return np.array([known.get(text, np.nan) for text in texts], dtype=np.float64)


def too_many_labels(classes: int, rows: int) -> bool:
    """Return whether so many different values are more than classes of so many rows can be, as free texts are."""
    return classes > max(_FEW, rows / 2) or classes > max(_SOME, _SHARE * rows)


def check_are_classes(classes: Sequence[str], rows: int, column: str | None) -> None:
    """Check that labels which a user has named, of all clients together, are no measured numbers.

    They are if they are numbers of which most come once or twice. Raises FedkinError if they are.
    """
    if len(classes) > max(_FEW, rows / _ONCE_OR_TWICE) and _are_numbers(classes):
        named = "The labels are" if column is None else f"Column '{column}' has"
        raise FedkinError(
            f"{named} {len(classes):,} different numbers in {rows:,} rows; labels must be classes, such as ranges of "
            "these numbers, for regression is not supported."
        )


def note_on_many_classes(classes: Sequence[str], rows: int) -> list[str]:
    """Return a note if there are fewer than ten rows to each of many classes."""
    if len(classes) <= max(_FEW, _SHARE * rows):
        return []
    are = "numbers" if _are_numbers(classes) else "values"
    end = ", for regression is not supported" if are == "numbers" else ""
    return [f"Labels are {len(classes):,} different {are} in {rows:,} rows, and each is a class of its own{end}."]


def _are_numbers(classes: Sequence[str]) -> bool:
    try:
        return bool(np.isfinite([float(name) for name in classes]).all())
    except ValueError:
        return False


def no_labels_after_all(clients: Sequence[Dataset]) -> list[str]:
    """Return columns that were taken for labels of a client and are features, since they cannot be those of another.

    Or since all clients together have too many different ones, see `too_many_labels`.
    """
    found = {one.label: None for one in clients if one.label is not None}
    own = {name: [one for one in clients if one.label == name] for name in found}
    return [
        name
        for name, labelled in own.items()
        if any(name in one.features for one in clients)
        or too_many_labels(len({each for one in labelled for each in one.classes}), sum(map(len, labelled)))
    ]


def notes_on_outcomes(tables: Sequence[Table]) -> list[str]:
    """Return a note on each column of clients' tables that is called like labels and is a feature.

    A column ``y`` of fractions beside one called ``x`` is a coordinate, and no outcome.
    """
    notes = []
    for name in dict.fromkeys(name for one in tables for name in one.names if usual_label([name]) is not None):
        having = [one for one in tables if name in one.names]
        columns = [(table.columns[table.names.index(name)], table.of(name)) for table in having]
        values = {
            column.categories[int(value)] if column.is_coded else value
            for column, cells in columns
            for value in cells[~cells.isnan()].unique().tolist()
        }
        whole = all(column.kind != "date" for column, _ in columns) and all(
            isinstance(value, str) or value.is_integer() for value in values
        )
        if not whole and name == "y" and all("x" in table.names for table in having):
            continue
        rows, why = sum(map(len, having)), "" if whole else ", since it holds no classes"
        if whole and too_many_labels(len(values), rows):
            why = f", since it has {len(values):,} different values in {rows:,} rows"
        notes.append(
            f"Column '{name}' is called like labels and is a feature{why}; if it is an outcome, which clusters should "
            "not depend on, name it in drop, or, if it holds labels, with data.label."
        )
    return notes
