"""Sums over all clients that each reports by itself, without secure sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedkin.core import Federation, Payload
from fedkin.data.preparing.encoding.column_scales import unit_of
from fedkin.data.preparing.encoding.scaling import sum_of
from fedkin.data.preparing.encoding.statistics import ColumnSums, column_squares, column_sums, count_lengths
from fedkin.data.preparing.schema.schema import SchemaColumn, plain, reports_by_name
from fedkin.data.reading.columns import ALONE


def sums_of_columns(
    fed: Federation, columns: Sequence[SchemaColumn], replies: Mapping[int, Payload]
) -> tuple[ColumnSums, dict[int, Tensor], dict[int, list[Tensor]]]:
    """Return sums over all clients, and of each the squares and, by column, the frequencies of categories.

    They come from the clients' reports, and from squares and frequencies that they are asked for now. `replies` are
    those of `fedkin.data.preparing.encoding.scaling.moments`. Clients report the levels of an ordinal column as they
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
        empty = [name for name, report in reports.items() if report.categories == ALONE]
        has = (own >= 0) & ~torch.tensor([one.name in empty and ALONE[0] not in one.categories for one in columns])
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
