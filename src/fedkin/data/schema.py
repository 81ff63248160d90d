"""Schema of clients' tables: what each client reports of its columns, and the columns on which all agree.

Columns are matched by name, which may differ in case, blanks, hyphens and umlauts. Kinds and categories are
united; what contradicts is one list. Clients keep their own names, and look for the common ones in their tables.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Self, get_args

import torch
from torch import Tensor

from fedkin.core import Payload
from fedkin.core.doors import option
from fedkin.core.errors import FedkinError, listing, mid_sentence, refuse, unknown_name
from fedkin.core.table import IN_WORDS, MAX_CATEGORIES, MEASURED, Column, Kind, Table
from fedkin.data.cells import (
    LEADING_ZERO,
    NUMBER,
    as_known,
    is_called_id,
    is_called_number,
    is_called_whose,
    merged_wholes,
)
from fedkin.data.dataset import in_order
from fedkin.data.options import AUTO, NO_ID, TableOptions

MIN_MEMBERS = 5
"""Samples of a client that a category needs for its name to leave the client."""

_MAX_TEXT, _MAX_NAMES = 500, 1_000_000
_SHOWN, _NAMED, _CLIENTS = 60, 8, 5
"""Characters of a name, columns and clients that a sentence shows."""
_KINDS = get_args(Kind)
_MIN_ROWS, _NEARLY = 20, 0.9
"""Distinct values per row from which a column names its rows, if there are so many; of fewer, all must differ."""
_RETURNING, _FEW_ROWS = 0.1, 200
"""Distinct values per row from which such a column says whose rows are, and rows from which on it needs `_MIN_ROWS` of
them."""
_NOTES = 20
"""Notes on columns, of which a schema has one for each matter."""
_TOGETHER: tuple[frozenset[Kind], ...] = (frozenset({"boolean", "number"}), frozenset({"boolean", "category"}))
"""Kinds that one column may have at different clients."""
_ALIKE = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "\u00ad": "", "\u200b": "", **dict.fromkeys("\u2010\u2011\u2012–—\u2212", "-")}
)
"""Umlauts, invisible hyphens and blanks, and hyphens, dashes and minus signs by the hyphen of the keyboard."""
_MARKS = re.compile(r"[\s_]|(?<=[^\W\d_])-(?=[^\W\d_])|(?<=[^\W\d_])\.")
"""What does not tell names apart; beside digits and at the end a sign may, as in A+ and A-."""


@dataclass(frozen=True)
class ColumnReport:
    """Report on one column of one client.

    `filled` says whether any cell is not empty. `unique` says whether the column may name the rows, or whose they are:
    the values are nearly all different, or they come again and the column is called like the id of a person.
    `categories` are for a category column the names of those with enough samples, at most the 50 most frequent; for a
    boolean or ordinal one, all its values, in order.
    """

    kind: Kind
    filled: bool
    unique: bool = False
    categories: tuple[str, ...] = ()
    asked: bool = False

    def plain(self) -> list[Any]:
        """Return the fields as plain values, to be sent."""
        return [self.kind, self.filled, self.unique, list(self.categories), self.asked]

    @classmethod
    def from_plain(cls, fields: Sequence[Any]) -> Self:
        """Return the report that `plain` was made of."""
        kind, filled, unique, categories, asked = fields
        return cls(kind, filled, unique, tuple(categories), asked)


Reports = Mapping[int, Mapping[str, ColumnReport]]
"""By client, what it reports of each of its columns, by name."""


def reports_of(table: Table, min_members: int) -> dict[str, Any]:
    """Report on a client's table: the columns' ``names``, and in ``columns`` the plain `ColumnReport` of each."""
    filled = (~table.values.isnan()).sum(0).tolist()
    columns = [
        _report(column, table.values[:, at], filled[at], min_members, table.id).plain()
        for at, column in enumerate(table.columns)
    ]
    return {"names": table.names, "columns": columns}


def too_long(table: Table, min_members: int, where: str) -> list[str]:
    """Return a sentence on each column whose name, or a category that leaves the client, is longer than may be sent."""
    problems = []
    for at, column in enumerate(table.columns):
        shown = column.name if len(column.name) <= _SHOWN else f"{column.name[:_SHOWN]}…"
        if (length := len(column.name)) > _MAX_TEXT:
            said = f"Column {at + 1} of {where}, '{shown}', has a name of {length:,} characters; rename it to at most"
        elif max(map(len, column.categories), default=0) > _MAX_TEXT:
            values = table.values[:, at]
            report = _report(column, values, int((~values.isnan()).sum()), min_members, table.id)
            if (length := max(map(len, report.categories), default=0)) <= _MAX_TEXT:
                continue
            said = (
                f"Column '{shown}' of {where} has a text of {length:,} characters that comes so often that it is a "
                f"category; name the column in {option('drop')}, or shorten its texts to at most"
            )
        else:
            continue
        problems.append(f"{said} {_MAX_TEXT}.")
    return problems


def moments_of(table: Table) -> dict[str, Any]:
    """Return sums over a client's table, by column: ``filled``, ``sum``, ``min`` and ``max``, float64 ``(columns,)``.

    ``filled`` counts the cells that are not empty. The others are of numbers, logarithms, dates, and the indices of
    booleans and ordinals; 0 for categories and empty columns.
    """
    values = table.values
    empty = values.isnan()
    filled = (~empty).sum(0)
    none = torch.tensor([column.kind == "category" for column in table.columns]) | (filled == 0)
    return {
        "filled": filled.double(),
        "sum": torch.where(none, 0.0, torch.where(empty, 0.0, values).sum(0)),
        "min": torch.where(none, 0.0, torch.where(empty, math.inf, values).amin(0)),
        "max": torch.where(none, 0.0, torch.where(empty, -math.inf, values).amax(0)),
    }


def _report(column: Column, values: Tensor, filled: int, min_members: int, own_id: str) -> ColumnReport:
    """Return the report on a column; `own_id` is the client's own setting for the column that names rows."""
    unique = _is_unique(column, values, filled, own_id)
    if column.kind != "category":
        return ColumnReport(column.kind, filled > 0, unique, column.categories)
    counts = values[~values.isnan()].long().bincount(minlength=len(column.categories))
    frequent = [int(code) for code in counts.argsort(descending=True, stable=True) if counts[code] >= min_members]
    known = [column.categories[code] for code in sorted(frequent[:MAX_CATEGORIES])]
    return ColumnReport("category", filled > 0, unique, () if unique else tuple(known), column.asked)


def _is_unique(column: Column, values: Tensor, filled: int, own_id: str) -> bool:
    return own_id == column.name or (own_id == "auto" and _names_rows(column, values, filled))


def _names_rows(column: Column, values: Tensor, filled: int) -> bool:
    """Return whether a column may identify rows: nearly all values differ, and are texts or integers called an id.

    A column that is mostly empty does not. One that is called like the id of a person may have each value ten times.
    """
    if not filled or 2 * filled < len(values) or column.kind not in ("category", "number"):
        return False
    if column.kind == "number" and not is_called_number(column.name):
        return False
    own = values[~values.isnan()]
    if column.kind == "number" and not bool((own == own.round()).all()):
        return False
    threshold, distinct = _NEARLY * filled if filled >= _MIN_ROWS else filled - 1, len(own.unique())
    if is_called_whose(column.name) and distinct >= (3 if filled < _FEW_ROWS else _MIN_ROWS):
        threshold = min(threshold, _RETURNING * filled)
    return distinct > threshold


def are_reports(value: Any) -> bool:
    """Return whether a value is a list of `ColumnReport.plain`, of bounded size."""
    return isinstance(value, list) and all(map(_is_report, value))


def are_names(value: Any) -> bool:
    """Return whether a value is a list of distinct texts of bounded length."""
    if not isinstance(value, list) or len(value) > _MAX_NAMES:
        return False
    return all(isinstance(text, str) and len(text) <= _MAX_TEXT for text in value) and len(set(value)) == len(value)


def _is_report(fields: Any) -> bool:
    if not isinstance(fields, list) or len(fields) != 5:
        return False
    kind, filled, unique, categories, asked = fields
    return kind in _KINDS and all(isinstance(flag, bool) for flag in (filled, unique, asked)) and are_names(categories)


def reports_by_name(reply: Mapping[str, Any]) -> dict[str, ColumnReport]:
    """Return the reports in a client's reply by column, see `reports_of`."""
    return {
        name: ColumnReport.from_plain(fields) for name, fields in zip(reply["names"], reply["columns"], strict=True)
    }


def spelt_alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ only in spelling, in the order of the first of each.

    That is in case, blanks, underscores, hyphens between letters, full stops after letters, umlauts, and whether a
    hyphen is a dash or minus sign.
    """
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault(_without_marks(name), []).append(name)
    return [own for own in same.values() if len(own) > 1]


@functools.lru_cache(maxsize=2**16)  # a wide table's names come from every client
def _without_marks(name: str) -> str:
    return _MARKS.sub("", name.casefold().translate(_ALIKE))


def spelt_as(name: str, others: Iterable[str]) -> str | None:
    """Return the first of the others that differs from `name` in spelling alone; ``None`` without any."""
    return next((group[1] for group in spelt_alike([name, *others]) if group[0] == name), None)


def clients_in_words(names: Sequence[str]) -> str:
    """Return clients by name, of which only the first few are named."""
    named = [name.removeprefix("Client ") for name in names]
    return f"{'client' if len(named) == 1 else 'clients'} {listing(named, _CLIENTS)}"


def in_common_spelling(replies: Mapping[int, Payload]) -> tuple[dict[int, Payload], list[str]]:
    """Return clients' reports with one name for columns that differ in spelling alone, and a note on these.

    The name is the one that most clients have, the first of them. Columns stay apart that some client has both of, or
    that differ in kind. `replies` have ``names`` and ``columns``, see `reports_of`.
    """
    count = Counter(name for reply in replies.values() for name in reply["names"])
    common: dict[str, str] = {}
    groups = spelt_alike(count)
    group_of = {name: at for at, group in enumerate(groups) for name in group}
    apart, kinds = set(), defaultdict(set)
    for reply in replies.values():
        own = Counter(group_of[name] for name in reply["names"] if name in group_of)
        apart |= {at for at, columns in own.items() if columns > 1}
        for name, (kind, filled, *_) in zip(reply["names"], reply["columns"], strict=True):
            if filled and name in group_of:
                kinds[group_of[name]].add(kind)
    for at, group in enumerate(groups):
        if at not in apart and _fit_together(kinds[at]):
            most = max(group, key=lambda name: count[name])
            common |= dict.fromkeys(group, most)
    if not common:
        return dict(replies), []
    renamed = {
        client: {**reply, "names": [common.get(name, name) for name in reply["names"]]}
        for client, reply in replies.items()
    }
    together: dict[str, list[str]] = {}
    for name, most in common.items():
        together.setdefault(most, []).append(name)
    alike = listing([" and ".join(f"'{name}'" for name in own) for own in together.values()], _NAMED)
    return renamed, [
        f"Columns {alike} differ in spelling alone and are taken for the same; rename them if they are not."
    ]


def with_names(table: Table, wanted: Sequence[tuple[str, Kind | None]]) -> Table:
    """Return a table whose columns have the `wanted` names where they differ from these in spelling alone.

    `wanted` are names and kinds, ``None`` for any; a name that the table has, or two of its columns may mean, and a
    column of an incompatible kind stay as they are.
    """
    named, has = dict(wanted), set(table.names)
    free = {column.name: column.kind for column in table.columns if column.name not in named}
    lacking = {name for name in named if name not in has}
    meant: dict[str, str] = {}
    for group in spelt_alike([*lacking, *free]) if lacking and free else []:
        own, names = ([name for name in group if name in some] for some in (free, lacking))
        if len(own) == len(names) == 1 and ((kind := named[names[0]]) is None or _fit_together({free[own[0]], kind})):
            meant[own[0]] = names[0]
    if not meant:
        return table
    return replace(table, columns=tuple(replace(one, name=meant.get(one.name, one.name)) for one in table.columns))


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
    to the outputs. `notes` say for the user which columns are left out, and why.
    """

    columns: tuple[SchemaColumn, ...]
    id: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def wanted(self) -> list[tuple[str, Kind | None]]:
        """Names and kinds of the columns that a client's table should have, the one that names rows among them."""
        named: list[tuple[str, Kind | None]] = [(column.name, column.kind) for column in self.columns]
        return [*named, *([] if self.id is None else [(self.id, None)])]

    @property
    def reading(self) -> TableOptions:
        """Options by which a new table is read with columns of the same kinds."""
        of_kind: dict[Kind, dict[str, tuple[str, ...]]] = {kind: {} for kind in _KINDS}
        for column in self.columns:
            of_kind[column.kind][column.name] = column.categories
        levels = of_kind["category"] | of_kind["boolean"]
        return TableOptions(
            id=self.id or AUTO,
            categorical=[*of_kind["category"]],
            ordinal=of_kind["ordinal"],
            features=self.names,
            levels=levels,
        )


def agree(reports: Reports, id_column: str, lacking: str, client_names: Mapping[int, str]) -> Schema:
    """Return the common schema of all clients' tables, from their reports.

    `id_column` names the column that names rows; "auto" is to recognise it, "none" if there is none. `lacking` says
    what happens to a column that a client lacks, or of which all its cells are empty: "drop" or "impute".
    `client_names` are for error messages. Raises FedkinError if a column holds something else at one client than at
    another, the named id does not exist, or no column is left; one line for each problem.
    """
    schema, problems = _agreed(reports, id_column, lacking, client_names)
    if not schema.columns and not problems:
        bare = [client for client, own in reports.items() if not any(report.filled for report in own.values())]
        if 0 < len(bare) < len(reports):
            raise FedkinError(
                f"All cells of {_clients(bare, client_names)} are empty; leave {'it' if len(bare) == 1 else 'them'} "
                "out."
            )
        problems.append("No column is left to compare samples by: " + " ".join(shortened(schema.notes)))
    refuse(problems)
    return schema


def _agreed(
    reports: Reports, id_column: str, lacking: str, client_names: Mapping[int, str]
) -> tuple[Schema, list[str]]:
    """Return the common schema, which may have no columns, and a sentence for each problem."""
    names = list(dict.fromkeys(name for own in reports.values() for name in own))
    columns, problems = list[SchemaColumn](), list[str]()
    if id_column not in (AUTO, NO_ID) and id_column not in names:
        problems.append(str(unknown_name("id column", id_column, names)))
    row_id = {AUTO: _likeliest_id(reports, names), NO_ID: None}.get(id_column, id_column)
    unlike: dict[tuple[str, str], list[str]] = {}
    truths: dict[str, list[str]] = {}
    absent: dict[str, list[str]] = {}
    ids, texts, rare, empty = list[str](), list[str](), list[str](), list[str]()
    numbers: set[str] = set()
    for name in names:
        own = {client: columns_[name] for client, columns_ in reports.items() if name in columns_}
        filled = {client: report for client, report in own.items() if report.filled}
        kinds = {report.kind for report in filled.values()}
        if name == id_column:
            continue
        if filled and id_column != NO_ID and all(report.unique for report in filled.values()):
            row_id = row_id or name
            (ids if name == row_id else texts).append(name)
            numbers |= {name} if kinds == {"number"} else set()
        elif not filled:
            empty.append(name)
        elif len(filled) < len(reports) and lacking == "drop":
            without = [client for client in reports if client not in filled]
            listed = _clients(without, client_names).split(" ", 1)[1]
            absent.setdefault(f"{len(without)} of {len(reports)} clients ({listed})", []).append(name)
        elif not _fit_together(kinds):
            said = _kinds_in_words(filled, client_names), _advice_on_kinds(filled)
            unlike.setdefault(said, []).append(name)
        elif (column := _united(name, kinds, filled)) is None:
            problems.append(_on_levels(name, [report.categories for report in filled.values()]))
        elif column.kind == "category" and not column.categories:
            rare.append(name)
        else:
            columns.append(column)
            if column.may_be_truth:
                truths.setdefault(_kinds_in_words(filled, client_names), []).append(name)
    notes = [
        *_notes_on_ids(ids, texts, numbers),
        *(
            [f"{_columns(rare, 'has', 'have')} no value that is frequent enough at any client, so {_left_out(rare)}."]
            * bool(rare)
        ),
        *(f"{_columns(own, 'differs', 'differ')} in kind: {said}; 1 counts as true." for said, own in truths.items()),
        *([f"{_columns(empty, 'is', 'are')} empty at all clients, so {_left_out(empty)}."] * bool(empty)),
        *(
            f"{_columns(own, 'is', 'are')} empty or absent at {where}, so {_left_out(own)}; "
            f"{option('lacking', 'impute')} keeps {'it' if len(own) == 1 else 'them'}."
            for where, own in absent.items()
        ),
    ]
    for (said_kinds, advice), own_names in unlike.items():
        wanted = advice.format(
            **({"it": "it", "its": "its"} if len(own_names) == 1 else {"it": "them", "its": "their"})
        )
        problems.append(f"{_columns(own_names, 'differs', 'differ')} in kind: {said_kinds}. {wanted}")
    return Schema(tuple(columns), row_id, notes), problems


def _fit_together(kinds: Set[Kind]) -> bool:
    return len(kinds) < 2 or any(kinds <= pair for pair in _TOGETHER)


def _united(name: str, kinds: Collection[Kind], reports: Mapping[int, ColumnReport]) -> SchemaColumn | None:
    """Return the common column of all reports; ``None`` if the levels of an ordinal one have no common order.

    Columns of numbers that are truth values at some clients are numbers with the categories of these, until sums show
    whether all are 0 or 1; see `settled`.
    """
    levels = [report.categories for report in reports.values()]
    kind = next((one for one in ("category", "number") if one in kinds), next(iter(kinds)))
    if kind in MEASURED:
        return SchemaColumn(name, kind, next(filter(None, levels), ()))
    if kind == "ordinal":
        united = in_one_order(levels)
        return None if united is None else SchemaColumn(name, kind, united)
    if kind == "category":
        return SchemaColumn(name, kind, tuple(in_order(level for own in merged_wholes(levels) for level in own)))
    return SchemaColumn(name, kind, levels[0])


def in_one_order(levels: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """Return all levels in the one order that agrees with each given one; ``None`` if there is none, or several.

    So is 4, 5, 6, 8 for 4, 6, 8 and 4, 5, 6, 8.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter({name: () for own in levels for name in own})
    for own in levels:
        for low, high in pairwise(own):
            sorter.add(high, low)
    ordered = list[str]()
    try:
        sorter.prepare()
    except CycleError:
        return None
    while sorter.is_active():
        ready = sorter.get_ready()
        if len(ready) > 1:
            return None
        ordered += ready
        sorter.done(*ready)
    return tuple(ordered)


def _likeliest_id(reports: Reports, names: Sequence[str]) -> str | None:
    """Return the first column whose name is like that of an id and whose values differ in every row."""
    for name in filter(is_called_id, names):
        filled = [own[name] for own in reports.values() if name in own and own[name].filled]
        if filled and all(report.unique for report in filled):
            return name
    return None


def without(schema: Schema, dropped: Iterable[str], *notes: str) -> Schema:
    """Return a schema without some columns, which are given by name, and with the reason as notes.

    Raises FedkinError if no column is left.
    """
    gone = set(dropped)
    columns = tuple(column for column in schema.columns if column.name not in gone)
    if not columns:
        raise FedkinError(f"No column is left to compare samples by: {' '.join(notes)}")
    return Schema(columns, schema.id, [*schema.notes, *notes])


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


def _clients(clients: Sequence[int], names: Mapping[int, str]) -> str:
    return clients_in_words([names.get(client, str(client)) for client in clients])


def _kinds_in_words(reports: Mapping[int, ColumnReport], names: Mapping[int, str]) -> str:
    """Return which kind a column is at which clients, with an example of a category."""
    levels = [level for own in reports.values() if own.kind == "category" for level in own.categories]
    words = [level for level in levels if not NUMBER.fullmatch(level) or LEADING_ZERO.match(level)]
    has_numbers = any(own.kind == "number" for own in reports.values())
    example = next(iter(words or ([] if has_numbers else levels)), None)
    said = []
    for kind in sorted({own.kind for own in reports.values()}):
        where = _clients([client for client, own in reports.items() if own.kind == kind], names)
        such_as = f" such as '{example}'" if kind == "category" and example is not None else ""
        said.append(f"{kind}{such_as} at {where}")
    return "; ".join(said)


def _advice_on_kinds(reports: Mapping[int, ColumnReport]) -> str:
    """Return what to do with a column whose kinds differ, in sentences with places for it and its."""
    kinds = {own.kind for own in reports.values()}
    levels = [level for own in reports.values() for level in own.categories]
    kept = option("categorical")
    if kinds == {"category", "number"} and levels and all(map(LEADING_ZERO.match, levels)):
        return f"Numbers with leading zeros are codes, so name {{it}} in {kept}, or in {option('drop')}."
    if kinds == {"category", "ordinal"}:
        return (
            f"Name {{its}} levels in {option('ordinal')}, from the lowest to the highest, or write {{it}} in one way."
        )
    if "number" in kinds and kinds <= {"category", "ordinal", "number"}:
        return (
            f"Write {{it}} in one way, as numbers if {{its}} values have an order; name {{it}} in {kept} only if "
            f"{{its}} numbers are codes, or in {option('drop')}."
        )
    if kinds == {"date", "number"}:
        return f"Write {{it}} in one way, as dates such as 2024-12-31, or name {{it}} in {option('drop')}."
    return f"Write {{it}} in one way, or name {{it}} in {kept}, or in {option('drop')}."


def _on_levels(name: str, levels: Sequence[Sequence[str]]) -> str:
    other = next(own for own in levels if own != levels[0])
    return (
        f"Column '{name}' has levels {', '.join(levels[0])} at one client and {', '.join(other)} at another; name them "
        f"in {option('ordinal')}."
    )


def _columns(names: Sequence[str], singular: str, plural: str) -> str:
    quoted = listing([f"'{name}'" for name in names], _NAMED)
    return f"Column {quoted} {singular}" if len(names) == 1 else f"Columns {quoted} {plural}"


def _left_out(names: Sequence[str]) -> str:
    return "it is left out" if len(names) == 1 else "they are left out"


def _notes_on_ids(ids: Sequence[str], texts: Sequence[str], numbers: Collection[str]) -> list[str]:
    """Return notes on columns that name the rows or say whose they are, and on others that are nearly all different.

    Only those that are `numbers` can be features: no category of the others is frequent enough to leave a client.
    """
    notes = []
    whose = [*ids, *filter(is_called_whose, texts)]
    others = [name for name in texts if name not in whose]
    for names, one, several in (
        (whose, "names the rows or says whose they are", "name the rows or say whose they are"),
        (others, "is different in nearly every row", "are different in nearly every row"),
    ):
        kept = [f"'{name}'" for name in names if name in numbers]
        keeps = f"; id = 'none' keeps {listing(kept, _NAMED)}" if kept else ""
        if names:
            notes.append(f"{_columns(names, one, several)}, so {_left_out(names)}{keeps}.")
    return notes


def is_place(reports: Collection[ColumnReport]) -> bool:
    """Return whether each client reports one category of a column, and no two the same.

    A column that a user has named in `categorical` is a feature.
    """
    own = [report.categories for report in reports]
    return len(set(own)) == len(own) > 1 and all(
        report.kind == "category" and len(report.categories) == 1 and not report.asked for report in reports
    )


def aligned(table: Table, columns: Sequence[SchemaColumn], where: str, imputes: bool) -> Tensor:
    """Return a table's values in the order and categories of a schema's columns, float64 ``(n, columns)``.

    Names may differ in spelling, see `with_names`. Categories are indices into the schema's, and their number where a
    category is none of these, as of `as_known`; an unknown level of an ordinal column counts as empty. Raises
    FedkinError if the table lacks columns and nothing `imputes` them, or they are of another kind; a line for each,
    whose public part names columns and kinds alone.
    """
    table = with_names(table, [(one.name, one.kind) for one in columns])
    at = {name: position for position, name in enumerate(table.names)}
    lacking = [] if imputes else [column.name for column in columns if column.name not in at]
    problems = _lacking(lacking, table.names, where)
    padded = torch.cat([table.values, torch.full((len(table), 1), torch.nan, dtype=torch.float64)], 1)
    values = padded[:, [at.get(column.name, -1) for column in columns]]
    for position, column in enumerate(columns):
        if column.name not in at:
            continue
        own = table.columns[at[column.name]]
        same_values = own.kind not in ("ordinal", "category") or own.categories == column.categories
        if (own.kind == column.kind and same_values) or bool((empty := values[:, position].isnan()).all()):
            continue
        if {own.kind, column.kind} == {"boolean", "number"}:
            problems += _no_truths(values[:, position], column, where)
            continue
        if not own.is_coded or column.kind not in ("category", "ordinal"):
            wanted = IN_WORDS[column.kind]
            problems.append(_other_kind(column, where, IN_WORDS[own.kind], _such_as(own, column), wanted))
            continue
        index = {name: float(code) for code, name in enumerate(column.categories)}
        unknown = float(len(index)) if column.kind == "category" else torch.nan
        meant = [as_known(name, index) for name in own.categories]
        codes = torch.tensor([unknown if name is None else index[name] for name in meant], dtype=torch.float64)
        known = values[:, position].nan_to_num(0.0).long()
        values[:, position] = torch.where(empty, torch.nan, codes[known])
    refuse(problems)
    return values


def _lacking(names: Sequence[str], has: Sequence[str], where: str) -> list[FedkinError]:
    """Return a sentence on columns that a table lacks, and one for each that it has in another spelling."""
    meant = {name: spelt_as(name, has) for name in names}
    problems = [
        f"{where} has no column '{name}', which the clients' tables have; rename its column '{own}' if that is meant."
        for name, own in meant.items()
        if own
    ]
    rest = [f"'{name}'" for name, own in meant.items() if not own]
    if rest:
        columns = "columns" if len(rest) > 1 else "column"
        problems.append(f"{where} has no {columns} {listing(rest)}, which the clients' tables have.")
    return [FedkinError(problem, public=True) for problem in problems]


def _other_kind(column: SchemaColumn, where: str, kind: str, values: str, wanted: str) -> FedkinError:
    """Return an error on a column that is of another kind; the `values` in its sentence are not public."""

    def sentence(kind: str) -> str:
        return (
            f"Column '{column.name}' of {mid_sentence(where)} holds {kind}; in the clients' tables it holds {wanted}."
        )

    return FedkinError(sentence(kind + values), sentence(kind))


def _no_truths(values: Tensor, column: SchemaColumn, where: str) -> list[FedkinError]:
    """Return a sentence if the values of a column of truth values are numbers other than 0 to 1."""
    known = values[~values.isnan()]
    if column.kind == "number" or bool(((known >= 0) & (known <= 1)).all()):
        return []
    ends = f" from {float(known.min()):.15g} to {float(known.max()):.15g}"
    return [_other_kind(column, where, "numbers", ends, "truth values")]


def _such_as(own: Column, column: SchemaColumn) -> str:
    """Return an example of a category that is no value of the schema's column."""
    known = {level.casefold() for level in column.categories}
    example = next(
        (level for level in own.categories if own.kind == "category" and level.casefold() not in known), None
    )
    return "" if example is None else f" such as '{example}'"
