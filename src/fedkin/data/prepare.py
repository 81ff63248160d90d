"""Preparation of a federation's data: clients agree on one schema, encoding and scale, also those that join late."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, get_args

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, Task, client_task, task
from fedkin.core.doors import option, setting
from fedkin.core.errors import RefusalError, listing, refuse
from fedkin.core.replies import (
    Array,
    Expected,
    Nullable,
    common_shape,
    doubles,
    is_flag,
    is_list,
    is_text,
    lasts,
    objection,
    one_of,
)
from fedkin.core.table import MAX_CATEGORIES
from fedkin.data.cells import merged_wholes
from fedkin.data.checks import check_arrays, check_columns, check_names, column_moments
from fedkin.data.encoding import Imputation, Mode, PreparingOptions, TableEncoding, fitted_encoding
from fedkin.data.preparation import STATE, Preparation, remember, restore_preparation
from fedkin.data.scaling import Scaling, ends_outward, rescale, scale_arrays, scale_arrays_by_sums, unlimited
from fedkin.data.schema import (
    MIN_MEMBERS,
    Reports,
    Schema,
    SchemaColumn,
    agree,
    clients_in_words,
    in_common_spelling,
    is_place,
    reports_by_name,
    settled,
    shortened,
    without,
)
from fedkin.data.statistics import (
    ColumnSums,
    are_columns,
    is_prepared,
    moments,
    secure_sums,
    shapes,
    sums_of_columns,
    table_columns,
)
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
    replies = fed.keep_majority(
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
        f"minima and maxima{more}; scale numbers to [0, 1] by public ones before, and {setting('scaling', 'none')}."
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
    replies = fed.keep_majority(replies)
    shape = common_shape(replies)
    if mode == "none":
        return Preparation(Scaling("none", shape, torch.zeros(shape[0]).double(), torch.ones(shape[0]).double()))
    if fed.secure_sums:
        check_enough(len(fed.present))
        return Preparation(scale_arrays_by_sums(fed, shape))
    scaling, notes = scale_arrays(fed, mode, replies)
    questions = check_arrays({called[client]: (reply["min"], reply["max"]) for client, reply in replies.items()})
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
    agreed = schema.columns
    squares: dict[int, Tensor] = {}
    counts: dict[int, list[Tensor]] = {}
    if fed.secure_sums:
        sums = secure_sums(fed, agreed)
    else:
        sums, squares, counts = sums_of_columns(fed, agreed, replies)
        replies = {client: reply for client, reply in replies.items() if client in squares}  # who did not fail since
        _check_truths(agreed, replies, called)
    center = sums.mean
    schema = settled(schema, sums.all_truths)
    schema, sums = _without_places(schema, sums, reports)
    if options.lacking == "drop":
        schema, sums = _mostly_filled(schema, sums)
    kept = {column.name: column for column in schema.columns}
    numbers = column_moments(
        [column.name for column in agreed],
        center,
        {called[client]: reply for client, reply in replies.items()} if squares else {},
        {called[client]: own for client, own in squares.items()},
    )
    questions = [
        *check_names({client: own.keys() for client, own in reports.items()}, options.lacking == "drop"),
        *check_columns(
            {name: column.kind for name, column in kept.items()},
            {name: own for name, own in numbers.items() if name in kept and kept[name].kind != "category"},
            {name: _reported(name, reports, called) for name, column in kept.items() if column.kind == "category"},
            _rows_by_level(kept, agreed, counts, called),
        ),
    ]
    schema, sums = _most_frequent(schema, sums)
    encoding, notes = fitted_encoding(fed, replace(schema, notes=[]), sums, options)  # clients get it, but no notes
    fed.ask_until_all_reply(encode_table, {"encoding": encoding.tree()})
    features = {name for own in reports.values() for name in own if name != schema.id}
    if len(kept) == 1 and len(features) > 2:
        notes.append(f"Only '{next(iter(kept))}' is compared: every other column is left out.")
    said = [*shortened([*schema.notes, *questions]), *notes]
    reach = ends_outward(sums.low, sums.high)
    return Preparation(encoding=encoding, notes=said, questions=tuple(questions), reach=reach)


def _check_truths(columns: Sequence[SchemaColumn], replies: Mapping[int, Payload], called: Mapping[int, str]) -> None:
    """Check that columns which are truth values at some clients hold numbers from 0 to 1 at the others."""
    problems = []
    for name in [column.name for column in columns if column.may_be_truth]:
        beyond = [
            called[client]
            for client, reply in replies.items()
            if name in reply["names"]
            and (float(reply["min"][(at := reply["names"].index(name))]) < 0 or float(reply["max"][at]) > 1)
        ]
        if beyond:
            problems.append(
                f"Column '{name}' holds truth values at some clients, but other numbers than 0 to 1 at "
                f"{clients_in_words(beyond)}; write it in one way, or name it in {option('drop')}."
            )
    refuse(problems)


def _reported(name: str, reports: Reports, called: Mapping[int, str]) -> dict[str, list[str]]:
    """Return the categories that each client reports of a column, by the client's name."""
    own = {called[client]: columns[name].categories for client, columns in reports.items() if name in columns}
    return dict(zip(own, merged_wholes([*own.values()]), strict=True))


def _rows_by_level(
    kept: Collection[str],
    columns: Sequence[SchemaColumn],
    counts: Mapping[int, Sequence[Tensor]],
    called: Mapping[int, str],
) -> dict[str, dict[str, dict[str, float]]]:
    """Return by column and client how many rows are in each category, where known; "" stands for all others."""
    return {
        column.name: {
            called[client]: dict(zip([*column.categories, ""], own[at].tolist(), strict=True))
            for client, own in counts.items()
        }
        for at, column in enumerate(columns)
        if counts and column.name in kept and column.kind == "category"
    }


def _without_places(schema: Schema, sums: ColumnSums, reports: Reports) -> tuple[Schema, ColumnSums]:
    """Return schema and sums without columns that say at which client a row is, unless no other is left.

    They have one category at each client, and no rare ones, which stand last in the counts.
    """
    dropped = [
        name
        for name, counts in zip(schema.names, sums.counts, strict=True)
        if is_place([own[name] for own in reports.values() if name in own and own[name].filled])
        and not float(counts[-1])
    ]
    if not dropped or len(dropped) == len(schema.columns):
        return schema, sums
    quoted = listing([f"'{name}'" for name in dropped], 8)
    has, says, them = f"Column {quoted} has", "it says where a row comes from and is", "it"
    if len(dropped) > 1:
        has, says, them = f"Columns {quoted} have", "they say where a row comes from and are", "them"
    note = (
        f"{has} one value at each client and another at every other, so {says} left out; name {them} in "
        f"{option('categorical')} to keep {them}."
    )
    kept = [at for at, name in enumerate(schema.names) if name not in dropped]
    return without(schema, dropped, note), sums.of(kept)


def _mostly_filled(schema: Schema, sums: ColumnSums) -> tuple[Schema, ColumnSums]:
    """Return schema and sums of the columns that are at least half filled; the others are dropped with a note."""
    rows = sums.samples
    gone = {
        name: rows - int(filled)
        for name, filled in zip(schema.names, sums.filled.tolist(), strict=True)
        if 2 * filled < rows
    }
    if not gone:
        return schema, sums
    if len(gone) == 1:
        [(name, count)] = gone.items()
        said, it = f"Column '{name}' is empty in {count:,} of {rows:,} rows, so it is left out", "it"
    else:
        listed = listing([f"'{name}' ({count:,})" for name, count in gone.items()])
        said, it = f"Columns {listed} are empty in more than half of {rows:,} rows, so they are left out", "them"
    kept = [at for at, name in enumerate(schema.names) if name not in gone]
    return without(schema, gone, f"{said}; {option('lacking', 'impute')} keeps {it}."), sums.of(kept)


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


def admit_joined_clients(fed: Federation, clients: Sequence[Client], away: Set[int], preparation: Preparation) -> None:
    """Let those of the clients that are no longer `away` take part, with data prepared as everyone's.

    Raises FedkinError if a client that must receive the preparation cannot be reached.
    """
    part = fed.participation
    joined = [i for i in fed.ids if i not in part.joined and i not in part.free and i not in away]
    if joined:
        fed.join(joined)
        prepare_newcomers(fed, [clients[i] for i in joined], preparation)


def prepare_newcomers(fed: Federation, clients: Sequence[Client], preparation: Preparation) -> None:
    """Prepare the freshly loaded data of clients that have just joined, as everyone else's were.

    A client whose state has the preparation does it itself, as in a resumed run. Others receive it. Raises FedkinError
    if one cannot be reached.
    """
    new = [client.id for client in clients if not is_prepared(client)]
    for client in clients:
        restore_preparation(client)
    if new and (asked := _for_newcomers(preparation)):
        fed.ask_until_all_reply(*asked, new)


def prepare_arrivals(fed: Federation, arrived: Collection[int], preparation: Preparation) -> set[int]:
    """Let clients that have arrived take part, once their data are prepared as everyone's.

    Those that do not reply are tried again in the next step. Those whose data cannot be prepared are dropped. Return
    those that take part from now on.
    """
    fed.join(arrived)
    if not (asked := _for_newcomers(preparation)):
        return set(arrived)
    task, payload = asked
    replies = fed.ask(task, dict.fromkeys(sorted(arrived), payload))
    silent = {i for i, reason in replies.missing.items() if not lasts(reason)}
    fed.leave(silent)
    fed.participation.free |= silent
    fed.drop({i: reason for i, reason in replies.missing.items() if i not in silent})
    return set(replies)


def _for_newcomers(preparation: Preparation) -> tuple[Task, Payload] | None:
    """Return the task that prepares a newcomer's data, and its payload; ``None`` if there is nothing to do."""
    if preparation.encoding is not None:
        return encode_table, {"encoding": preparation.encoding.tree()}
    if preparation.scaling is not None and preparation.mode in ("standard", "common"):
        scaling = preparation.scaling
        return rescale, {"mean": scaling.mean, "scale": scaling.scale, **scaling.limits}
    return None
