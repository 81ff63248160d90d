"""Clients of an experiment as nodes of Flower's simulation, each with a private folder inside the run's."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedkin.core import Federation, FedkinError
from fedkin.core.device import device_named
from fedkin.core.errors import require
from fedkin.data.population import Population
from fedkin.data.preparation import restore_preparation
from fedkin.engines.local import cores
from fedkin.engines.site import Site, WatchedSites
from fedkin.experiment.config import Config, config_of
from fedkin.experiment.run_folder import CLIENT_FOLDERS

if TYPE_CHECKING:
    from flwr.app import Context

_RUN = "0"
"""Token of the run, the same for all, since a folder holds one run only."""


@contextmanager
def simulated(config: Config, population: Population, folder: Path, **common: Any) -> Iterator[Federation]:
    """Open a federation whose clients are nodes of Flower's simulation, as a context manager.

    Nodes build their data from `config`, as this process does; `Federation.refresh` updates `population`, for
    evaluation. Client i's private folder is ``clients/i`` in the run's. Raises FedkinError if Flower is not installed,
    or the experiment uses what only the local engine offers.
    """
    require("Engine 'flower'", "flwr ray", "flower")
    _check(config, population)
    from fedkin.engines.flower_engine import importing_flower

    with importing_flower():
        from fedkin.engines.flower_engine.grid import FlowerFederation, Roster
        from fedkin.engines.flower_engine.messages import client_app
        from fedkin.engines.flower_engine.simulation import simulated_grid

    count, workers = len(population.clients), config.device.workers
    app = client_app(_Clients(json.dumps(config.tables), folder.resolve()), lambda *_: None)  # the run writes results
    with simulated_grid(app, count, min(cores() if workers == "auto" else workers, count)) as grid:
        roster = Roster(grid)
        roster.gather(count, config.federation.patience)
        memories = {client.id: folder / CLIENT_FOLDERS / str(client.id) / _RUN for client in population.clients}
        clients = {client.id: client for client in population.clients}
        watched = WatchedSites(clients, memories, restore_preparation)
        yield FlowerFederation(
            roster, _RUN, config.seed, config.federation.timeout, population.classes, watched, **common
        )


@dataclass(frozen=True)
class _Clients:
    """Factory of the client of a simulated node; pickled to Ray's processes."""

    tables: str
    folder: Path

    def __call__(self, context: Context) -> Site:
        torch.set_num_threads(1)  # there is a process per core
        number = int(context.node_config["partition-id"])
        population, device = _population(self.tables)
        name = f"{number:09}"  # in the order of numbers, since ids are in the order of names
        client, folder = population.clients[number], self.folder / CLIENT_FOLDERS / str(number)
        about = (population.classes, population.features, client.state, restore_preparation)
        return Site(
            name, folder, client.x, client.y, *about, simulated=True, packages=None, table=client.table,
            device=device_named(device, "'device.name'"), samples=client.samples,
        )  # fmt: skip


# One, for a process of Ray's outlives a run, and data are large.
@functools.lru_cache(maxsize=1)
def _population(tables: str) -> tuple[Population, str]:
    """Build the population of an experiment, whose tables are JSON, once per process for all nodes there."""
    config = config_of(json.loads(tables))
    return config.population(), config.device.name


def _check(config: Config, population: Population) -> None:
    local = ("device.tf32", "device.cuda_graphs", "device.chunk", "simulation.drop_rate", "simulation.failures")
    for section, name in (path.split(".") for path in local):
        if config.tables[section][name] != config.defaults[section][name]:
            raise FedkinError(
                f"'{section}.{name}' is for the local engine; leave it out with simulation.engine = \"flower\"."
            )
    if population.drift is not None or population.arrivals is not None:
        raise FedkinError(
            f"Scenario '{config.simulation.scenario}' changes the federation in the middle of a run, which only "
            "the local engine simulates; leave simulation.engine out."
        )
