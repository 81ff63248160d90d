"""Notes on new rows that are unlike those an encoding was made from: other categories, other units."""

from __future__ import annotations

from torch import Tensor

from fedkin.core.errors import listing, mid_sentence
from fedkin.core.table import MEASURED, Column, Kind, Table
from fedkin.data.preparing.column_notes import as_written, spelt_as
from fedkin.data.preparing.encoding import OTHER, TableEncoding, aligned
from fedkin.data.preparing.schema import SchemaColumn
from fedkin.data.reading.text_values import as_known

_ROWS, _FAR, _VERY_FAR = 3, 4.0, 20.0
"""Standard deviations from the mean of the clients' rows: all of at least so many rows are farther than the first, or
some farther than the second."""
_NAMED = 3
"""Categories that a note names."""


def notes_on_new_rows(table: Table, encoding: TableEncoding, where: str) -> list[str]:
    """Return notes on categories that the schema does not name, and on numbers far from those of the clients.

    The table has the schema's columns; `where` names it, within a sentence.
    """
    columns = encoding.schema.columns
    values = aligned(table, columns, where, encoding.imputes)
    starts = {name: start for name, start, _ in encoding.blocks}
    own = {column.name: (column, table.of(column.name)) for column in table.columns}
    notes = []
    for at, column in enumerate(columns):
        here = f"Column '{column.name}' of {mid_sentence(where)}"
        if column.kind == "category" and column.name in own:
            notes += _on_categories(here, *own[column.name], column, bool(encoding.other[at]))
        elif column.kind in MEASURED and encoding.mode in ("standard", "common"):
            mean, scale = (float(part[starts[column.name]]) for part in (encoding.mean, encoding.scale))
            notes += _on_numbers(here, values[:, at], mean, scale, column.kind)
    return notes


def _on_categories(here: str, own: Column, values: Tensor, column: SchemaColumn, pooled: bool) -> list[str]:
    """Return a note on categories that the schema does not name; rare ones are `pooled` if the encoding has *other*."""
    if not own.is_coded:
        return []
    known = set(column.categories)
    counts = values[~values.isnan()].long().bincount(minlength=len(own.categories)).tolist()
    rows_of = dict(zip(own.categories, counts, strict=True))
    unknown = [name for name, count in rows_of.items() if count and as_known(name, known) is None]
    if not unknown:
        return []
    rows = sum(rows_of[name] for name in unknown)
    alike = {name: spelt_as(name, column.categories) for name in unknown}
    listed = listing([f"'{name}'" + (f" (is it '{like}'?)" if like else "") for name, like in alike.items()], _NAMED)
    if pooled:
        counted = "it counts" if len(unknown) == 1 else "they count"
        said = f"{counted} as '{OTHER}', as rare categories did in training"
    else:
        said = f"no client has named {'such a category' if len(unknown) == 1 else 'such categories'}"
    return [f"{here} holds {listed} in {rows} of {len(values)} rows; {said}."]


def _on_numbers(here: str, values: Tensor, mean: float, scale: float, kind: Kind) -> list[str]:
    known = values[~values.isnan()]
    if not len(known) or scale == 1.0:  # a constant, which has no spread
        return []
    far = (known - mean).abs() / scale
    very = int((far > _VERY_FAR).sum())
    if len(known) >= _ROWS and bool((far > _FAR).all()):
        return [
            f"All values of {here[:1].lower()}{here[1:]} are far from those of the clients; are they in another unit?"
        ]
    if very:
        rows = f"{very} row{'s' if very > 1 else ''}"
        most = as_written(float(known[far.argmax()]), kind)
        return [
            f"{here} holds {most}, far from the clients' values, in {rows}; is it in another unit, or does it "
            "stand for a missing value?"
        ]
    return []
