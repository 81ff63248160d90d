"""Sums over clients by which arrays are scaled and tables encoded: means, variances, frequencies and histograms.

Clients are asked for them by tasks. Everything is a sum over samples, besides minima and maxima, so secure sums carry
it; sums of numbers of any size are split into digits for them. Medians and other quantiles are read from histograms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, get_args

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task, task
from fedkin.core.doors import setting
from fedkin.core.errors import FedkinError, RefusalError
from fedkin.core.replies import Expected, Optional, doubles, int64, is_count, is_flag, is_list, is_shape, is_text
from fedkin.core.table import Kind, Table
from fedkin.data.schema import (
    MIN_MEMBERS,
    SchemaColumn,
    aligned,
    are_names,
    are_numbers,
    are_reports,
    columns_of,
    moments_of,
    plain,
    reports_by_name,
    reports_of,
    too_long,
)
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import sums_of_all

BINS = 256
"""Bins of a histogram."""
UNITS = tuple(2.0**power for power in range(100, -60, -20))
"""What the pieces of a number of any size are multiples of."""
SCALED_UNITS = UNITS[3:]
"""Those of prepared numbers, whose squares and sums are below 2^60."""
UNIT = doubles(None, minimum=float(torch.finfo(torch.float64).tiny))
"""Specification of units in a payload."""

_EXACT = 1e-9
"""Difference that rounding makes in the mean of squares of truth values."""
_SPREADS = 4.0
"""Standard deviations on either side of the mean that a histogram spans where minimum and maximum are not known."""

Ask = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Returns the `histograms` of all clients' columns at some positions, between a low and a high end of each."""


def to_digits(values: Tensor, units: Sequence[float] = UNITS) -> Tensor:
    """Split numbers ``(n,)`` into multiples of `units`, float64 ``(pieces, n)``, all but the first below 2^20."""
    rest, digits = values.double(), []
    for unit in units[:-1]:
        digits.append((rest / unit).round())
        rest = rest - digits[-1] * unit
    return torch.stack([*digits, rest / units[-1]])


def of_digits(digits: Tensor, units: Sequence[float] = UNITS) -> Tensor:
    """Return the numbers ``(n,)`` that `to_digits` split, or sums of such."""
    return (torch.tensor(units, dtype=torch.float64)[:, None] * digits).sum(0)


def unit_of(reach: Tensor) -> Tensor:
    """Return a power of two at least as large as each number, float64 ``(columns,)``, or 1 for 0.

    Squares in such units stay small, however large the values are, and their digits are those of the squares
    themselves.
    """
    return torch.where(reach > 0, torch.pow(2.0, torch.frexp(reach.double()).exponent.double()), 1.0)


def histograms(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Count the values of each column in bins of equal width between `low` and `high`: float64 ``(columns, 256)``.

    The first and the last bin take the rest; NaN are not counted.
    """
    width = (high - low).clamp_min(torch.finfo(torch.float64).tiny)
    bins = ((values - low) / width * BINS).clamp(0, BINS - 1)
    counts = [own[~own.isnan()].long().bincount(minlength=BINS).double() for own in bins.T]
    return torch.stack(counts) if counts else torch.zeros(0, BINS, dtype=torch.float64)


def quantile(counts: Tensor, fraction: float, low: Tensor, high: Tensor) -> Tensor:
    """Return a quantile of each column, float64 ``(columns,)``, as if values were evenly spread within each bin."""
    below = counts.cumsum(1)
    wanted = below[:, -1:] * fraction
    bins = (below < wanted).sum(1, keepdim=True).clamp_max(BINS - 1)
    inside = (wanted - (below - counts).gather(1, bins)) / counts.gather(1, bins).clamp_min(1)
    return low + (bins + inside)[:, 0] / BINS * (high - low)


def sum_of(replies: Mapping[int, Payload], name: str) -> Tensor:
    """Return the sum of one tensor over all replies, in order of client."""
    return torch.stack([replies[i][name] for i in sorted(replies)]).sum(0)


def is_prepared(client: Client) -> bool:
    """Return whether a client's data are scaled or encoded already."""
    return "scaling_mean" in client.state or "preparation" in client.state


@dataclass(frozen=True)
class ColumnSums:
    """Sums over all samples of all clients, by column.

    `filled`, float64 ``(columns,)``, are numbers of cells that are not empty; `sum` and `squares`, float64
    ``(columns,)``, are of values, and of their squared distances from the mean; 0 for categories. `counts` are
    frequencies of each column's categories, float64 ``(categories + 1,)``, the last of all others; of length 0 for
    other columns. `low` and `high`, float64 ``(columns,)``, are minimum and maximum, where clients send these.
    """

    samples: int
    filled: Tensor
    sum: Tensor
    squares: Tensor
    counts: list[Tensor]
    low: Tensor | None = None
    high: Tensor | None = None

    def of(self, positions: Sequence[int]) -> Self:
        """Return the sums of the columns at these positions."""
        at = torch.tensor(positions, dtype=torch.int64)
        low, high = (None if end is None else end[at] for end in (self.low, self.high))
        counts = [self.counts[position] for position in positions]
        return type(self)(self.samples, self.filled[at], self.sum[at], self.squares[at], counts, low, high)

    def pooled(self, kept: Sequence[Sequence[int]]) -> Self:
        """Return the sums with only the `kept` categories of each column; the rest are pooled as *other*."""
        counts = [
            torch.cat([own[list(codes)], own.sum()[None] - own[list(codes)].sum()]) if len(own) else own
            for own, codes in zip(self.counts, kept, strict=True)
        ]
        return replace(self, counts=counts)

    @cached_property
    def mean(self) -> Tensor:
        """Mean of each column, float64 ``(columns,)``."""
        return self.sum / self.filled.clamp_min(1)

    @property
    def all_truths(self) -> list[bool]:
        """Whether all values of each column, of those in 0 to 1, are 0 or 1: no others have as large a variance."""
        largest = self.sum * (1 - self.mean)
        return ((largest - self.squares).abs() <= _EXACT * self.filled).tolist()

    @cached_property
    def spread(self) -> Tensor:
        """Standard deviation of each column, float64 ``(columns,)``."""
        return (self.squares / self.filled.clamp_min(1)).sqrt()


def count_lengths(columns: Sequence[SchemaColumn]) -> list[int]:
    """Return the number of frequencies of each column; 0 where it is no category."""
    return [len(column.categories) + 1 if column.kind == "category" else 0 for column in columns]


def are_columns(value: Any) -> bool:
    """Return whether a value is a list of columns as `plain` writes them."""
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 3 for one in value):
        return False
    return all(is_text(name) and kind in get_args(Kind) and is_list(is_text)(levels) for name, kind, levels in value)


_FEATURES = doubles("features")
_QUESTION: Expected = {"min_members": Optional(is_count)}


_COLUMNS: Expected = {"columns": are_columns}


@client_task(
    takes={"unscaled": Optional(is_flag)},
    holds={"shape": is_shape, "scaled": is_flag},
    may_hold={"names": are_names, "plain": is_flag},
    accounted=True,
)
def shapes(client: Client, payload: Payload) -> Payload:
    """Report the shape of a sample, whether the data are scaled already, and names of a table's columns.

    ``plain`` is whether all columns are of numbers and no cell is empty. Arrays that are to stay ``unscaled`` must be
    float32: RefusalError if they are so far from zero that this would lose what varies in them.
    """
    if payload.get("unscaled") and client.table is None and client.x.dtype == torch.float64:
        raise RefusalError(
            "A column is so far from zero that float32 would lose what varies in it; subtract a common number from it "
            f"at every client, or {setting('scaling', 'standard')}.",
            public=True,
        )
    reply: Payload = {"shape": list(client.x.shape[1:]), "scaled": is_prepared(client)}
    if client.table is not None:
        numbers = all(column.kind == "number" for column in client.table.columns)
        reply |= {"names": client.table.names, "plain": numbers and not bool(client.table.values.isnan().any())}
    return reply


@client_task(
    takes=_QUESTION,
    holds={
        "count": is_count, "sum": _FEATURES, "min": _FEATURES, "max": _FEATURES, "shape": is_shape, "scaled": is_flag,
    },
    may_hold={"names": are_names, "columns": are_reports, "filled": _FEATURES},
)  # fmt: skip
def moments(client: Client, payload: Payload) -> Payload:
    """Report count, sum, minimum and maximum of each column or channel; for a table also its columns."""
    facts: Payload = {"shape": list(client.x.shape[1:]), "scaled": is_prepared(client)}
    if client.table is None:
        x = _by_feature(client.x)
        return {"count": len(x), "sum": x.sum(0), "min": x.amin(0), "max": x.amax(0), **facts}
    facts |= moments_of(client.table) | _reports_of(client, client.table, _min_members(client, payload))
    return {"count": len(client), **facts}


@client_task(takes=_QUESTION, holds={"names": are_names, "columns": are_reports})
def table_columns(client: Client, payload: Payload) -> Payload:
    """Report the columns of a table, and nothing of its samples except names of frequent categories."""
    if client.table is None:
        return {"names": [], "columns": []}
    return _reports_of(client, client.table, _min_members(client, payload))


def _reports_of(client: Client, table: Table, min_members: int) -> Payload:
    """Report on a table; raise RefusalError if a name or category is too long, before the server refuses the report."""
    if problems := too_long(table, min_members, f"Client {client.id}"):
        raise RefusalError(" ".join(problems), public=True)  # names and lengths
    return reports_of(table, min_members)


def _min_members(client: Client, payload: Payload) -> int:
    """Return how many samples a category needs for its name to leave the client; a server cannot lower it."""
    wanted = payload.get("min_members", MIN_MEMBERS)
    return max(wanted if is_count(wanted) else 0, MIN_MEMBERS, client.min_members)


@client_task(takes={"mean": _FEATURES, "unit": UNIT}, holds={"squares": doubles("features", minimum=0)})
def squares(client: Client, payload: Payload) -> Payload:
    """Report the sum of squared distances from the common mean, per column or channel, in squares of its unit."""
    return {"squares": ((_by_feature(client.x) - payload["mean"]) / payload["unit"]).square().sum(0)}


@client_task(takes={})
def hidden_sums(client: Client, payload: Payload) -> Payload:
    """Report the count, and sums as digits, for a secure sum."""
    return {"count": len(client), "sum": to_digits(_by_feature(client.x).sum(0))}


@task(takes={"mean": _FEATURES, "unit": UNIT})
def hidden_squares(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Report the same as `squares`, as digits, for a secure sum."""
    return [{"squares": to_digits(reply["squares"])} for reply in squares.run(clients, payloads)]


@client_task(
    takes={"at": int64("columns"), "low": doubles("columns"), "high": doubles("columns")},
    holds={"histograms": doubles("columns", BINS, minimum=0)},
)
def column_histograms(client: Client, payload: Payload) -> Payload:
    """Report how many values of some columns lie in each bin between ``low`` and ``high``; ends take the rest."""
    x = _by_feature(client.x)
    if bool((payload["at"] >= x.shape[1]).any()):
        raise FedkinError(
            f"Column {int(payload['at'].amax())} was asked for, but samples have {x.shape[1]}.", public=True
        )
    return {"histograms": histograms(x[:, payload["at"]], payload["low"], payload["high"])}


def _by_feature(x: Tensor) -> Tensor:
    return x.double() if x.ndim == 2 else x.double().movedim(1, -1).flatten(0, -2)


@client_task(
    takes=_COLUMNS,
    holds={
        "filled": doubles("columns", minimum=0), "sum": doubles("columns"), "counts": doubles(None, minimum=0),
        "samples": is_count,
    },
)  # fmt: skip
def column_sums(client: Client, payload: Payload) -> Payload:
    """Report the filled cells and the sum of each column, and the frequencies of categories."""
    columns = columns_of(payload)
    values, numbers = _aligned(client, columns), are_numbers(columns)
    reply = {"filled": (~values.isnan()).sum(0).double(), "sum": values.nan_to_num(0.0).sum(0) * numbers}
    return {**reply, "counts": _frequencies(values, columns), "samples": len(values)}


@client_task(
    takes={**_COLUMNS, "mean": doubles(None), "unit": UNIT},
    holds={"squares": doubles("columns", minimum=0), "counts": doubles(None, minimum=0)},
)
def column_squares(client: Client, payload: Payload) -> Payload:
    """Report each column's sum of squared distances from the common mean, in squares of its unit, and frequencies."""
    columns = columns_of(payload)
    values, numbers = _aligned(client, columns), are_numbers(columns)
    squares = ((values - payload["mean"]) / payload["unit"]).nan_to_num(0.0).square().sum(0) * numbers
    return {"squares": squares, "counts": _frequencies(values, columns)}


@client_task(
    takes={**_COLUMNS, "low": doubles(None), "high": doubles(None)},
    holds={"histograms": doubles("columns", BINS, minimum=0)},
)
def cell_histograms(client: Client, payload: Payload) -> Payload:
    """Report how many filled cells of each column lie in each bin between ``low`` and ``high``; ends take the rest."""
    values = _aligned(client, columns_of(payload))
    return {"histograms": histograms(values, payload["low"], payload["high"])}


@task(takes=_COLUMNS)
def hidden_column_sums(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Report the same as `column_sums`, for a secure sum."""
    return [{**reply, "sum": to_digits(reply["sum"])} for reply in column_sums.run(clients, payloads)]


@task(takes={**_COLUMNS, "mean": doubles(None), "unit": UNIT})
def hidden_column_squares(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Report the same as `column_squares`, for a secure sum."""
    return [{"squares": to_digits(reply["squares"])} for reply in column_squares.run(clients, payloads)]


def _aligned(client: Client, columns: Sequence[SchemaColumn]) -> Tensor:
    if client.table is None:
        raise FedkinError(f"Client {client.id} has no table.", public=True)
    return aligned(client.table, columns, f"Client {client.id}", imputes=True)


def _frequencies(values: Tensor, columns: Sequence[SchemaColumn]) -> Tensor:
    """Count each category, the last of a column being all others: float64, one column after the other."""
    parts = [torch.zeros(0, dtype=torch.float64)]
    for at, length in enumerate(count_lengths(columns)):
        if length:
            own = values[:, at]
            parts.append(own[~own.isnan()].long().bincount(minlength=length).double())
    return torch.cat(parts)


def sums_of_columns(
    fed: Federation, columns: Sequence[SchemaColumn], replies: Mapping[int, Payload]
) -> tuple[ColumnSums, dict[int, Tensor], dict[int, list[Tensor]]]:
    """Return sums over all clients, and of each the squares and, by column, the frequencies of categories.

    They come from the clients' reports, and from squares and frequencies that they are asked for now. `replies` are
    those of `moments`. Clients report the levels of an ordinal column as they
    number them; where others number them otherwise, they are asked for the sum again.
    """
    width = len(columns)
    filled, total = torch.zeros(width, dtype=torch.float64), torch.zeros(width, dtype=torch.float64)
    low, high = torch.full((width,), torch.inf).double(), torch.full((width,), -torch.inf).double()
    otherwise = torch.zeros(width, dtype=torch.bool)
    for client in sorted(replies):
        reply = replies[client]
        position = {name: at for at, name in enumerate(reply["names"])}
        own = torch.tensor([position.get(column.name, -1) for column in columns])
        reports = reports_by_name(reply)
        has = own >= 0
        counts = torch.where(has, reply["filled"][own], 0.0)
        filled, total = filled + counts, total + torch.where(has, reply["sum"][own], 0.0)
        some = has & (counts > 0)
        least, most = reply["min"][own].clone(), reply["max"][own].clone()
        for at, column in enumerate(columns):
            levels = reports[column.name].categories if bool(some[at]) and column.kind == "ordinal" else ()
            if levels not in ((), column.categories):
                otherwise[at] = True
                least[at], most[at] = (column.categories.index(levels[int(end[at])]) for end in (least, most))
        low = torch.where(some, torch.minimum(low, least), low)
        high = torch.where(some, torch.maximum(high, most), high)
    if bool(otherwise.any()):
        again = fed.ask_until_all_reply(column_sums, {"columns": plain(columns)}, expected={"sum": (width,)})
        total = torch.where(otherwise, sum_of(again, "sum"), total)
    mean = total / filled.clamp_min(1)
    unit = unit_of(torch.where(filled > 0, torch.maximum(high - mean, mean - low), 0.0))
    payload = {"columns": plain(columns), "mean": mean, "unit": unit}
    lengths = count_lengths(columns)
    expected = {"squares": (width,), "counts": (sum(lengths),)}
    answers = fed.ask_until_all_reply(column_squares, payload, expected=expected)
    own_squares = {client: answer["squares"] * unit.square() for client, answer in answers.items()}
    samples = sum(reply["count"] for reply in replies.values())
    squares = sum_of(answers, "squares") * unit.square()
    counts_by_column = list(sum_of(answers, "counts").split(lengths))
    sums = ColumnSums(samples, filled, total, squares, counts_by_column, low, high)
    return sums, own_squares, {client: list(answer["counts"].split(lengths)) for client, answer in answers.items()}


def secure_sums(fed: Federation, columns: Sequence[SchemaColumn]) -> ColumnSums:
    """Return sums over all clients by secure aggregation: the server sees no single client's part."""
    width, lengths = len(columns), count_lengths(columns)
    digits = (len(UNITS), width)
    payload: Payload = {"columns": plain(columns)}
    terms = [Term("filled", (width,)), Term("sum", digits), Term("samples")]
    terms += [Term("counts", (sum(lengths),))] if sum(lengths) else []
    sums = sums_of_all(fed, hidden_column_sums, payload, terms)
    total = of_digits(sums["sum"])
    mean = total / sums["filled"].clamp_min(1)
    payload |= {"mean": mean, "unit": torch.ones_like(mean)}
    squares = sums_of_all(fed, hidden_column_squares, payload, [Term("squares", digits)])
    counts = sums.get("counts", torch.zeros(0, dtype=torch.float64)).split(lengths)
    return ColumnSums(int(sums["samples"]), sums["filled"], total, of_digits(squares["squares"]), list(counts))


def histograms_of(fed: Federation, columns: Sequence[SchemaColumn]) -> Ask:
    """Return what asks all clients for `histograms` of some of these columns."""

    def ask(at: Tensor, low: Tensor, high: Tensor) -> Tensor:
        payload = {"columns": plain([columns[position] for position in at.tolist()]), "low": low, "high": high}
        shape = (len(at), BINS)
        if fed.secure_sums:
            return sums_of_all(fed, cell_histograms, payload, [Term("histograms", shape)])["histograms"]
        replies = fed.ask_until_all_reply(cell_histograms, payload, expected={"histograms": shape})
        return sum_of(replies, "histograms")

    return ask


def medians(fed: Federation, columns: Sequence[SchemaColumn], sums: ColumnSums, wanted: Sequence[int]) -> Tensor:
    """Return the median of each `wanted` column, from histograms of 256 bins, float64 ``(wanted,)``.

    `sums` are those of the `columns`, and `wanted` positions of columns that are no categories.
    """
    at = torch.tensor(wanted)
    if sums.low is None or sums.high is None:
        low, high = sums.mean - _SPREADS * sums.spread, sums.mean + _SPREADS * sums.spread
    else:
        low, high = sums.low, sums.high
    low, high = low[at], high[at]
    return quantile(histograms_of(fed, columns)(at, low, high), 0.5, low, high)
