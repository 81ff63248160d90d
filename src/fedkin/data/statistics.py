"""Sums over clients by which data are encoded: means, variances, frequencies and histograms.

Clients are asked for them by tasks, alike of arrays and of tables. Everything is a sum over samples, besides ends of
columns, so secure sums carry it. Medians and other quantiles are read from histograms. A client that must not tell its
extremes (`Client.extremes`) counts values at either end of a column as the fifth from there, in all that it reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task
from fedkin.core.client import Column
from fedkin.core.errors import FedkinError, RefusalError, setting
from fedkin.core.replies import Expected, Optional, doubles, int64, is_count, is_flag, is_shape, is_text, reals
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.schema import (
    aligned,
    are_columns,
    are_names,
    are_numbers,
    are_reports,
    columns_of,
    plain,
    reports_of,
)
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import sums_of_all

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
    parts: Payload = {"sum": torch.where(empty, 0.0, values).sum(0)}
    parts |= {"min": torch.where(empty, math.inf, values).amin(0), "max": torch.where(empty, -math.inf, values).amax(0)}
    parts = {name: torch.where(numbers & (filled > 0), part, 0.0) for name, part in parts.items()}
    parts |= {"count": len(values), "filled": filled, **({} if client.extremes else {"trimmed": True})}
    return {**parts, **_facts_of(client), **({} if client.table is None else _reports_of(client, payload))}


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
    return _reports_of(client, payload)


def smallest_group(client: Client, payload: Payload) -> int:
    """Return of how many samples a client tells something, which a server cannot lower."""
    return max(MIN_MEMBERS, int(payload.get("min_members", 0)), client.min_members)


def _reports_of(client: Client, payload: Payload) -> Payload:
    """Report on a table's columns."""
    assert client.table is not None
    try:
        return reports_of(client.table, smallest_group(client, payload), f"Client {client.id}")
    except FedkinError as error:
        raise RefusalError(str(error).replace("\n", " "), error.public) from error


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
    answers = fed.ask_until_all_reply(squares, question, expected=expected, pooled=True)
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
        replies = fed.ask_until_all_reply(column_histograms, payload, expected={"histograms": shape}, pooled=True)
        return sum_of(replies, "histograms")

    return ask
