"""What was read of the clients' data, as text: rows by client, and columns as they were understood."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import torch

from fedkin.core import Client
from fedkin.core.errors import listing
from fedkin.core.table import Table
from fedkin.data.population import Population
from fedkin.data.preparation import Preparation
from fedkin.data.schema import Schema, SchemaColumn
from fedkin.experiment.terminal_tables import aligned
from fedkin.report.numbers import pluralize

_COLUMNS = 200
"""Columns that are listed."""


def overview(population: Population, preparation: Preparation) -> str:
    """Return the rows of each client, and of tables each column's kind, empty cells and values, as text.

    Columns that are left out, and the one that names rows, are among them. `population` has the clients of this
    process; without any the text is empty.
    """
    clients = [client for client in population.clients if client.id not in (*population.absent, *population.forgotten)]
    if not clients:
        return ""
    rows = [len(client.x) for client in clients]
    parts = [f"Data: {pluralize(len(clients), 'client')}, {pluralize(sum(rows), 'sample')}."]
    if population.names and len(clients) <= 30:
        sizes = [[population.names[client.id], f"{count:,}"] for client, count in zip(clients, rows, strict=True)]
        parts.append(aligned([["client", "samples"], *sizes]))
    elif len(clients) > 1:
        parts.append(f"{min(rows):,} to {max(rows):,} samples at a client.")
    if preparation.encoding is None:
        parts.append(f"A sample has the shape {' x '.join(map(str, clients[0].x.shape[1:]))}.")
    else:
        parts.append(_columns(clients, preparation.encoding.schema))
    return "\n\n".join(parts)


def columns_at_a_site(table: Table) -> str:
    """Return how the columns of a single table are read, as text: kind, empty cells and values of each.

    Unless the table says it, which one names rows is settled with the other clients, as is which are left out.
    """
    rows = [["column", "kind", "empty", "values"]]
    for column in table.columns[:_COLUMNS]:
        cells = table.of(column.name)
        kind = "id" if column.name == table.id else "empty" if cells.isnan().all() else column.kind
        schema_column = SchemaColumn(column.name, column.kind, column.categories)
        rows.append([column.name, kind, f"{int(cells.isnan().sum()):,}", _values(schema_column, cells)])
    return aligned(rows, left=(0, 1, 3)) + _more(len(table.columns))


def _more(columns: int) -> str:
    return f"\n... and {pluralize(columns - _COLUMNS, 'column')} more" if columns > _COLUMNS else ""


def _columns(clients: Sequence[Client], schema: Schema) -> str:
    columns = {column.name: column for column in schema.columns}
    tables = [client.table for client in clients if client.table is not None]
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    rows = [["column", "kind", "empty", "clients", "values"]]
    for name in names[:_COLUMNS]:
        cells = [table.of(name) for table in tables if name in table.names]
        empty = sum(int(values.isnan().sum()) for values in cells)
        column = columns.get(name)
        kind = "id" if name == schema.id else "left out" if column is None else column.kind
        values = "" if column is None or name == schema.id else _values(column, torch.cat(cells))
        rows.append([name, kind, f"{empty:,}", f"{len(cells)} of {len(tables)}", values])
    return aligned(rows, left=(0, 1, 4)) + _more(len(names))


def _values(column: SchemaColumn, cells: torch.Tensor) -> str:
    """Return a column's values: the ends of what is measured, else its categories."""
    if column.kind in ("category", "ordinal", "boolean"):
        return listing(column.categories, 4)
    cells = cells[~cells.isnan()]
    if not len(cells):
        return ""
    ends = [float(cells.min()), float(cells.max())]
    texts = [
        _day(end) if column.kind == "date" else f"{end:,.0f}" if end == round(end) else f"{end:,.6g}" for end in ends
    ]
    return " to ".join(dict.fromkeys(texts))


def _day(days: float) -> str:
    try:
        return str(date(1970, 1, 1) + timedelta(days=days // 1))
    except OverflowError:
        return f"{days:,.0f} days after 1970"
