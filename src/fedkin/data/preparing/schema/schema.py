"""Schema of all clients' tables, agreed from what they report of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, refuse, unknown_name
from fedkin.core.table import MEASURED, Kind
from fedkin.data.preparing.column_reports import ColumnReport
from fedkin.data.preparing.notes.column_notes import has_no_common, spelt_alike
from fedkin.data.preparing.schema.kind_words import advice_on_kinds, kinds_in_words, listed_clients, sentences_on_kinds
from fedkin.data.preparing.schema.ordinal_levels import in_one_order
from fedkin.data.preparing.schema.schema_notes import (
    marks,
    may_be_place,
    note_on_marks,
    note_on_rare,
    note_on_spellings,
    notes_on_absent,
    notes_on_complements,
    notes_on_ids,
    notes_on_truths,
)
from fedkin.data.preparing.schema.unit_names import note_on_units_in_names
from fedkin.data.reading.cells import POSITIVE, merged_wholes
from fedkin.data.reading.columns import ALONE
from fedkin.data.reading.dataset import in_order
from fedkin.data.reading.id_columns import is_called_id
from fedkin.data.reading.table_options import AUTO, NO_ID, TableOptions

Reports = Mapping[int, Mapping[str, ColumnReport]]
"""By client, what it reports of each of its columns, by name."""

_NOTES = 20


@dataclass(frozen=True)
class SchemaColumn:
    """Column of the common schema, the same at all clients.

    `categories` are the values of a boolean, ordinal or category column, in order; what is none of a category column's
    is *other*.
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()

    @property
    def may_be_truth(self) -> bool:
        """Whether it holds truth values at some clients, and numbers at others; see `settled`."""
        return self.kind == "number" and bool(self.categories)


def plain(columns: Iterable[SchemaColumn]) -> list[list[Any]]:
    """Return columns as plain values, to be sent."""
    return [[column.name, column.kind, list(column.categories)] for column in columns]


def columns_of(tree: Mapping[str, Any]) -> tuple[SchemaColumn, ...]:
    """Return the ``columns`` in a payload or a tree, as `plain` wrote them."""
    return tuple(SchemaColumn(name, kind, tuple(levels)) for name, kind, levels in tree["columns"])


def are_numbers(columns: Iterable[SchemaColumn]) -> Tensor:
    """Return which columns hold numbers, or what can be taken for such, and not categories: bool ``(columns,)``."""
    return torch.tensor([column.kind != "category" for column in columns])


@dataclass(frozen=True)
class Schema:
    """Columns by which all clients' tables are encoded.

    `columns` are in the order of the first client that has each. `id` is the column that names rows, which is carried
    to the outputs. `notes` say for the user which columns are left out, and why; `questions` are those on names that
    may mean the same. `apart` are columns of which no two clients share a category, and `reported` are by column and
    client the categories that are reported.
    """

    columns: tuple[SchemaColumn, ...]
    id: str | None = None
    notes: list[str] = field(default_factory=list)
    apart: tuple[str, ...] = ()
    reported: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    questions: tuple[str, ...] = ()

    @property
    def wanted(self) -> list[tuple[str, Kind | None]]:
        """Names and kinds of the columns that a client's table should have, the one that names rows among them."""
        named: list[tuple[str, Kind | None]] = [(column.name, column.kind) for column in self.columns]
        return [*named, *([] if self.id is None else [(self.id, None)])]

    @property
    def reading(self) -> TableOptions:
        """Options by which a new table is read with columns of the same kinds."""
        categorical = [column.name for column in self.columns if column.kind == "category"]
        ordinal = {column.name: column.categories for column in self.columns if column.kind == "ordinal"}
        features = [column.name for column in self.columns]
        levels = {column.name: column.categories for column in self.columns if column.kind in ("category", "boolean")}
        return TableOptions(
            id=self.id or AUTO, categorical=categorical, ordinal=ordinal, features=features, levels=levels
        )


def agree(reports: Reports, id_column: str, lacking: str, client_names: Mapping[int, str]) -> Schema:
    """Return the common schema of all clients' tables, from their reports.

    `id_column` names the column that names rows; "auto" is to recognise it, "none" if there is none. `lacking` says
    what happens to a column that a client lacks, or of which all its cells are empty: "drop" or "impute".
    `client_names` are for error messages. Raises FedkinError if a column holds something else at one client than at
    another, the named id does not exist, or no column is left; one line for each problem.
    """
    schema, problems = _agreed(reports, id_column, lacking, client_names)
    notes = schema.notes
    if not schema.columns and not problems:
        bare = [client for client, own in reports.items() if not any(report.filled for report in own.values())]
        if 0 < len(bare) < len(reports):
            raise FedkinError(
                f"All cells of {listed_clients(bare, client_names)} are empty; leave "
                f"{'it' if len(bare) == 1 else 'them'} out."
            )
        problems.append("No column is left to compare samples by: " + " ".join(shortened(notes)))
    refuse(problems)
    return schema


def _likeliest_id(reports: Reports, names: Sequence[str]) -> str | None:
    """Return the first column whose name is like that of an id and whose values differ in every row."""
    for name in filter(is_called_id, names):
        filled = [own[name] for own in reports.values() if name in own and own[name].filled]
        if filled and all(report.unique for report in filled):
            return name
    return None


def disagreements(
    reports: Reports, id_column: str, client_names: Mapping[int, str], lacking: str = "impute"
) -> list[str]:
    """Return a sentence for each column that differs between clients, as `agree` finds them."""
    return _agreed(reports, id_column, lacking, client_names)[1]


@dataclass
class _Found:
    """What is found of columns as they are united.

    `problems` are sentences; `unlike` are columns that differ in kind, by what is where and what to do; `truths` are
    those of numbers that are truth values at some clients, by what is where; `apart` and `reported` are as of `Schema`.
    """

    problems: list[str] = field(default_factory=list)
    unlike: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    truths: dict[str, list[str]] = field(default_factory=dict)
    apart: list[str] = field(default_factory=list)
    reported: dict[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


def _agreed(
    reports: Reports, id_column: str, lacking: str, client_names: Mapping[int, str]
) -> tuple[Schema, list[str]]:
    """Return the common schema, which may have no columns, and a sentence for each problem."""
    names = list(dict.fromkeys(name for own in reports.values() for name in own))
    columns: list[SchemaColumn] = []
    of_all = _Found()
    if id_column not in (AUTO, NO_ID) and id_column not in names:
        of_all.problems.append(str(unknown_name("id column", id_column, names)))
    found = {AUTO: _likeliest_id(reports, names), NO_ID: None}.get(id_column, id_column)
    nowhere: list[str] = []
    absent: dict[str, list[str]] = {}
    partial: dict[str, dict[int, ColumnReport]] = {}
    ids: list[str] = []
    texts: list[str] = []
    numbers: set[str] = set()
    rare: list[str] = []
    for name in names:
        own = {client: columns_[name] for client, columns_ in reports.items() if name in columns_}
        filled = _with_values(own)
        if name == id_column:
            continue
        if filled and id_column != NO_ID and all(report.unique for report in filled.values()):
            found = found or name
            (ids if name == found else texts).append(name)
            if {report.kind for report in filled.values()} == {"number"}:
                numbers.add(name)
        elif not filled:
            nowhere.append(name)
        elif len(filled) < len(reports) and lacking == "drop":
            without = [client for client in reports if client not in filled]
            absent.setdefault(listed_clients(without, client_names, len(reports)), []).append(name)
            partial[name] = filled
        else:
            column = _united(name, filled, client_names, of_all)
            if column is None:
                continue
            if column.kind == "category" and not column.categories:
                rare.append(name)
            else:
                columns.append(column)
    alike = [own for own in spelt_alike(names) if not all(set(own) <= report.keys() for report in reports.values())]
    spelt = {name for group in alike for name in group}
    said = {where: kept for where, own in absent.items() if (kept := [name for name in own if name not in spelt])}
    others = {name: own for name, own in partial.items() if name not in spelt}
    questions = (
        *notes_on_complements(others, len(reports)),
        *note_on_units_in_names(reports),
        *note_on_spellings(alike, lacking == "drop"),
    )
    notes = [*notes_on_ids(ids, texts, numbers), *note_on_rare(rare), *notes_on_truths(of_all.truths), *questions]
    held_by_all = [name for name in names if all(name in own for own in reports.values())]
    notes += [*note_on_marks(marks(partial, held_by_all)), *notes_on_absent(nowhere, said)]
    problems = [*of_all.problems, *sentences_on_kinds(of_all.unlike)]
    return Schema(tuple(columns), found, notes, tuple(of_all.apart), of_all.reported, questions), problems


def _with_values(reports: Mapping[int, ColumnReport]) -> dict[int, ColumnReport]:
    """Return the reports on a column with values; a client's dashes alone are such if others have these or "+"."""
    filled = {client: report for client, report in reports.items() if report.filled}
    others = {client: report for client, report in filled.items() if report.categories != ALONE}
    signed = any(name in ALONE or POSITIVE.fullmatch(name) for own in others.values() for name in own.categories)
    return filled if signed else others


def without(schema: Schema, dropped: Iterable[str], *notes: str) -> Schema:
    """Return a schema without some columns, which are given by name, and with the reason as notes.

    Raises FedkinError if no column is left.
    """
    gone = set(dropped)
    columns = tuple(column for column in schema.columns if column.name not in gone)
    if not columns:
        raise FedkinError(f"No column is left to compare samples by: {' '.join(notes)}")
    said = [own for own in schema.notes if not own.startswith(tuple(f"Column '{name}' " for name in gone))]
    apart = tuple(name for name in schema.apart if name not in gone)
    reported = {name: own for name, own in schema.reported.items() if name not in gone}
    return Schema(columns, schema.id, [*said, *notes], apart, reported, schema.questions)


def settled(schema: Schema, are_truths: Sequence[bool]) -> Schema:
    """Return a schema whose numbers with categories are truth values where their values are such, else mere numbers."""
    columns = tuple(
        replace(column, kind="boolean" if truths else "number", categories=column.categories if truths else ())
        if column.may_be_truth
        else column
        for column, truths in zip(schema.columns, are_truths, strict=True)
    )
    return replace(schema, columns=columns)


def shortened(notes: Sequence[str]) -> list[str]:
    """Return the first notes, and a last one that says how many more there are."""
    more = [f"... and {len(notes) - _NOTES:,} more columns of which there is something to say."]
    return [*notes[:_NOTES], *(more if len(notes) > _NOTES else [])]


def _united(
    name: str,
    reports: Mapping[int, ColumnReport],
    client_names: Mapping[int, str],
    found: _Found,
) -> SchemaColumn | None:
    """Return the common column of all reports, and add to `found`; if they disagree, ``None``.

    Columns of numbers that are truth values at some clients are numbers with the categories of these, until sums show
    whether all are 0 or 1; see `settled`.
    """
    kinds = {report.kind for report in reports.values()}
    if kinds == {"boolean", "category"}:
        kinds = {"category"}
    if kinds == {"boolean", "number"}:
        kinds = {"number"}
        found.truths.setdefault(kinds_in_words(reports, client_names), []).append(name)
    if len(kinds) > 1:
        said = (kinds_in_words(reports, client_names), advice_on_kinds(reports))
        found.unlike.setdefault(said, []).append(name)
        return None
    kind = kinds.pop()
    levels = [report.categories for report in reports.values()]
    if kind in MEASURED:
        return SchemaColumn(name, kind, next(filter(None, levels), ()))
    if kind == "ordinal" and (united := in_one_order(levels)):
        return SchemaColumn(name, kind, united)
    if kind == "ordinal":
        found.problems.append(
            f"Column '{name}' has levels {', '.join(levels[0])} at one client and "
            f"{', '.join(next(own for own in levels if own != levels[0]))} at another; name them in ordinal."
        )
        return None
    if kind == "category":
        called = [client_names.get(client, str(client)) for client in reports]
        named = dict(zip(called, merged_wholes(levels), strict=True))
        categories = tuple(in_order(level for own in named.values() for level in own))
        if has_no_common(named) and not may_be_place(reports.values()):
            found.apart.append(name)
        found.reported[name] = named
        return SchemaColumn(name, kind, categories)
    return SchemaColumn(name, kind, levels[0])


def reports_by_name(reply: Mapping[str, Any]) -> dict[str, ColumnReport]:
    """Return the reports in a client's reply by column, see `fedkin.data.preparing.column_reports.reports_of`."""
    return {
        name: ColumnReport.from_plain(fields) for name, fields in zip(reply["names"], reply["columns"], strict=True)
    }
