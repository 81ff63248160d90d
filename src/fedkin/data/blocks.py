"""Which columns of clients' rows are discrete: categories, truth values, and numbers with few values."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fedkin.core import Client
from fedkin.core.replies import MAX_COUNT
from fedkin.data.preparation import encoding_of
from fedkin.data.schema import aligned

CONTINUOUS, UNKNOWN = -1, -2
"""What stands for a column that is not discrete, and for one of which a client cannot tell."""


def common_blocks(by_client: Iterable[Tensor], width: int) -> Tensor:
    """Return which columns are discrete, from the `blocks_of` all clients; those of another width do not count.

    Discrete are categories, truth values, in arrays indicators of categories, and numbers of which no client with 20 or
    more has more than three different values. Return int64 ``(width,)``: the same number, at least 0, for the columns
    that one discrete column is encoded as, and -1 for others. `width` is the number of columns of a row; 0 if samples
    are no rows.
    """
    blocks = torch.stack([torch.full((width,), UNKNOWN), *(columns for columns in by_client if len(columns) == width)])
    numbers = torch.where(blocks >= 0, blocks, MAX_COUNT).amin(0)
    return torch.where((blocks == CONTINUOUS).any(0) | (numbers == MAX_COUNT), CONTINUOUS, numbers)


def blocks_of(client: Client) -> Tensor:
    """Return which columns of a client's prepared rows are discrete as far as it can tell, int64 ``(width,)``.

    Columns of one discrete column have the same number, at least 0; -1 stands for a continuous column and -2 for one
    of which it cannot tell. Empty if samples are no rows.
    """
    if client.x.ndim != 2:
        return torch.zeros(0, dtype=torch.int64)
    encoding = encoding_of(client.state)
    if client.table is None or encoding is None:
        return _blocks_of_array(client.x)
    columns = encoding.schema.columns
    values = aligned(client.table, columns, f"Client {client.id}", imputes=True)
    blocks = torch.empty(client.x.shape[1], dtype=torch.int64)
    looks = _looks_discrete(values).tolist()
    for column, look, (_, start, end) in zip(columns, looks, encoding.blocks, strict=True):
        blocks[start:end] = start
        if column.kind not in ("category", "boolean"):
            blocks[start] = look or start
    return blocks


def _looks_discrete(values: Tensor) -> Tensor:
    """Return for each column of numbers 0 if it is discrete, else `CONTINUOUS` or `UNKNOWN`; empty cells are NaN.

    It is if a thousand of its rows have at most three different values: four or more, such as answers from 1 to 5, are
    near enough to a continuous column. With fewer than 20 rows a client cannot tell.
    """
    rows = (~values.isnan()).sum(0)
    ordered = values[:: max(1, len(values) // 1_000)].sort(0).values  # NaN comes last
    changes = ((ordered[1:] != ordered[:-1]) & ~ordered[1:].isnan()).sum(0)
    return torch.where(rows < 20, UNKNOWN, torch.where(changes < 3, 0, CONTINUOUS))


def _blocks_of_array(x: Tensor) -> Tensor:
    """Return the blocks of an array of at most 2,000 columns, in which categories may be indicators already.

    These are columns side by side of which every row has exactly one.
    """
    if not len(x) or x.shape[1] > 2_000:
        return torch.full((x.shape[1],), UNKNOWN)
    looks = _looks_discrete(x)
    blocks = torch.where(looks == 0, torch.arange(x.shape[1]), looks)
    low, high = x.amin(0), x.amax(0)
    ones = (x == high) & (high > low)
    may_be = (blocks >= 0) & (ones | (x == low)).all(0)
    start = 0
    while start < x.shape[1]:
        rows, end = torch.zeros(len(x), dtype=torch.int64), start + 1
        for i in range(start, x.shape[1]):
            rows = rows + ones[:, i]
            if not may_be[i] or int(rows.amax()) > 1:
                break
            if int(rows.amin()) == 1:
                end = i + 1
                blocks[start:end] = start
                break
        start = end
    return torch.where((blocks >= 0) & (high == low), UNKNOWN, blocks)
