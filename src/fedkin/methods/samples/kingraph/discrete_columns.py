"""Which columns of the clients' tables are discrete, and the components of tables that have some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedkin.core import Client, Payload, client_task
from fedkin.core.replies import MAX_COUNT, Array, Expected, is_count, is_shape
from fedkin.data.preparing.encoding import aligned
from fedkin.data.preparing.preparation import encoding_of
from fedkin.features.pca import WIDEST, Components, FeatureMoments, components
from fedkin.features.shared_variation import shared_basis
from fedkin.methods.samples.kingraph.kingraph_space import KinGraphState

_FEW_VALUES, _MIN_ROWS = 3, 20
"""Maximum number of different values in a discrete column of numbers, and minimum number of rows from which a client
can tell. Four values or more, such as answers from 1 to 5, are near enough to a continuous column."""

_LOOKED_AT = 1_000
"""Rows, about, in which different values are counted."""

_CONTINUOUS, _UNKNOWN = -1, -2

_HOLDS: Expected = {"shape": is_shape, "blocks": Array(("columns",), torch.int64, _UNKNOWN, MAX_COUNT)}


@client_task(takes={}, holds=_HOLDS)
def send_columns(client: Client, payload: Payload) -> Payload:
    """Send the shape of a sample, and which columns of a table are discrete, see `discrete_blocks`."""
    return {"shape": list(client.x.shape[1:]), "blocks": _blocks_at(client)}


@client_task(takes={}, holds={**_HOLDS, "samples": is_count})
def describe_columns(client: Client, payload: Payload) -> Payload:
    """Send the same, and the number of samples."""
    return {"shape": list(client.x.shape[1:]), "blocks": _blocks_at(client), "samples": len(client)}


def discrete_blocks(replies: Mapping[int, Payload], shape: Sequence[int]) -> Tensor:
    """Return which columns of samples of this shape are discrete, from the clients' replies to `send_columns`.

    Discrete are categories, truth values, indicators of empty cells or, in arrays, of categories, and numbers of which
    no client with 20 or more has more than three different values.

    Returns
    -------
    Tensor
        int64 ``(width,)``: the same number, at least 0, for the columns that one discrete column is encoded as, and -1
        for others; empty if samples are no rows.
    """
    width = shape[0] if len(shape) == 1 else 0
    fitting = [reply["blocks"] for _, reply in sorted(replies.items()) if len(reply["blocks"]) == width]
    blocks = torch.stack([torch.full((width,), _UNKNOWN), *fitting])
    known = torch.where(blocks >= 0, blocks, MAX_COUNT).amin(0)
    return torch.where((blocks == _CONTINUOUS).any(0) | (known == MAX_COUNT), _CONTINUOUS, known)


def _blocks_at(client: Client) -> Tensor:
    if client.x.ndim != 2:
        return torch.zeros(0, dtype=torch.int64)
    encoding = encoding_of(client.state)
    if client.table is None or encoding is None:
        return _blocks_of_array(client.x)
    columns = encoding.schema.columns
    values = aligned(client.table, columns, f"Client {client.id}", imputes=True)
    blocks = torch.empty(client.x.shape[1], dtype=torch.int64)
    for at, (column, (_, start, end)) in enumerate(zip(columns, encoding.blocks, strict=True)):
        blocks[start:end] = start
        if column.kind not in ("category", "boolean"):
            blocks[start] = _block_of(values[:, at], start)
            blocks[start + 1 : end] = start + 1  # an indicator of empty cells
    return blocks


def _block_of(values: Tensor, number: int) -> int:
    """Return `number` if a column of numbers is discrete; empty cells are NaN."""
    values = values[~values.isnan()]
    if len(values) < _MIN_ROWS:
        return _UNKNOWN
    return number if len(values[:: max(1, len(values) // _LOOKED_AT)].unique()) <= _FEW_VALUES else _CONTINUOUS


def _blocks_of_array(x: Tensor) -> Tensor:
    """Return the blocks of an array, in which categories may be indicators already."""
    if not len(x) or x.shape[1] > WIDEST:
        return torch.full((x.shape[1],), _UNKNOWN)
    blocks = torch.tensor([_block_of(own, at) for at, own in enumerate(x.T)])
    low, high = x.amin(0), x.amax(0)
    ones = (x == high) & (high > low)
    may_be = (blocks >= 0) & (ones | (x == low)).all(0)
    start = 0
    while start < x.shape[1]:
        end = _end_of_indicators(ones, may_be, start)
        blocks[start:end] = start
        start = max(end, start + 1)
    return torch.where((blocks >= 0) & (high == low), _UNKNOWN, blocks)


def _end_of_indicators(ones: Tensor, may_be: Tensor, start: int) -> int:
    """Return where columns side by side end of which every row has exactly one; `start` if there are none."""
    rows = torch.zeros(len(ones), dtype=torch.int64)
    for at in range(start, len(may_be)):
        rows = rows + ones[:, at]
        if not may_be[at] or int(rows.amax()) > 1:
            break
        if int(rows.amin()) == 1:
            return at + 1
    return start


def leading_components(
    found: FeatureMoments, state: KinGraphState, count: int, whitening: float
) -> tuple[Components, float]:
    """Return the principal components of features, and the fraction of the variance that they explain.

    Discrete columns are replaced by what they share with others, see `shared_basis`.

    Parameters
    ----------
    found : FeatureMoments
    state : KinGraphState
    count, whitening
        See `components`.
    """
    if not (state.blocks >= 0).any():
        leading = components(found, count, state.standardise, whitening)
        return leading, leading.explained_variance(found, state.standardise)
    basis = shared_basis(found.scatter / found.count, found.count, state.blocks)
    shared = found.along(basis)
    leading = components(shared, count, state.standardise, whitening)
    directions = (basis @ leading.directions.double()).float()
    explained = leading.explained_variance(shared, state.standardise)
    return replace(leading, mean=(found.total / found.count).float(), directions=directions), explained
