"""Columns of clients' data: what clients report of them, what all agree on, and sums over all clients.

Clients are asked by tasks, alike of arrays and of tables. Columns of tables are matched by name; categories are united,
and kinds that contradict each other are one list of problems. Everything else is a sum over samples, besides ends of
columns, so secure sums carry it: means, variances, frequencies, and histograms, which medians and other quantiles are
read from. A client that must not tell its extremes (`Client.extremes`) counts values at either end of a column as the
fifth from there, in all that it reports.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, get_args

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task
from fedkin.core.client import IN_WORDS, MAX_CATEGORIES, Column, Kind, Table
from fedkin.core.errors import (
    FedkinError,
    RefusalError,
    listing,
    mid_sentence,
    option,
    refuse,
    setting,
    unknown_name,
)
from fedkin.core.payload import Expected, Optional, doubles, int64, is_count, is_flag, is_shape, is_text, reals
from fedkin.data.options import AUTO, MIN_MEMBERS, NO_ID
from fedkin.data.tables import in_order
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import sums_of_all

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


def reports_of(table: Table, min_members: int) -> Payload:
    """Report on a client's table: the columns' ``names``, and in ``columns`` their `ColumnReport` as plain lists.

    Raises RefusalError if a name, or a category that would leave the client, is longer than may be sent.
    """
    reports = [_report(column, table.values[:, i], min_members, table.id) for i, column in enumerate(table.columns)]
    if too_long := [
        column.name[:60]
        for column, report in zip(table.columns, reports, strict=True)
        if max(map(len, (column.name, *report.categories))) > _MAX_TEXT
    ]:
        what = f"a name or a category of more than {_MAX_TEXT} characters; shorten it, or {setting('drop', too_long)}"
        raise RefusalError(f"Of the columns {quoted(too_long)} each has {what}.", public=True)
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


def aligned(table: Table, columns: Columns, origin: str, imputes: bool = False) -> Tensor:
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


BINS = 256
"""Bins of a histogram."""
UNIT = doubles(None, minimum=float(torch.finfo(torch.float64).tiny))
"""Specification of units in a payload."""

Columns = Sequence[Column]
Ask = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Returns `column_histograms` over all clients, of columns at some positions between a low and a high end of each."""


# Numbers.


def unit_of(reach: Tensor) -> Tensor:
    """Return a power of two at least as large as each number, float64 ``(columns,)``, or 1 for 0 and less.

    Squares in such units stay small, however large the values are.
    """
    return torch.where(reach > 0, torch.pow(2.0, torch.frexp(reach.double()).exponent.double()), 1.0)


def quantile(counts: Tensor, fraction: float, low: Tensor, high: Tensor) -> Tensor:
    """Return a quantile of each column, float64 ``(columns,)``, as if values were evenly spread within each bin."""
    below = counts.cumsum(1)
    target = below[:, -1:] * fraction
    bins = (below < target).sum(1, keepdim=True).clamp_max(BINS - 1)
    inside = (target - (below - counts).gather(1, bins)) / counts.gather(1, bins).clamp_min(1)
    return low + (bins + inside)[:, 0] / BINS * (high - low)


def sum_of(replies: Mapping[int, Payload], name: str) -> Tensor:
    """Return the sum of one tensor over all replies, in order of client."""
    return torch.stack([replies[i][name] for i in sorted(replies)]).sum(0)


def count_lengths(columns: Columns) -> list[int]:
    """Return the number of frequencies of each column; 0 where it is no category."""
    return [len(column.categories) + 1 if column.kind == "category" else 0 for column in columns]


# What clients are asked. Tasks with ``columns`` are about a table's, as the schema has them, else about the array.

_FEATURES = doubles("features")
_COLUMNS: Expected = {"columns": Optional(are_columns)}
_MIN_MEMBERS: Expected = {"min_members": Optional(is_count)}
_ENCODERS: Expected = {
    "encoder": Optional(is_text), "texts": Optional(are_names), "text_encoder": Optional(is_text)
}  # fmt: skip


@client_task(
    takes={"unscaled": Optional(is_flag)},
    holds={
        "shape": is_shape,
        "scaled": is_flag,
        "names": Optional(are_names),
        "plain": Optional(is_flag),
        **_ENCODERS,
    },
    accounted=True,
    sends="What columns there are, or how large a picture is",
    fewest="none",
    pools=True,
)
def shapes(client: Client, payload: Payload) -> Payload:
    """Report the shape of a sample, whether the data are prepared already, and names of a table's columns.

    ``plain`` is whether all columns are of numbers and no cell is empty. Arrays that are to stay ``unscaled`` must be
    float32: RefusalError if they are so far from zero that this would lose what varies in them.
    """
    if payload.get("unscaled") and client.table is None and client.x.dtype == torch.float64:
        raise RefusalError(
            "A column is so far from zero that float32 would lose what varies in it; subtract a common number from it "
            f"at every client, or {setting('scaling', 'standard')}.",
            public=True,
        )
    reply = _facts_of(client)
    if client.table is not None:
        numbers = all(column.kind == "number" for column in client.table.columns)
        reply |= {"names": client.table.names, "plain": numbers and not bool(client.table.values.isnan().any())}
    return reply


@client_task(
    takes=_MIN_MEMBERS,
    holds={
        "count": is_count, "filled": _FEATURES, "sum": _FEATURES, "min": _FEATURES, "max": _FEATURES,
        "shape": is_shape, "scaled": is_flag, "names": Optional(are_names), "columns": Optional(are_reports),
        "trimmed": Optional(is_flag), **_ENCODERS,
    },
    sends="How many rows, and each column's mean, smallest and largest value, and frequent categories",
    fewest="extremes",
    pools=True,
)  # fmt: skip
def moments(client: Client, payload: Payload) -> Payload:
    """Report count, sum, minimum and maximum of each column or channel, 0 for categories; of a table also its columns.

    The reply is ``trimmed`` where extremes must not leave.
    """
    values, numbers = _values(client, {})
    empty = values.isnan()
    filled = (~empty).sum(0).double()
    has_empty = bool(empty.any())  # a large array is not copied

    def filled_with(number: float) -> Tensor:
        return values.masked_fill(empty, number) if has_empty else values

    parts: Payload = {"sum": filled_with(0.0).sum(0)}
    parts |= {"min": filled_with(math.inf).amin(0), "max": filled_with(-math.inf).amax(0)}
    parts = {name: torch.where(numbers & (filled > 0), part, 0.0) for name, part in parts.items()}
    parts |= {"count": len(values), "filled": filled, **({} if client.extremes else {"trimmed": True})}
    parts |= _facts_of(client)
    return parts if client.table is None else parts | reports_of(client.table, smallest_group(client, payload))


def _facts_of(client: Client) -> Payload:
    """Return the shape of a sample, whether data are prepared, and the fingerprint of what has encoded them."""
    facts: Payload = {"shape": list(client.x.shape[1:]), "scaled": "preparation" in client.state}
    if client.samples is not None:
        return {**facts, "encoder": client.samples.encoder}
    columns = {} if client.table is None else client.table.texts
    texts = {name: column.texts.encoder for name, column in columns.items() if column.rows is not None}
    return {**facts, "texts": list(texts), "text_encoder": next(iter(texts.values()))} if texts else facts


@client_task(
    takes={"column": is_text},
    holds={"count": is_count, "sum": doubles("embedded"), "products": reals("embedded", "embedded")},
    may_be_empty=True,
    sends="How texts differ, as sums over a language model's numbers of them",
)
def text_moments(client: Client, payload: Payload) -> Payload:
    """Report count, sum and products of a text column's embeddings, of cells that are not empty; empty without any."""
    column = None if client.table is None else client.table.texts.get(payload["column"])
    rows = torch.zeros(0, 0) if column is None or column.rows is None else column.rows
    rows = rows[~rows.isnan().any(1)] if len(rows) else rows
    return {"count": len(rows), "sum": rows.double().sum(0), "products": rows.T @ rows} if len(rows) else {}


@client_task(
    takes=_MIN_MEMBERS,
    holds={"names": are_names, "columns": are_reports},
    sends="What columns there are, their kinds, and the names of frequent categories",
    fewest="min_members",
)
def table_columns(client: Client, payload: Payload) -> Payload:
    """Report the columns of a table, and nothing of its samples except names of frequent categories."""
    if client.table is None:
        return {"names": [], "columns": []}
    return reports_of(client.table, smallest_group(client, payload))


def smallest_group(client: Client, payload: Payload) -> int:
    """Return of how many samples a client tells something, which a server cannot lower."""
    return max(MIN_MEMBERS, int(payload.get("min_members", 0)), client.min_members)


@client_task(
    takes=_COLUMNS,
    holds={"filled": doubles("columns", minimum=0), "sum": doubles("columns"), "samples": is_count},
    sends="How many rows have a value, and the mean of each column",
)
def column_sums(client: Client, payload: Payload) -> Payload:
    """Report filled cells and the sum of each column, 0 for categories."""
    values, numbers = _values(client, payload)
    total = values.nan_to_num(0.0).sum(0) * numbers
    return {"filled": (~values.isnan()).sum(0).double(), "sum": total, "samples": len(values)}


@client_task(
    takes={**_COLUMNS, "mean": doubles(None), "unit": UNIT},
    holds={"squares": doubles("columns", minimum=0), "counts": doubles(None, minimum=0)},
    sends="How much the values of each column differ, and how often categories occur",
    pools=True,
)
def squares(client: Client, payload: Payload) -> Payload:
    """Report each column's sum of squared distances from the common mean, in squares of its unit, and frequencies.

    Frequencies are of each column's categories, the last being all others, one column after the other.
    """
    values, numbers = _values(client, payload)
    distances = ((values - payload["mean"]) / payload["unit"]).nan_to_num(0.0)
    counts = [torch.zeros(0, dtype=torch.float64)]
    for i, length in enumerate(count_lengths(columns_of(payload)) if "columns" in payload else ()):
        if length:
            codes = values[:, i]
            counts.append(codes[~codes.isnan()].long().bincount(minlength=length).double())
    return {"squares": distances.square().sum(0) * numbers, "counts": torch.cat(counts)}


@client_task(
    takes={**_COLUMNS, "at": Optional(int64("columns")), "low": doubles(None), "high": doubles(None)},
    holds={"histograms": doubles("columns", BINS, minimum=0)},
    sends="How many rows have values in which range",
    pools=True,
)
def column_histograms(client: Client, payload: Payload) -> Payload:
    """Report how many values of columns, or those ``at`` positions of an array, lie in each bin of equal width.

    The first and the last bin take the rest.
    """
    values, _ = _values(client, payload)
    if "at" in payload:
        if bool((payload["at"] >= values.shape[1]).any()):
            raise FedkinError(
                f"Column {int(payload['at'].amax())} was asked for, but samples have {values.shape[1]}.", public=True
            )
        values = values[:, payload["at"]]
    width = (payload["high"] - payload["low"]).clamp_min(torch.finfo(torch.float64).tiny)
    bins = ((values - payload["low"]) / width * BINS).clamp(0, BINS - 1)
    counts = [column[~column.isnan()].long().bincount(minlength=BINS).double() for column in bins.T]
    return {"histograms": torch.stack([*counts, torch.zeros(BINS, dtype=torch.float64)])[:-1]}


def _values(client: Client, payload: Payload) -> tuple[Tensor, Tensor]:
    """Return values of the columns in question, float64 ``(n, columns)``, and which are numbers; of images by channel.

    They are of the table's own columns where the payload names none. Where extremes must not leave, values at either
    end of a column are the fifth from there, or all their mean where there are no ten; so nothing finds one.
    """
    table, numbers = client.table, torch.tensor(True)
    if "columns" in payload:
        if table is None:
            raise FedkinError(f"Client {client.id} has no table.", public=True)
        numbers = are_numbers(columns_of(payload))
        values = aligned(table, columns_of(payload), f"Client {client.id}", imputes=True)
    elif table is not None:
        numbers, values = are_numbers(table.columns), table.values
    else:
        values = client.x.double() if client.x.ndim == 2 else client.x.double().movedim(1, -1).flatten(0, -2)
    if client.extremes:
        return values, numbers
    filled, ordered = (~values.isnan()).sum(0), values.sort(0).values  # NaN comes last
    places = torch.stack([torch.full_like(filled, MIN_MEMBERS - 1), filled - MIN_MEMBERS])
    ends = ordered.gather(0, places.clamp(0, len(values) - 1))
    low, high = torch.where(filled >= 2 * MIN_MEMBERS, ends, values.nanmean(0))
    return torch.where(numbers, values.clamp(low, high), values), numbers


# Sums over all clients.


@dataclass(frozen=True)
class ColumnSums:
    """Sums over all samples of all clients, by column, or of images by channel.

    `filled`, float64 ``(columns,)``, are numbers of cells that are not empty; `sum` and `squares`, float64
    ``(columns,)``, are of values, and of their squared distances from the mean; 0 for categories. `counts` are
    frequencies of each column's categories, float64 ``(categories + 1,)``, the last of all others; of length 0 for
    other columns, and none of arrays. `low` and `high`, float64 ``(columns,)``, are minimum and maximum, where clients
    send these; if any client's are `trimmed`, some values are beyond.
    """

    samples: int
    filled: Tensor
    sum: Tensor
    squares: Tensor
    counts: list[Tensor]
    low: Tensor | None = None
    high: Tensor | None = None
    trimmed: bool = False

    def of(self, positions: Sequence[int], counts: list[Tensor]) -> Self:
        """Return the sums of the columns at these positions, with other frequencies."""
        parts = {name: getattr(self, name) for name in ("filled", "sum", "squares", "low", "high")}
        parts = {name: None if part is None else part[list(positions)] for name, part in parts.items()}
        return replace(self, **parts, counts=counts)

    @cached_property
    def mean(self) -> Tensor:
        """Mean of each column, float64 ``(columns,)``."""
        return self.sum / self.filled.clamp_min(1)

    @cached_property
    def spread(self) -> Tensor:
        """Standard deviation of each column, float64 ``(columns,)``."""
        return (self.squares / self.filled.clamp_min(1)).sqrt()


def sum_columns(
    fed: Federation, width: int, columns: Columns | None = None, replies: Mapping[int, Payload] | None = None
) -> tuple[ColumnSums, dict[int, Tensor], dict[int, list[Tensor]]]:
    """Return sums over all clients, and of each its `moments_of` columns and the frequencies of their categories.

    They are of the `width` columns of tables, or of arrays or channels without `columns`. Without `replies` to
    `moments` they are secure: nothing is known of single clients.
    """
    lengths = count_lengths(columns or ())
    question: Payload = {} if columns is None else {"columns": plain(columns)}
    if replies is None:
        terms = [Term("filled", (width,)), Term("sum", (width,), wide=True), Term("samples")]
        first = sums_of_all(fed, column_sums, question, terms)
        filled, total = first["filled"], first["sum"]
        question |= {"mean": total / filled.clamp_min(1), "unit": torch.ones_like(total)}
        terms = [Term("squares", (width,), wide=True), *([Term("counts", (sum(lengths),))] if sum(lengths) else [])]
        second = sums_of_all(fed, squares, question, terms)
        counts = second.get("counts", torch.zeros(0, dtype=torch.float64)).split(lengths)
        return ColumnSums(int(first["samples"]), filled, total, second["squares"], list(counts)), {}, {}
    parts = {i: _in_order(replies[i], columns) for i in sorted(replies)}
    filled, total, low, high = torch.stack([*parts.values()], 1)
    filled, total, low, high = filled.sum(0), total.sum(0), low.amin(0), high.amax(0)
    mean = total / filled.clamp_min(1)
    unit = unit_of(torch.maximum(high - mean, mean - low))
    expected = {"squares": (width,), "counts": (sum(lengths),)}
    question |= {"mean": mean, "unit": unit}
    answers = fed.ask_until_all_reply(squares, question, expected=expected)
    of_clients = {i: moments_of(parts[i], mean, answers[i]["squares"] * unit.square()) for i in answers if columns}
    samples, trimmed = sum(reply["count"] for reply in replies.values()), any("trimmed" in replies[i] for i in replies)
    all_squares, counts = sum_of(answers, "squares") * unit.square(), sum_of(answers, "counts").split(lengths)
    sums = ColumnSums(samples, filled, total, all_squares, list(counts), low, high, trimmed)
    return sums, of_clients, {client: list(answer["counts"].split(lengths)) for client, answer in answers.items()}


def _in_order(reply: Payload, columns: Columns | None) -> Tensor:
    """Return filled cells, sum, minimum and maximum of each of the `columns`, float64 ``(4, columns)``.

    Where a client has no cell they are neutral.
    """
    facts = torch.stack([reply[name] for name in ("filled", "sum", "min", "max")])
    if columns is not None:
        position = {name: i for i, name in enumerate(reply["names"])}
        facts = torch.nn.functional.pad(facts, (0, 1))[:, [position.get(column.name, -1) for column in columns]]
    neutral = torch.tensor([[0.0], [0.0], [math.inf], [-math.inf]], dtype=torch.float64)
    return torch.where(facts[0] > 0, facts, neutral)


def moments_of(facts: Tensor, center: Tensor, squares: Tensor) -> Tensor:
    """Return a client's cells of each column, mean, deviation, minimum and maximum: float64 ``(5, columns)``.

    `facts`, float64 ``(4, columns)``, are filled cells, sum, minimum and maximum, and `squares` its sum of squared
    distances from `center`, the mean of all clients.
    """
    filled, total, low, high = facts
    mean = total / filled
    variance = squares / filled - (mean - center).square()
    varies = (low < high) & (mean - center).isfinite() & (variance > 0)  # of one value only rounding is left
    return torch.stack([filled, mean, torch.where(varies, variance, 0.0).sqrt(), low, high])


def histograms_of(fed: Federation, columns: Columns | None = None) -> Ask:
    """Return what asks all clients for `histograms` of some of these columns, or of columns of arrays."""

    def ask(positions: Tensor, low: Tensor, high: Tensor) -> Tensor:
        about = {"at": positions} if columns is None else {"columns": plain([columns[i] for i in positions.tolist()])}
        payload, shape = {**about, "low": low, "high": high}, (len(positions), BINS)
        if fed.secure_sums:
            return sums_of_all(fed, column_histograms, payload, [Term("histograms", shape)])["histograms"]
        replies = fed.ask_until_all_reply(column_histograms, payload, expected={"histograms": shape})
        return sum_of(replies, "histograms")

    return ask
