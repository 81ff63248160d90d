"""Preparation of a federation's data: agreeing on one schema, encoding and scale, and repeating it on new samples.

Clients that join late prepare their data by the same, and so does a client whose run resumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, client_task, task
from fedkin.core.client import MAX_CATEGORIES, Column, Table
from fedkin.core.client_array import ClientArray
from fedkin.core.errors import RefusalError, listing, setting
from fedkin.core.payload import (
    Array,
    Expected,
    Failure,
    ListOf,
    Nullable,
    Optional,
    common_shape,
    doubles,
    from_bytes,
    is_count,
    is_text,
    objection,
    one_of,
    owned,
    reals,
    to_bytes,
)
from fedkin.data import checks
from fedkin.data.columns import (
    ColumnSums,
    Reports,
    Schema,
    agree,
    are_columns,
    is_place,
    moments,
    quoted,
    reports_by_name,
    shapes,
    sum_columns,
    sum_of,
    table_columns,
    text_moments,
)
from fedkin.data.encoding import Encoding, Mode, fit_encoding, in_unit
from fedkin.data.options import AUTO, NO_OPTIONS, Imputation, TableOptions
from fedkin.data.tables import Dataset, plain_numbers
from fedkin.secure_aggregation.sums import check_enough

if TYPE_CHECKING:
    from fedkin.data.population import Population

STATE = "preparation"
"""Key of the encoding of its data in a client's state, uint8."""


@dataclass(frozen=True)
class Preparation:
    """Preparation that turns samples as read into samples as methods see them, by one `encoding`.

    `notes` say in sentences what was done, for the user; `questions` are those on what looks wrong in the data and is
    used as it is. `files` are options of `TableOptions` by which new samples are read as the clients' files were.
    `centres` are those of clusters of tables, float64 ``(k, width)``, from which empty cells of new rows are imputed;
    they are sent to no client. `encoder` is the fingerprint of what has made embeddings of the clients' samples; empty
    where data are numbers.
    """

    encoding: Encoding
    notes: list[str] = field(default_factory=list)
    questions: tuple[str, ...] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    centres: Tensor | None = None
    encoder: str = ""

    def noted(self, notes: Sequence[str], questions: Sequence[str] = ()) -> Self:
        """Return the preparation with these notes on how data were read before its own."""
        return replace(self, notes=[*notes, *self.notes], questions=(*questions, *self.questions))

    @property
    def table(self) -> Encoding | None:
        """The encoding of tables; ``None`` where data are arrays."""
        return None if self.encoding.shape else self.encoding

    @property
    def has_texts(self) -> bool:
        """Whether clients may have texts: samples that were encoded, or columns of a table."""
        return bool(self.encoder or self.encoding.text_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample as methods see it."""
        return self.encoding.shape or (self.encoding.width,)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of prepared tables; empty for arrays."""
        return self.encoding.names

    @property
    def reading(self) -> TableOptions:
        """Options by which a new table is read with columns of the same kinds."""
        schema = self.encoding.schema  # of arrays without columns
        categorical = [column.name for column in schema.columns if column.kind == "category"]
        ordinal = {column.name: list(column.categories) for column in schema.columns if column.kind == "ordinal"}
        texts, row_id = list(self.encoding.text_names), schema.id or AUTO
        return TableOptions(
            id=row_id, categorical=categorical, ordinal=ordinal, text=texts, features=schema.names, **self.files
        )

    def apply(self, x: Any, where: str = "The data given") -> Tensor:
        """Prepare new samples as in training: the float32 tensor ``(n, *shape)`` that models take.

        Parameters
        ----------
        x : array-like
            One client's samples in any form that ``fit`` takes: a DataFrame, an array, a tensor, a file and so on, not
            prepared yet. Labels in them are ignored, and so are columns that the clients' tables did not have. `x`
            itself is not changed.
        where : str
            What to call the samples, at the beginning of error messages.

        Returns
        -------
        Tensor
            float32 ``(n, *shape)``. Empty cells have the value of the cluster that is nearest by the others, or
            where no samples are clustered the median or most frequent value of all clients.

        Raises
        ------
        FedkinError
            If `x` is in no such form, is of another shape than in training, lacks a column or holds something else in
            it, or is a table with names where the clients had arrays and cannot be one of numbers.
        """
        data, where = self.read_again(x, where)
        return self.prepared(data.x, data.table, where)

    def read_again(
        self, x: Any, origin: str, drop: Sequence[str] = (), label: str | None = None
    ) -> tuple[Dataset, str]:
        """Read one client's new samples with columns of the same kinds, and say what to call them.

        They are called `origin`, or by their file; columns to `drop` may be absent, and `label` is as for
        `fedkin.data.inputs.client_data`. Raises FedkinError if they cannot be used.
        """
        from fedkin.data.inputs import client_data  # a run reads by its scenario

        origin = f"'{x}'" if isinstance(x, str | Path) else origin
        read = client_data(x, origin, label, replace(self.reading, drop=[*self.reading.drop, *drop]))
        self.check_encoder(read, origin)
        return read, origin

    def check_encoder(self, data: Dataset, origin: str) -> None:
        """Raise FedkinError if new samples were encoded otherwise than the clients'; numbers may be embeddings."""
        if data.samples is not None and data.samples.encoder != self.encoder:
            raise FedkinError(
                f"{origin} was encoded by {data.samples.encoder}, and the clients' samples by "
                f"{self.encoder or 'nothing'}; it needs the same file and options."
            )

    def prepared(
        self, x: Tensor, table: Table | None = None, origin: str = "The table", donors: Table | None = None
    ) -> Tensor:
        """Prepare samples that were read, float32 ``(n, *shape)``; they themselves are not changed.

        They are an array `x`, or a `table`; an array for a table must be numbers in the order of its columns. `origin`
        names the source, at the beginning of error messages; `donors` are rows of the same client that empty cells are
        imputed from. Raises FedkinError if samples do not fit.
        """
        if self.table is None:
            return self.encoding.scaled(x if table is None else plain_numbers(table, origin))
        schema = self.encoding.schema
        if table is None:
            numbers = x.ndim == 2 and x.shape[1] == len(schema.columns)
            if not numbers or any(column.kind == "category" for column in schema.columns):
                raise FedkinError(
                    f"The samples have shape {tuple(x.shape)} and no names of columns, but the model was made for the "
                    f"columns {quoted(schema.names)}; give a DataFrame or a file with these."
                )
            table = Table(schema.columns, x.double())
        return self.encoding.apply(table, origin, donors, self.centres)

    def of(self, client: Client) -> Tensor:
        """Return a client's data prepared; they must not have been prepared yet."""
        return self.prepared(client.x, client.table, "The client's table", client.table)  # a site does not know its id

    def of_tests(self, population: Population) -> Population:
        """Return the population with `tests` and `common_test` prepared; clients prepare their own data themselves."""
        tests = []
        for i, (x, y) in enumerate(population.tests):
            table = population.clients[i].table
            rows = None if table is None else Table(table.columns, x.double())
            tests.append((self.prepared(x, rows, f"The test part of client {i}", table), y))
        common = population.common_test
        return replace(population, tests=tests, common_test=common and (self.prepared(common[0]), common[1]))

    def tree(self) -> dict[str, Any]:
        """Return the fields, ready for `fedkin.core.payload.pack`."""
        more: dict[str, Any] = {"questions": list(self.questions)} if self.questions else {}
        more |= {"encoder": self.encoder} if self.encoder else {}
        return {"encoding": self.encoding.tree(), "notes": self.notes, **more}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the preparation that `tree` was made of."""
        encoding, questions = Encoding.from_tree(tree["encoding"]), tuple(tree.get("questions", ()))
        return cls(encoding, list(tree["notes"]), questions, encoder=tree.get("encoder", ""))


def encoding_of(state: Mapping[str, Tensor]) -> Encoding | None:
    """Return the encoding of a client's data from its state; ``None`` if there is none."""
    return Encoding.from_tree(from_bytes(state[STATE].numpy().tobytes())) if STATE in state else None


def restore_preparation(client: Client) -> None:
    """Prepare a client's freshly loaded data by the encoding in its state, if any; for resuming."""
    if (encoding := encoding_of(client.state)) is not None:
        client.x = Preparation(encoding).of(client)


# What clients are asked.


_ENCODING: Expected = {
    "columns": are_columns, "id": Nullable(is_text), "notes": ListOf(lambda note: isinstance(note, str)),
    "mode": one_of(*get_args(Mode)), "imputation": one_of(*get_args(Imputation)),
    "mean": doubles("width"), "scale": doubles("width", minimum=0), "limits": doubles(4, "limits"),
    "fill": doubles("columns"), "other": Array(("columns",), torch.bool), "shape": ListOf(is_count),
    "texts": Optional(
        {
            "text_names": ListOf(is_text), "means": reals("texts", "embedded"),
            "directions": reals("texts", "embedded", "shared"),
        }
    ),
}  # fmt: skip


def is_encoding(value: Any) -> bool:
    """Return whether a value is the tree of an `Encoding`, with consistent lengths."""
    if objection({"encoding": value}, {"encoding": _ENCODING}) is not None:
        return False
    encoding, columns = Encoding.from_tree(value), len(value["columns"])
    width, limits = len(encoding.mean), encoding.limits
    if limits.shape[1] not in (0, columns or width) or not bool((limits[3] >= 0).all()):
        return False
    if encoding.shape:
        return not columns and encoding.shape[0] == width
    return 0 < columns == len(encoding.fill) and encoding.blocks[-1][2] == width


def _is_arrangement(value: Any) -> bool:
    """Return whether a value is the tree of an `Encoding` that only puts columns of numbers in order."""
    return is_encoding(value) and value["mode"] == "none" and all(kind == "number" for _, kind, _ in value["columns"])


# Clients of one array are encoded whenever they are read.
@client_task(takes={"encoding": is_encoding}, pool=lambda block, payload: {})
def encode(client: Client, payload: Payload) -> Payload:
    """Encode the client's data and keep the encoding in its state; a second request does nothing.

    Raises RefusalError if the data do not fit the encoding, as they never will.
    """
    if STATE not in client.state:
        try:
            client.x = Preparation(Encoding.from_tree(payload["encoding"])).of(client)
        except FedkinError as error:
            raise RefusalError(str(error), error.public) from error
        client.state[STATE] = torch.frombuffer(bytearray(to_bytes(owned(payload["encoding"]))), dtype=torch.uint8)
    return {}


@task(takes={"encoding": _is_arrangement}, accounted=True)
def arrange_columns(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Put the columns of the client's table in a common order, unscaled; allowed under a privacy budget.

    Nothing is released: whether the site refuses depends on names and kinds of its columns alone, since only numbers
    are asked for. Private tasks clip each row themselves, whatever limits a server sends, and no row has an effect on
    others.
    """
    alone = [{"encoding": {**payload["encoding"], "imputation": "median"}} for payload in payloads]
    return encode.run(clients, alone)


# Agreeing, by exchange.


def prepare(fed: Federation, options: TableOptions = NO_OPTIONS, names: Sequence[str] = ()) -> Preparation:
    """Prepare all clients' data in the same way, as if they had been pooled; call it once per federation.

    Arrays: clients send count, sum, minimum and maximum of each column or channel, then the sum of squared distances
    from the common mean. Tables: clients send these, and for each column its name, its kind, and the names of
    categories that are frequent enough; then the squares and the frequencies of all categories, and, if cells are
    empty, histograms that medians are read from. Empty cells are imputed at the clients. With secure sums the server
    learns the sums over clients only, and the columns of each client. Clients that must not tell extremes send
    quantiles in their place.

    The clients' `x` is replaced. `names` are the clients', in order of id, for notes and errors. Raises FedkinError if
    arrays differ in shape, columns in kind, no column can be used, a client cannot be reached, or the data are prepared
    already. Of tables, all problems are reported at once, one in a line.
    """
    if fed.secure_sums and options.scaling == "auto":
        raise FedkinError("Scaling 'auto' needs minima and maxima; with secure sums it must be 'standard' or 'none'.")
    unscaled = options.scaling == "none"
    sparing, question = unscaled or fed.secure_sums, {"min_members": options.min_members}
    first = shapes if sparing else moments
    replies = fed.ask_until_all_reply(first, {"unscaled": unscaled} if sparing else question)
    replies = fed.keep_majority(replies, "scaled")
    if any(reply["scaled"] for reply in replies.values()):
        raise FedkinError("The clients' data are scaled already; make a new federation to scale them again.")
    called = {client: names[client] if client < len(names) else str(client) for client in replies}
    tables = [client for client, reply in replies.items() if "names" in reply]
    if encoder := _common_encoder({called[i]: reply.get("encoder", "") for i, reply in replies.items()}, "samples"):
        note = "Samples are compared by what an encoder makes of them: rows of length 1, whose columns are not scaled."
        prepared = _prepare_arrays(fed, replace(options, scaling="none"), replies, called)
        return replace(prepared, encoder=encoder, notes=[note])
    uncovered = [
        "The privacy guarantee does not cover the preparation of the data, for which clients sent statistics such as "
        f"minima and maxima{', and names of categories' if tables else ''}; scale numbers to [0, 1] by public ones "
        f"before, and {setting('scaling', 'none')}."
    ]
    if not tables:
        return _prepare_arrays(fed, options, replies, called).noted(uncovered * (options.private and not unscaled))
    if len(tables) < len(replies):
        array = next(client for client in replies if client not in tables)
        raise FedkinError(f"Client {called[array]} has an array, but client {called[tables[0]]} a table; all need one.")
    columns, (texts, notes) = sorted(replies[tables[0]]["names"]), _common_texts(replies, called, fed.secure_sums)
    are_alike = unscaled and all(reply["plain"] and sorted(reply["names"]) == columns for reply in replies.values())
    if are_alike and not texts:  # they are put in a common order, which tells nothing of samples
        schema = Schema(tuple(map(Column, replies[tables[0]]["names"])))
        encoding = Encoding.unchanged("none", schema=schema)
        fed.ask_until_all_reply(arrange_columns, {"encoding": encoding.tree()})
        return Preparation(encoding)
    if sparing:
        if fed.secure_sums:
            check_enough(len(fed.present))
        replies = fed.ask_until_all_reply(table_columns if fed.secure_sums else moments, question)
    prepared = _prepare_tables(fed, options, replies, called, texts)
    return prepared.noted([*notes, *uncovered * options.private])


def _common_encoder(by_client: Mapping[str, str], what: str) -> str:
    """Return the fingerprint of all clients' encoder, empty where they have none; FedkinError if they differ."""
    clients: dict[str, list[str]] = {}
    for client, encoder in by_client.items():
        clients.setdefault(encoder, []).append(client)
    if len(clients) > 1:
        each = "; ".join(f"{listing(names, 8)}: {encoder or 'none'}" for encoder, names in clients.items())
        raise FedkinError(f"Clients have different encoders of {what} ({each}); all need the same file and options.")
    return next(iter(clients), "")


def _common_texts(
    replies: Mapping[int, Payload], called: Mapping[int, str], secure: bool
) -> tuple[list[str], list[str]]:
    """Return the columns of free text that all clients have embeddings of, and notes on others."""
    encoders = {called[i]: reply["text_encoder"] for i, reply in replies.items() if "text_encoder" in reply}
    _common_encoder(encoders, "free text")
    columns = [reply.get("texts", []) for reply in replies.values()]
    names = list(dict.fromkeys(name for of_client in columns for name in of_client))
    texts = [name for name in names if all(name in of_client for of_client in columns) and not secure]
    rest = [name for name in names if name not in texts]
    why = "with secure sums" if secure else "as some clients have none, or no encoder"
    return texts, [f"Free text is left out {why}: {quoted(rest)}."] if rest else []


def _with_texts(fed: Federation, encoding: Encoding, names: Sequence[str]) -> Encoding:
    """Return the encoding with at most 16 principal components of each text column, of total variance 1.

    More say little that several clients share, and each would weigh less.
    """
    means, directions = [], []
    for name in names:
        answers = fed.ask_until_all_reply(text_moments, {"column": name})
        replies = {client: reply for client, reply in answers.items() if reply}
        count = max(1, sum(reply["count"] for reply in replies.values()))
        mean = sum_of(replies, "sum") / count
        products = torch.stack([reply["products"].double() for reply in replies.values()]).sum(0)
        values, vectors = torch.linalg.eigh(products / count - torch.outer(mean, mean))
        values, vectors = values.flip(0)[:16].clamp_min(0), vectors.flip(1)[:, :16]
        signs = vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()
        means.append(mean.float())
        directions.append((vectors * signs / (values.sum().sqrt() or 1.0)).float())
    if not names:
        return encoding
    return replace(
        encoding, text_names=tuple(names), text_means=torch.stack(means), text_directions=torch.stack(directions)
    )


def _encode_all(fed: Federation, encoding: Encoding) -> None:
    """Have all clients encode their data."""
    fed.ask_until_all_reply(encode, {"encoding": encoding.tree()})
    if isinstance(fed.clients, ClientArray):
        fed.clients.encode = encoding.scaled


def _prepare_arrays(
    fed: Federation, options: TableOptions, replies: Mapping[int, Payload], called: Mapping[int, str]
) -> Preparation:
    replies = fed.keep_majority(replies)
    shape = common_shape(replies)
    if options.scaling == "none":
        return Preparation(Encoding.unchanged("none", shape))
    questions: list[str] = []
    if fed.secure_sums:
        check_enough(len(fed.present))
    else:
        ends = {called[client]: (reply["min"], reply["max"]) for client, reply in replies.items()}
        low, high = (torch.stack(list(side)) for side in zip(*ends.values(), strict=True))
        questions += [] if isinstance(fed.clients, ClientArray) else checks.check_arrays(ends)
        are_trimmed = any("trimmed" in reply for reply in replies.values())
        if options.scaling == "auto" and not are_trimmed and in_unit(low.amin(0), high.amax(0)):
            return Preparation(Encoding.unchanged("unit", shape), questions, tuple(questions))
    sums, _, _ = sum_columns(fed, shape[0], replies=None if fed.secure_sums else replies)
    encoding, notes = fit_encoding(fed, sums, options, shape=shape)
    _encode_all(fed, encoding)
    return Preparation(encoding, [*questions, *notes], tuple(questions))


def _prepare_tables(
    fed: Federation, options: TableOptions, replies: Mapping[int, Payload], called: Mapping[int, str],
    texts: Sequence[str] = (),
) -> Preparation:  # fmt: skip
    parts = ("names", *([] if fed.secure_sums else ["sum"]))
    lengths = {i: {len(reply["columns"]), *(len(reply[part]) for part in parts)} for i, reply in replies.items()}
    odd = [i for i in lengths if len(lengths[i]) > 1]
    fed.drop(dict.fromkeys(odd, Failure("unusable", "its columns do not fit together")))
    replies = {i: reply for i, reply in replies.items() if i not in odd}
    reports = {client: reports_by_name(reply) for client, reply in replies.items()}
    schema = agree(reports, options.id, called)
    agreed = schema.columns
    sums, by_client, counts = sum_columns(fed, len(agreed), agreed, None if fed.secure_sums else replies)
    schema, sums = _comparable(schema, sums, reports)
    asked = {called[i]: reports[i] for i in (reports if fed.secure_sums else by_client)}  # who did not fail since
    questions = [
        *checks.check_names({client: columns.keys() for client, columns in reports.items()}),
        *checks.check_columns(
            agreed, asked, {column.name for column in agreed} - {*schema.names},
            {called[i]: part for i, part in by_client.items()}, {called[i]: part for i, part in counts.items()},
        ),
    ]  # fmt: skip
    encoding, notes = fit_encoding(fed, sums, options, replace(schema, notes=[]))  # clients get it, but no notes
    encoding = _with_texts(fed, encoding, texts)
    _encode_all(fed, encoding)
    return Preparation(encoding, [*schema.notes, *questions, *notes], tuple(questions))


def _comparable(schema: Schema, sums: ColumnSums, reports: Reports) -> tuple[Schema, ColumnSums]:
    """Return schema and sums of columns to compare samples by, of those with very many categories the frequent ones.

    Left out are mostly empty columns, and those that say at which client a row is, unless no other is left: they have
    one category at each client, and no rare ones, which stand last in the counts.
    """
    places = [
        name
        for name, counts in zip(schema.names, sums.counts, strict=True)
        if is_place([columns[name] for columns in reports.values() if name in columns and columns[name].filled])
        and not float(counts[-1])
    ]
    places = [] if len(places) == len(schema.columns) else places
    cells = {name: sums.samples - int(filled) for name, filled in zip(schema.names, sums.filled.tolist(), strict=True)}
    empty = {name: count for name, count in cells.items() if 2 * count > sums.samples and name not in places}
    reasons: list[str] = []
    if places:
        reasons.append(
            "Columns are left out that have one value at each client and another at every other, so they say where a "
            f"row comes from: {quoted(places)}."
        )
    if empty:
        listed = listing([f"'{name}' ({count:,})" for name, count in empty.items()])
        reasons.append(f"Columns are left out that are empty in more than half of {sums.samples:,} rows: {listed}.")
    rest = [i for i, name in enumerate(schema.names) if name not in (*places, *empty)]
    if not rest:
        raise FedkinError(f"No column is left to compare samples by: {' '.join(reasons)}")
    columns, counts = [], []
    for i in rest:
        column, frequencies = schema.columns[i], sums.counts[i]
        if column.kind == "category":
            codes = frequencies[:-1].argsort(descending=True, stable=True)[:MAX_CATEGORIES].sort().values
            named = frequencies[codes]
            column = replace(column, categories=tuple(column.categories[code] for code in codes.tolist()))
            frequencies = torch.cat([named, frequencies.sum()[None] - named.sum()])
        columns.append(column)
        counts.append(frequencies)
    schema = replace(schema, columns=tuple(columns), notes=[*schema.notes, *reasons])
    return schema, sums.of(rest, counts)


# Clients that join late.


def admit_joined_clients(fed: Federation, clients: Sequence[Client], away: Set[int], preparation: Preparation) -> None:
    """Let those of the clients that are no longer `away` take part, with data prepared as everyone's.

    Raises FedkinError if a client that must receive the preparation cannot be reached.
    """
    joined = [i for i in fed.ids if i not in fed.joined and i not in away]
    if not joined:
        return
    fed.join(joined)
    new = [i for i in joined if STATE not in clients[i].state]
    for i in joined:  # one whose state has the preparation does it itself, as in a resumed run
        restore_preparation(clients[i])
    if new and preparation.encoding.changes:
        fed.ask_until_all_reply(encode, {"encoding": preparation.encoding.tree()}, new)
