"""Samples of a comparison, prepared as its methods see them, with their original columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fedkin.core import Client
from fedkin.data.encoding import PreparingOptions
from fedkin.data.population import Population
from fedkin.data.prepare import prepare
from fedkin.engines.local import LocalFederation

Block = tuple[str, int, int]
"""A column's name, and where the numbers that it is encoded as begin and end."""


@dataclass(frozen=True)
class PreparedSamples:
    """Samples of all clients, prepared as in a run; what else a population has is as it was.

    `blocks` are by original column its name, and where its encoded columns begin and end; empty for images. `notes` say
    what was done to the columns, in sentences.
    """

    population: Population
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]


def prepared_samples(population: Population, options: PreparingOptions, seed: int) -> PreparedSamples:
    """Prepare copies of a population's clients.

    Raises FedkinError if their data cannot be prepared together, with a line for each problem of tables.
    """
    clients = [Client(each.id, each.x, each.y, table=each.table) for each in population.clients]
    fed = LocalFederation(clients, seed)
    fed.away = away = population.away(0)
    preparation = prepare(fed, options, population.names)
    for i in away:  # they are asked later or never, but their samples are looked at
        clients[i].x = preparation.of(clients[i])
    x = clients[0].x
    blocks: Sequence[Block] = []
    if preparation.encoding is not None:
        blocks = preparation.encoding.blocks
    elif x.ndim == 2:
        blocks = [(f"column {i + 1}", i, i + 1) for i in range(x.shape[1])]
    return PreparedSamples(
        replace(population, clients=clients), tuple(blocks), tuple(preparation.noted(population.notes).notes)
    )


def numbers_of(samples: PreparedSamples, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the prepared values of some samples of all clients in order, float64 ``(m, width)``."""
    return torch.cat([client.x for client in samples.population.clients])[torch.from_numpy(rows)].double().numpy()
