"""Preparation of a federation's data: clients agree on one schema, one encoding and one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, client_task, task
from fedkin.core.errors import RefusalError, listing, refuse
from fedkin.core.replies import Array, Expected, Nullable, doubles, is_flag, is_list, is_text, objection, one_of
from fedkin.core.table import MAX_CATEGORIES
from fedkin.data.preparing.array_ranges import notes_on_arrays
from fedkin.data.preparing.column_reports import MIN_MEMBERS
from fedkin.data.preparing.encoding.client_sums import sums_of_columns
from fedkin.data.preparing.encoding.encoding import Mode, TableEncoding
from fedkin.data.preparing.encoding.encoding_fit import fitted_encoding
from fedkin.data.preparing.encoding.outliers import unlimited
from fedkin.data.preparing.encoding.scaling import (
    Scaling,
    moments,
    scale_arrays,
    scale_arrays_by_sums,
    shapes,
    table_columns,
)
from fedkin.data.preparing.encoding.statistics import ColumnSums, are_columns, secure_sums
from fedkin.data.preparing.new_rows import ends_outward
from fedkin.data.preparing.notes.category_notes import note_on_apart_categories, notes_on_categories
from fedkin.data.preparing.notes.category_rows import CategoryRows, rows_by_column
from fedkin.data.preparing.notes.column_notes import notes_on_codes, wrong_truths
from fedkin.data.preparing.notes.other_scales import notes_on_other_scales
from fedkin.data.preparing.notes.range_notes import notes_on_ranges
from fedkin.data.preparing.preparation import STATE, Preparation, remember
from fedkin.data.preparing.preparing_options import Imputation, PreparingOptions
from fedkin.data.preparing.schema.column_spellings import in_common_spelling
from fedkin.data.preparing.schema.schema import (
    Reports,
    Schema,
    SchemaColumn,
    agree,
    reports_by_name,
    settled,
    shortened,
    without,
)
from fedkin.data.preparing.schema.schema_notes import (
    note_on_coded_numbers,
    note_on_marks,
    note_on_only_column,
    note_on_persons,
    note_on_places,
    note_on_recurring_ids,
    places,
)
from fedkin.data.reading.arrays import common_shape
from fedkin.secure_aggregation.sums import check_enough


def prepare(fed: Federation, options: PreparingOptions | None = None, names: Sequence[str] = ()) -> Preparation:
    """Prepare all clients' data in the same way, as if they had been pooled; call it once per federation.

    Arrays: clients send count, sum, minimum and maximum of each column or channel, then the sum of squared distances
    from the common mean. Tables: clients send these, and for each column its name, its kind, and the names of
    categories that are frequent enough; then the squares and the frequencies of all categories, and, where cells are
    empty, histograms that medians are read from. Empty cells are imputed at the clients. With secure sums the server
    learns the sums over clients only, and the columns of each client.

    The clients' `x` is replaced. `names` are the clients', in order of id, for notes and errors. Raises FedkinError if
    arrays differ in shape, columns in kind, no column can be used, a client cannot be reached, or the data are prepared
    already. Of tables, all problems are reported at once, one in a line.
    """
    options = options or PreparingOptions()
    if fed.secure_sums and options.scaling == "auto":
        raise FedkinError("Scaling 'auto' needs minima and maxima; with secure sums it must be 'standard' or 'none'.")
    question: Payload = {} if options.min_members == MIN_MEMBERS else {"min_members": options.min_members}
    sparing = options.scaling == "none" or fed.secure_sums
    unscaled: Payload = {"unscaled": True} if options.scaling == "none" else {}
    replies = fed.agreeing(
        fed.ask_until_all_reply(shapes if sparing else moments, unscaled if sparing else question), "scaled"
    )
    if any(reply["scaled"] for reply in replies.values()):
        raise FedkinError("The clients' data are scaled already; make a new federation to scale them again.")
    called = {client: names[client] if client < len(names) else str(client) for client in replies}
    tables = [client for client, reply in replies.items() if "names" in reply]
    if not tables:
        prepared = _prepared_arrays(fed, options.scaling, replies, called)
        return prepared.noted(_not_covered(options, "")) if options.scaling != "none" else prepared
    if len(tables) < len(replies):
        other = next(client for client in replies if client not in tables)
        raise FedkinError(
            f"Client {called[other]} has an array, but client {called[tables[0]]} a table with named columns; all "
            "clients need the same."
        )
    if options.scaling == "none" and _all_plain(replies):
        return _arranged(fed, next(iter(replies.values()))["names"])
    if fed.secure_sums:
        check_enough(len(fed.present))
        replies = fed.ask_until_all_reply(table_columns, question)
    elif sparing:
        replies = fed.ask_until_all_reply(moments, question)
    return _prepared_tables(fed, options, replies, called).noted(_not_covered(options, ", and names of categories"))


def _not_covered(options: PreparingOptions, more: str) -> list[str]:
    """Return a note on what clients have sent for the preparation where a method's guarantee does not cover that."""
    if not options.private:
        return []
    return [
        "The privacy guarantee does not cover the preparation of the data, for which clients sent statistics such as "
        f"minima and maxima{more}; scale numbers to [0, 1] by public ones before, and set scaling = 'none'."
    ]


_ENCODING: Expected = {
    "columns": are_columns, "id": Nullable(is_text), "notes": is_list(lambda note: isinstance(note, str)),
    "mode": one_of(*get_args(Mode)), "imputes": is_flag, "imputation": one_of(*get_args(Imputation)),
    "low": doubles("columns"), "high": doubles("columns"),
    "fill": doubles("columns"), "mean": doubles("width"), "scale": doubles("width", minimum=0),
    "other": Array(("columns",), torch.bool), "indicated": Array(("columns",), torch.bool),
}  # fmt: skip


def _is_encoding(value: Any) -> bool:
    """Return whether a value is the tree of a `TableEncoding`, with consistent lengths."""
    if objection({"encoding": value}, {"encoding": _ENCODING}) is not None:
        return False
    columns, width = len(value["columns"]), len(value["mean"])
    if len(value["fill"]) != columns:
        return False
    blocks = TableEncoding.from_tree(value).blocks
    return (blocks[-1][2] if blocks else 0) == width


@client_task(takes={"encoding": _is_encoding})
def encode_table(client: Client, payload: Payload) -> Payload:
    """Encode the client's table and keep the encoding in its state; a second request does nothing.

    Raises RefusalError if the table does not fit the encoding, as it never will.
    """
    if STATE not in client.state:
        try:
            remember(client, TableEncoding.from_tree(payload["encoding"]))
        except FedkinError as error:
            del client.state[STATE]
            raise RefusalError(str(error), error.public) from error
    return {}


def _is_arrangement(value: Any) -> bool:
    """Return whether a value is the tree of a `TableEncoding` that only puts columns of numbers in order."""
    return _is_encoding(value) and value["mode"] == "none" and all(kind == "number" for _, kind, _ in value["columns"])


@task(takes={"encoding": _is_arrangement}, accounted=True)
def arrange_columns(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Put the columns of the client's table in a common order, unscaled; allowed under a privacy budget.

    Nothing is released: whether the site refuses depends on names and kinds of its columns alone, since only numbers
    are asked for. Private tasks clip each row themselves, whatever limits a server sends, and no row has an effect on
    others.
    """
    alone = [{"encoding": {**payload["encoding"], "imputation": "median"}} for payload in payloads]
    return encode_table.run(clients, alone)


def _prepared_arrays(
    fed: Federation, mode: str, replies: Mapping[int, Payload], called: Mapping[int, str]
) -> Preparation:
    replies = fed.agreeing(replies)
    shape = common_shape(replies)
    if mode == "none":
        return Preparation(Scaling("none", shape, torch.zeros(shape[0]).double(), torch.ones(shape[0]).double()))
    if fed.secure_sums:
        check_enough(len(fed.present))
        return Preparation(scale_arrays_by_sums(fed, shape))
    scaling, notes = scale_arrays(fed, mode, replies)
    questions = notes_on_arrays({called[client]: (reply["min"], reply["max"]) for client, reply in replies.items()})
    lowest = torch.stack([reply["min"] for reply in replies.values()]).amin(0)
    highest = torch.stack([reply["max"] for reply in replies.values()]).amax(0)
    reach = ends_outward(lowest, highest)
    return Preparation(scaling, notes=[*questions, *notes], questions=tuple(questions), reach=reach)


def _all_plain(replies: Mapping[int, Payload]) -> bool:
    """Return whether all clients have the same columns, of numbers without empty cells."""
    known = sorted(next(iter(replies.values()))["names"])
    return all(reply["plain"] and sorted(reply["names"]) == known for reply in replies.values())


def _arranged(fed: Federation, names: Sequence[str]) -> Preparation:
    """Prepare tables of numbers by putting their columns in a common order, without scaling."""
    schema = Schema(tuple(SchemaColumn(name, "number") for name in names))
    width = len(names)
    no = torch.zeros(width, dtype=torch.bool)
    zeros, ones = torch.zeros(width, dtype=torch.float64), torch.ones(width, dtype=torch.float64)
    encoding = TableEncoding(schema, "none", *unlimited(width), zeros, zeros, ones, no, no)
    fed.ask_until_all_reply(arrange_columns, {"encoding": encoding.tree()})
    return Preparation(encoding=encoding)


def _prepared_tables(
    fed: Federation, options: PreparingOptions, replies: Mapping[int, Payload], called: Mapping[int, str]
) -> Preparation:
    replies, spelt = in_common_spelling(replies)
    reports = {client: reports_by_name(reply) for client, reply in replies.items()}
    schema = agree(reports, options.id, options.lacking, called)
    schema.notes.extend(spelt)
    agreed = [column.name for column in schema.columns]
    by_name: dict[str, Payload] = {}
    own: dict[str, Tensor] = {}
    rows: dict[str, dict[str, CategoryRows]] = {}
    if fed.secure_sums:
        sums = secure_sums(fed, schema.columns)
    else:
        sums, squares, counts = sums_of_columns(fed, schema.columns, replies)
        replies = {client: reply for client, reply in replies.items() if client in squares}  # who did not fail since
        by_name = {called[client]: reply for client, reply in replies.items()}
        refuse(wrong_truths([column.name for column in schema.columns if column.may_be_truth], by_name))
        own = {called[client]: squares[client] for client in replies}
        categories = {column.name: column.categories for column in schema.columns if column.kind == "category"}
        rows = rows_by_column(categories, {called[one]: dict(zip(agreed, counts[one], strict=True)) for one in counts})
    schema = settled(schema, sums.all_truths)
    schema, sums = _without_places(schema, sums, reports)
    if options.lacking == "drop":
        schema, sums = _mostly_filled(schema, sums)
    kept = _notes_on_kept(schema, agreed, sums, by_name, own, rows)
    schema.notes.extend(kept)
    schema, sums = _most_frequent(schema, sums)
    # Clients get it, but what is noted of others is not for them.
    silent = replace(schema, notes=[], apart=(), reported={}, questions=())
    encoding, notes = fitted_encoding(fed, silent, sums, options)
    fed.ask_until_all_reply(encode_table, {"encoding": encoding.tree()})
    features = {name for own in reports.values() for name in own if name != schema.id}
    alone = note_on_only_column([column.name for column in schema.columns], features)
    said = [*shortened(schema.notes), *alone, *notes]
    reach = ends_outward(sums.low, sums.high)
    return Preparation(encoding=encoding, notes=said, questions=(*schema.questions, *kept), reach=reach)


def _notes_on_kept(
    schema: Schema,
    agreed: Sequence[str],
    sums: ColumnSums,
    replies: Mapping[str, Mapping[str, Any]],
    squares: Mapping[str, Tensor],
    rows: Mapping[str, Mapping[str, CategoryRows]],
) -> list[str]:
    """Return notes on columns that differ from client to client, and are not left out; the clients are given by name.

    `squares` are by the columns that were `agreed` on, `sums` by those of the schema, and `rows` by column and client.
    With secure sums there are no `replies`, `squares` and `rows`, and no notes on numbers.
    """
    columns = schema.columns
    at = [place for place, column in enumerate(columns) if column.kind in ("number", "date")]
    names = [columns[place].name for place in at]
    numbers, dates = ([column.name for column in columns if column.kind == kind] for kind in ("number", "date"))
    places = {name: place for place, name in enumerate(agreed)}
    own = {client: found[[places[name] for name in names]] for client, found in squares.items()}
    return [
        *notes_on_categories(schema.reported, rows),
        *note_on_apart_categories(schema.apart, schema.reported, rows),
        *note_on_recurring_ids(numbers),
        *note_on_persons(column.name for column in columns if column.kind == "category"),
        *note_on_coded_numbers(numbers, replies),
        *notes_on_ranges(names, replies, dates, sums.mean[at], own),
        *notes_on_codes(names, sums.mean[at], replies, own),
        *notes_on_other_scales(numbers, replies),
    ]


def _without_places(schema: Schema, sums: ColumnSums, reports: Reports) -> tuple[Schema, ColumnSums]:
    """Return schema and sums without columns that say at which client a row is, unless no other is left."""
    names = [column.name for column in schema.columns]
    dropped, apart = places(names, sums.counts, reports)
    if len(dropped) == len(names):
        dropped, apart = [], dropped
    schema = replace(schema, apart=(*schema.apart, *apart))
    if not dropped:
        return schema, sums
    kept = [at for at, name in enumerate(names) if name not in dropped]
    return without(schema, dropped, note_on_places(dropped)), sums.of(kept)


def _mostly_filled(schema: Schema, sums: ColumnSums) -> tuple[Schema, ColumnSums]:
    """Return schema and sums of the columns that are at least half filled; the others are dropped with a note."""
    dropped = {
        column.name: sums.samples - int(filled)
        for column, filled in zip(schema.columns, sums.filled.tolist(), strict=True)
        if 2 * filled < sums.samples
    }
    if not dropped:
        return schema, sums
    ticked = [
        column.name
        for column, counts in zip(schema.columns, sums.counts, strict=True)
        if column.name in dropped and column.kind == "category" and (counts > 0).sum() == 1
    ]
    marked = {name: dropped.pop(name) for name in ticked}
    notes = [
        *note_on_marks(ticked),
        *_note_on_empty(marked, sums.samples, "."),
        *_note_on_empty(dropped, sums.samples, f"; lacking = 'impute' keeps {'it' if len(dropped) == 1 else 'them'}."),
    ]
    gone = {*marked, *dropped}
    kept = [at for at, column in enumerate(schema.columns) if column.name not in gone]
    return without(schema, gone, *notes), sums.of(kept)


def _note_on_empty(dropped: Mapping[str, int], rows: int, end: str) -> list[str]:
    """Return a note on columns that are left out, if any, with their numbers of empty cells; `end` ends it."""
    if not dropped:
        return []
    if len(dropped) == 1:
        [(name, count)] = dropped.items()
        return [f"Column '{name}' is empty in {count:,} of {rows:,} rows, so it is left out{end}"]
    listed = listing([f"'{name}' ({count:,})" for name, count in dropped.items()])
    return [f"Columns {listed} are empty in more than half of {rows:,} rows, so they are left out{end}"]


def _most_frequent(schema: Schema, sums: ColumnSums) -> tuple[Schema, ColumnSums]:
    """Return schema and sums with the most frequent categories alone, in columns that have very many."""
    columns, kept = [], []
    for column, counts in zip(schema.columns, sums.counts, strict=True):
        codes = list(range(len(column.categories)))
        if len(counts) > MAX_CATEGORIES + 1:
            codes = sorted(counts[:-1].argsort(descending=True, stable=True)[:MAX_CATEGORIES].tolist())
        columns.append(replace(column, categories=tuple(column.categories[code] for code in codes)))
        kept.append(codes)
    return replace(schema, columns=tuple(columns)), sums.pooled(kept)
