"""Loading of clients' data that also reports where their tables disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedkin.core.errors import refuse
from fedkin.core.table import Kind, Table
from fedkin.data.preparing.column_reports import MIN_MEMBERS, ColumnReport, reports_of, too_long
from fedkin.data.preparing.schema.schema import disagreements, reports_by_name
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.dataset import Dataset
from fedkin.data.reading.table_errors import ClientsError, ReadSoFar
from fedkin.data.reading.table_options import AUTO, NO_OPTIONS, TableOptions


def load_agreeing_clients(
    source: str | Path | Sequence[Any] | Mapping[str, Any],
    label: str | None = None,
    options: TableOptions = NO_OPTIONS,
) -> list[Dataset]:
    """Load clients' data with `fedkin.data.reading.client_files.load_clients`, and report disagreements of tables.

    Where data are refused, columns that hold something else at one client than at another are in the same error. Where
    they are not, `fedkin.data.preparing.prepare.prepare` reports these. Columns that some clients lack are looked at,
    too, if the options say that they are imputed, for then they are kept. Raises FedkinError as `load_clients` does.
    """
    try:
        return load_clients(source, label, options)
    except ClientsError as error:
        found = _disagreements(error.read, options)
        raise ClientsError([*error.problems, *found], error.read) from error


def check_kinds(sites: Sequence[Dataset], options: TableOptions = NO_OPTIONS) -> None:
    """Check that columns hold the same at all clients, as `fedkin.data.preparing.prepare.prepare` does.

    Here the cells are at hand, so the sentences have examples that no client would report. Raises FedkinError with a
    line for each column, or columns, that differ.
    """
    tables = {site.name: site.table for site in sites if site.table is not None and len(site.table)}
    refuse([text for name, table in tables.items() for text in too_long(table, MIN_MEMBERS, name)])
    refuse(_percentages_at_some(tables))
    kinds: dict[str, set[Kind]] = {}
    for table in tables.values():
        for column in table.columns:
            kinds.setdefault(column.name, set()).add(column.kind)
    unlike = {name for name, own in kinds.items() if len(own) > 1}
    if not unlike:
        return
    reports = {client: _with_examples(table, unlike) for client, table in enumerate(tables.values())}
    known = options.id in unlike
    refuse(disagreements(reports, options.id if known else AUTO, dict(enumerate(tables)), options.lacking))


def _percentages_at_some(tables: Mapping[str, Table]) -> list[str]:
    """Return a sentence on each column of percentages at some clients, and of numbers above 1 at others."""
    signed: dict[str, str] = {}
    for client, table in tables.items():
        for column in table.columns:
            if column.percent:
                signed.setdefault(column.name, client)
    problems = []
    for name, client in signed.items():
        for other, table in tables.items():
            plain = [column for column in table.columns if column.name == name and not column.percent]
            if plain and plain[0].kind == "number" and (largest := float(table.of(name).nan_to_num(0).max())) > 1:
                problems.append(
                    f"Column '{name}' has percentages at client {client}, so that 58% is 0.58, and plain numbers up to "
                    f"{largest:,.4g} at client {other}; write all in one way, with or without the sign."
                )
                break
    return problems


def _with_examples(table: Table, names: set[str]) -> dict[str, ColumnReport]:
    """Return a client's reports on columns with all their categories, however rare."""
    levels = {column.name: column.categories for column in table.columns}
    return {
        name: replace(report, categories=levels[name]) if report.kind == "category" else report
        for name, report in _reports(ReadSoFar(table), names).items()
    }


def _disagreements(read: Mapping[str, ReadSoFar], options: TableOptions) -> list[str]:
    """Return a sentence for each column, of those to be kept, that differs between clients with any rows."""
    read = {client: one for client, one in read.items() if len(one.table)}
    if len(read) < 2:
        return []
    named = [one.names for one in read.values()]
    kept = set.union(*named) if options.lacking == "impute" else set.intersection(*named)
    reports = {client: _reports(one, kept) for client, one in enumerate(read.values())}
    known = any(options.id in own for own in reports.values())
    return disagreements(reports, options.id if known else AUTO, dict(enumerate(read)))


def _reports(read: ReadSoFar, names: set[str]) -> dict[str, ColumnReport]:
    table = read.table
    at = [position for position, name in enumerate(table.names) if name in names]
    columns, values = tuple(table.columns[position] for position in at), table.values[:, torch.tensor(at).long()]
    return reports_by_name(reports_of(replace(table, columns=columns, values=values), MIN_MEMBERS))
