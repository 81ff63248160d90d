"""Schema of clients' tables: what each client reports of its columns, and the columns on which all agree.

Columns are matched by name. Categories are united; kinds that contradict each other are one list of problems.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from fedkin.core.client import IN_WORDS, MAX_CATEGORIES, Column, Kind, Table
from fedkin.core.errors import FedkinError, listing, mid_sentence, option, refuse, unknown_name
from fedkin.core.replies import is_text
from fedkin.data.options import AUTO, NO_ID, TableOptions
from fedkin.data.tables import in_order

_KINDS: tuple[Kind, ...] = get_args(Kind)
_MAX_TEXT, _MAX_NAMES = 500, 1_000_000
"""Characters of a name of a column or category, and number of these, that may be sent."""


# What a client reports.


class ColumnReport(NamedTuple):
    """Report on one column of one client.

    `filled` says whether any cell is not empty. `unique` says whether the column may name the rows, or whose they are:
    the values are nearly all different, or they come again and the column is called like the id of a person or thing.
    `categories` are for a category column the names of those with enough samples, at most the 50 most frequent; for a
    boolean or ordinal one, all its values, in order.
    """

    kind: Kind
    filled: bool
    unique: bool = False
    categories: Sequence[str] = ()


Reports = Mapping[int, Mapping[str, ColumnReport]]
"""By client, what it reports of each of its columns, by name."""


def reports_of(table: Table, min_members: int, origin: str) -> dict[str, Any]:
    """Report on a client's table: the columns' ``names``, and in ``columns`` their `ColumnReport` as plain lists.

    Raises FedkinError if a name, or a category that would leave the client, is longer than may be sent.
    """
    reports = [_report(column, table.values[:, i], min_members, table.id) for i, column in enumerate(table.columns)]
    how = f"name or a category of more than {_MAX_TEXT} characters; shorten it, or name the column in {option('drop')}"
    refuse(
        FedkinError(f"Column '{column.name[:60]}' of {origin} has a {how}.", public=True)
        for column, report in zip(table.columns, reports, strict=True)
        if max(map(len, (column.name, *report.categories))) > _MAX_TEXT
    )
    return {"names": table.names, "columns": [[*report[:3], list(report.categories)] for report in reports]}


_ID_NAME = re.compile(
    r"(?i:(^|[_\W])(id|uuid|guid|mrn|pid|seqn|barcode|iban|phone)$|subjid$"
    r"|^(index|number|rownames|level_\d|unnamed: 0)$"
    r"|^(patient|subject|participant|person|respondent|case|customer|student|employee|record)(id|no|nr|number)?$"
    r"|[^\W_][_\W](no|nr|key)$|(nummer|nr)$)|[a-z](I[dD]|No|Nr|Key)$"
)
"""What columns with an id, or with a number to call somebody by, are called: ``patient_id``, ``phone``."""


def _report(column: Column, values: Tensor, min_members: int, id_column: str) -> ColumnReport:
    """Return the report on a column; `id_column` is the client's own setting for the column that names rows."""
    filled = values[~values.isnan()]
    unique = id_column == column.name or (id_column == AUTO and _names_rows(column, filled, len(values)))
    categories = column.categories
    if column.kind == "category":
        counts = filled.long().bincount(minlength=len(categories))
        frequent = [int(code) for code in counts.argsort(descending=True, stable=True) if counts[code] >= min_members]
        categories = () if unique else tuple(categories[code] for code in sorted(frequent[:MAX_CATEGORIES]))
    return ColumnReport(column.kind, len(filled) > 0, unique, categories)


def _names_rows(column: Column, filled: Tensor, rows: int) -> bool:
    """Return whether a column may identify rows: nearly all values differ, and are texts or integers called an id.

    A column that is mostly empty does not. In one that is called an id each value may come ten times, as a patient's.
    """
    if 2 * len(filled) < max(rows, 1) or column.kind not in ("category", "number"):
        return False
    is_id = bool(_ID_NAME.search(column.name))
    if column.kind == "number" and not (is_id and bool((filled == filled.round()).all())):
        return False
    enough = 0.9 * len(filled) if len(filled) >= 20 else len(filled) - 1  # of fewer than 20 rows all must differ
    return len(filled.unique()) > (min(enough, max(2, 0.1 * len(filled))) if is_id else enough)


def are_names(value: Any) -> bool:
    """Return whether a value is a list of distinct texts of bounded length."""
    if not isinstance(value, list) or len(value) > _MAX_NAMES:
        return False
    return all(isinstance(text, str) and len(text) <= _MAX_TEXT for text in value) and len(set(value)) == len(value)


def are_reports(value: Any) -> bool:
    """Return whether a value holds reports as of `reports_of`, of bounded size."""
    return isinstance(value, list) and len(value) <= _MAX_NAMES and all(
        isinstance(report, list) and len(report) == 4 and report[0] in _KINDS and are_names(report[3])
        and isinstance(report[1], bool) and isinstance(report[2], bool) for report in value
    )  # fmt: skip


def reports_by_name(reply: Mapping[str, Any]) -> dict[str, ColumnReport]:
    """Return the reports in a client's reply by column, see `reports_of`."""
    return {name: ColumnReport(*report) for name, report in zip(reply["names"], reply["columns"], strict=True)}


# What clients agree on.


@dataclass(frozen=True)
class Schema:
    """Columns by which all clients' tables are encoded.

    `columns` are the same at all clients, in the order of the first client that has each; what is none of a category
    column's `categories` is *other*. `id` is the column that names rows, which is carried
    to the outputs. `notes` say for the user which columns are left out, and why.
    """

    columns: tuple[Column, ...]
    id: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def reading(self) -> TableOptions:
        """Options by which a new table is read with columns of the same kinds."""
        categorical = [column.name for column in self.columns if column.kind == "category"]
        ordinal = {column.name: list(column.categories) for column in self.columns if column.kind == "ordinal"}
        return TableOptions(id=self.id or AUTO, categorical=categorical, ordinal=ordinal, features=self.names)


def plain(columns: Iterable[Column]) -> list[list[Any]]:
    """Return columns as plain values, to be sent."""
    return [[column.name, column.kind, list(column.categories)] for column in columns]


def are_columns(value: Any) -> bool:
    """Return whether a value is a list of columns as `plain` writes them."""
    if not isinstance(value, list) or not all(isinstance(column, list) and len(column) == 3 for column in value):
        return False
    return all(
        is_text(name) and kind in get_args(Kind) and isinstance(levels, list) and all(map(is_text, levels))
        for name, kind, levels in value
    )


def columns_of(tree: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the ``columns`` in a payload or a tree, as `plain` wrote them."""
    return tuple(Column(name, kind, tuple(levels)) for name, kind, levels in tree["columns"])


def are_numbers(columns: Iterable[Column]) -> Tensor:
    """Return which columns hold numbers, or what can be taken for such, and not categories: bool ``(columns,)``."""
    return torch.tensor([column.kind != "category" for column in columns])


def agree(reports: Reports, id_column: str, client_names: Mapping[int, str]) -> Schema:
    """Return the common schema of all clients' tables, from their reports.

    `id_column` names the column that names rows; "auto" is to recognise it, "none" if there is none. `client_names` are
    for error messages. Columns that a client lacks, or of which all its cells are empty, are left out. Raises
    FedkinError if a column holds something else at one client than at another, the named id does not exist, or no
    column is left; one line for each problem.
    """

    def listed(clients: Iterable[int]) -> str:
        return listing([client_names[client].removeprefix("Client ") for client in clients], 5)

    names = list(dict.fromkeys(name for columns in reports.values() for name in columns))
    problems = [str(unknown_name("id column", id_column, names))] if id_column not in (AUTO, NO_ID, *names) else []
    columns: list[Column] = []
    ids: dict[str, bool] = {}  # and whether they are numbers
    left_out: dict[str, list[str]] = {}  # by the reason
    for name in names:
        present = {client: columns[name] for client, columns in reports.items() if name in columns}
        present = {client: report for client, report in present.items() if report.filled}
        kinds = {report.kind for report in present.values()}
        if name == id_column:
            continue
        remedy = f"Write it in one way, or name it in {option('categorical')} or {option('drop')}."
        remedy = f"Name its levels in {option('ordinal')}, from the lowest up." if "ordinal" in kinds else remedy
        if not present:
            left_out.setdefault("are empty at all clients", []).append(name)
        elif id_column != NO_ID and all(report.unique for report in present.values()):
            ids[name] = "number" in kinds
        elif len(present) < len(reports):
            absent = [client for client in reports if client not in present]
            reason = f"are empty or absent at {len(absent)} of {len(reports)} clients ({listed(absent)})"
            left_out.setdefault(reason, []).append(name)
        elif len(kinds) > 1 and kinds != {"boolean", "category"}:
            places = [
                f"{IN_WORDS[kind]} at {listed(client for client, report in present.items() if report.kind == kind)}"
                for kind in sorted(kinds)
            ]
            problems.append(f"Column '{name}' holds {'; '.join(places)}. {remedy}")
        elif (levels := _levels([*present.values()])) is None:
            problems.append(f"Column '{name}' has other levels at one client than at another. {remedy}")
        elif "category" in kinds and not levels:
            left_out.setdefault("have no value that is frequent enough at any client", []).append(name)
        else:
            columns.append(Column(name, "category" if "category" in kinds else kinds.pop(), levels))
    row_id = {AUTO: next(iter([*filter(_ID_NAME.search, ids), *ids]), None), NO_ID: None}.get(id_column, id_column)
    if ids:
        numeric = [name for name, is_number in ids.items() if is_number]
        keeps = f"; {option('id', NO_ID)} keeps {quoted(numeric)}" if numeric else ""
        left_out[f"name the rows or say whose they are, or differ in nearly every row{keeps}"] = [*ids]
    notes = [f"Columns are left out that {reason}: {quoted(gone)}." for reason, gone in left_out.items()]
    if not columns and not problems:
        problems.append(f"No column is left to compare samples by: {' '.join(notes[:20])}")
    refuse(problems)
    return Schema(tuple(columns), row_id, notes)


def _levels(reports: Sequence[ColumnReport]) -> tuple[str, ...] | None:
    """Return the levels of a column of all clients together; ``None`` if those of an ordinal one are not the same."""
    levels, kinds = [tuple(report.categories) for report in reports], {report.kind for report in reports}
    if "ordinal" in kinds:
        return levels[0] if len(set(levels)) == 1 else None
    return tuple(in_order(level for names in levels for level in names)) if "category" in kinds else levels[0]


def quoted(names: Sequence[str]) -> str:
    """Return the first eight names of columns for a sentence, and how many more there are."""
    return listing([f"'{name}'" for name in names], 8)


def is_place(reports: Collection[ColumnReport]) -> bool:
    """Return whether each client reports one category of a column, and no two the same."""
    levels = {tuple(report.categories) for report in reports}
    return len(levels) == len(reports) > 1 and all(
        report.kind == "category" and len(report.categories) == 1 for report in reports
    )


def id_texts(table: Table, name: str) -> list[str]:
    """Return the values of a column as texts: whole numbers without decimals, empty cells as empty texts."""
    column, cells = next(column for column in table.columns if column.name == name), table.of(name).tolist()
    if column.is_coded:
        return ["" if math.isnan(cell) else column.categories[int(cell)] for cell in cells]
    return ["" if math.isnan(cell) else str(int(cell)) if cell == int(cell) else repr(cell) for cell in cells]


def aligned(table: Table, columns: Sequence[Column], origin: str, imputes: bool = False) -> Tensor:
    """Return a table's values in the order and categories of a schema's columns, float64 ``(n, columns)``.

    Categories are indices into the schema's, and their number where a category is none of these; an unknown level of an
    ordinal column counts as empty. Raises FedkinError if the table lacks columns and nothing `imputes` them, or they
    are of another kind; a line for each, whose public part names columns and kinds alone.
    """
    position = {column.name: i for i, column in enumerate(table.columns)}
    problems: list[FedkinError] = []
    if not imputes and (lacking := [column.name for column in columns if column.name not in position]):
        what = f"has no column{'s' * (len(lacking) > 1)} {quoted(lacking)}, which the clients' tables have."
        problems.append(FedkinError(f"{origin} {what}", public=True))
    padded = torch.cat([table.values, torch.full((len(table), 1), torch.nan, dtype=torch.float64)], 1)
    values = padded[:, [position.get(column.name, -1) for column in columns]]
    for i, column in enumerate(columns):
        source = table.columns[position[column.name]] if column.name in position else Column(column.name, column.kind)
        if source.kind == column.kind and (
            source.kind not in ("ordinal", "category") or source.categories == column.categories
        ):
            continue
        empty = values[:, i].isnan()
        if source.kind in ("boolean", "number") and column.kind in ("boolean", "number"):
            fits = column.kind == "number" or bool((empty | (values[:, i] >= 0) & (values[:, i] <= 1)).all())
        elif fits := source.is_coded and column.is_coded:
            index = {name: float(code) for code, name in enumerate(column.categories)}
            unknown = float(len(index)) if column.kind == "category" else torch.nan
            fits = column.kind != "boolean" or index.keys() >= {*source.categories}
            codes = torch.tensor([index.get(name, unknown) for name in source.categories] or [unknown]).double()
            values[:, i] = torch.where(empty, torch.nan, codes[values[:, i].nan_to_num(0.0).long()])
        if not fits and not bool(empty.all()):
            problem = (
                f"Column '{column.name}' of {mid_sentence(origin)} holds {IN_WORDS[source.kind]}; in the clients' "
                f"tables it holds {IN_WORDS[column.kind]}."
            )
            problems.append(FedkinError(problem, public=True))
    refuse(problems)
    return values
