"""Which of its rows a client has described to a server, so that the update of a run asks for new ones alone.

A client keeps fingerprints of these rows in its state, which never leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from pandas.util import hash_array
from torch import Tensor

from fedkin.core import Client
from fedkin.core.method import NEW
from fedkin.data.preparation import STATE, encoding_of
from fedkin.data.schema import aligned, id_texts

DESCRIBED = "described_rows"
"""In a client's state: of each row that it has described, what names it and what it holds, int64 ``(m, 2)``."""
_BATCH = 4_096


def carried_over(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a client begins with in a run that updates the one at whose end it has this state."""
    return {name: state[name] for name in (STATE, DESCRIBED) if name in state}


def find_new_rows(client: Client, least: int = 1) -> bool:
    """Note in the state of a client which of its rows are new: those that it had not described by the run before.

    One that has changed is not. Return whether `least` or more rows of before have changed or gone while others are
    there, or nothing is remembered, so that what was sent of them is out of date. Of fewer, whoever has a description
    with and one without them could tell what they held by subtraction.
    """
    rows, before = _fingerprints(client), client.state.get(DESCRIBED)
    if before is None:
        client.state[NEW] = torch.ones(len(rows), dtype=torch.bool)
        return True
    is_new = client.state[NEW] = ~torch.isin(rows[:, 0], before[:, 0])
    return int((~torch.isin(before[:, 1], rows[:, 1])).sum()) >= least and not bool(is_new.all())


def new_rows(client: Client) -> Client:
    """Return the client with its new rows alone; with all, unless the run updates another."""
    if NEW not in client.state and DESCRIBED in client.state:
        find_new_rows(client)
    is_new = client.state.get(NEW)
    return client if is_new is None or bool(is_new.all()) else client.rows(is_new.nonzero()[:, 0])


def remember_rows(client: Client) -> None:
    """Note in the client's state that the server has the description of its new rows; of all, where it has no other."""
    rows = _fingerprints(client)
    is_new = client.state.setdefault(NEW, torch.ones(len(rows), dtype=torch.bool))
    before = client.state.get(DESCRIBED)
    client.state[DESCRIBED] = rows if before is None else torch.cat([before, rows[is_new]])


def _fingerprints(client: Client) -> Tensor:
    """Return hashes of what names each row, and of what it holds in the columns that are compared, int64 ``(n, 2)``.

    A row is named by its id where all are different, else by what it holds.
    """
    table, encoding = client.table, encoding_of(client.state)
    if table is None or encoding is None or encoding.shape:
        held = _hashes(client.x.flatten(1))
        return torch.stack([held, held], 1)
    # Categories as the schema numbers them: a site's own numbers change with a new category.
    held = _hashes(aligned(table, encoding.schema.columns, "The client's table", imputes=True))
    ids = id_texts(table, encoding.schema.id) if encoding.schema.id in table.names else []
    named = torch.from_numpy(hash_array(np.array(ids, dtype=object)).view(np.int64)) if ids else held
    return torch.stack([named if len(named.unique()) == len(named) and "" not in ids else held, held], 1)


def _hashes(rows: Tensor) -> Tensor:
    """Return a hash of each row ``(n, width)``, int64; of equal rows each has another."""
    weights = hash_array(np.arange(rows.shape[1], dtype=np.uint64)) | np.uint64(1)  # odd ones lose nothing
    parts = [np.zeros(0, dtype=np.uint64)]
    for batch in rows.split(_BATCH):
        values = batch.double().numpy() + 0.0  # of -0 as of 0
        cells = hash_array(np.where(np.isnan(values), np.nan, values).ravel(), categorize=False)
        parts.append((cells.reshape(batch.shape) * weights).sum(1, dtype=np.uint64))
    hashes = np.concatenate(parts)
    earlier = pd.Series(hashes).groupby(hashes).cumcount().to_numpy(dtype=np.uint64)
    return torch.from_numpy((hashes + earlier * weights.max(initial=1)).view(np.int64))
