"""Sums over clients that tables are encoded by: means, variances, frequencies of categories, and medians.

Everything is a sum over samples, so secure sums carry it. Sums of numbers of any size are split for them, see
`fedkin.data.preparing.encoding.fixed_point`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, get_args

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task, task
from fedkin.core.errors import FedkinError
from fedkin.core.replies import Expected, doubles, is_count, is_list, is_text
from fedkin.core.table import Kind
from fedkin.data.preparing.encoding.column_scales import UNIT
from fedkin.data.preparing.encoding.encoding import aligned
from fedkin.data.preparing.encoding.fixed_point import UNITS, of_digits, to_digits
from fedkin.data.preparing.encoding.histograms import BINS, histograms, quantile
from fedkin.data.preparing.encoding.outliers import Ask
from fedkin.data.preparing.encoding.scaling import sum_of
from fedkin.data.preparing.schema.schema import SchemaColumn, are_numbers, columns_of, plain
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import sums_of_all

_EXACT = 1e-9
"""Difference that rounding makes in the mean of squares of truth values."""
_SPREADS = 4.0
"""Standard deviations on either side of the mean that a histogram spans where minimum and maximum are not known."""


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


def _aligned(client: Client, columns: Sequence[SchemaColumn]) -> Tensor:
    if client.table is None:
        raise FedkinError(f"Client {client.id} has no table.", public=True)
    return aligned(client.table, columns, f"Client {client.id}", imputes=True)


def count_lengths(columns: Sequence[SchemaColumn]) -> list[int]:
    """Return the number of frequencies of each column; 0 where it is no category."""
    return [len(column.categories) + 1 if column.kind == "category" else 0 for column in columns]


def are_columns(value: Any) -> bool:
    """Return whether a value is a list of columns as `plain` writes them."""
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 3 for one in value):
        return False
    return all(is_text(name) and kind in get_args(Kind) and is_list(is_text)(levels) for name, kind, levels in value)


_COLUMNS: Expected = {"columns": are_columns}


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


def _frequencies(values: Tensor, columns: Sequence[SchemaColumn]) -> Tensor:
    """Count each category, the last of a column being all others: float64, one column after the other."""
    parts = [torch.zeros(0, dtype=torch.float64)]
    for at, length in enumerate(count_lengths(columns)):
        if length:
            own = values[:, at]
            parts.append(own[~own.isnan()].long().bincount(minlength=length).double())
    return torch.cat(parts)
