"""Clients of an experiment as nodes of Flower's simulation, each with a private folder inside the run's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.device import device_named
from fedkin.core.errors import require
from fedkin.data.population import Population
from fedkin.data.preparation import restore_preparation
from fedkin.engines.local import cores
from fedkin.engines.site import Request, Site, WatchedSites
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
    evaluation. Client i's private folder is ``clients/i`` in the run's. `common` is as of `FlowerFederation`. Raises
    FedkinError if Flower is not installed, or the experiment uses what only the local engine offers.
    """
    require("Engine 'flower'", "flwr ray", "flower")
    _check(config, population)
    from fedkin.engines.flower_engine import importing_flower

    with importing_flower():
        from fedkin.engines.flower_engine.grid import FlowerFederation, Roster
        from fedkin.engines.flower_engine.messages import client_app
        from fedkin.engines.flower_engine.simulation import simulated_grid

    count, workers = len(population.clients), config.device.workers
    app = client_app(_Clients(config.tables, folder.resolve()), _keep_nothing)
    workers = cores() if workers == "auto" else workers
    with simulated_grid(app, count, min(workers, count)) as grid:
        roster = Roster(grid)
        roster.gather(count, config.federation.patience)
        watched = _watched(population, folder)
        yield FlowerFederation(
            roster, _RUN, config.seed, config.federation.timeout, population.classes, watched, **common
        )


class UnreachableFederation(Federation):
    """Federation that gives access to the stored states of a simulated run's clients, without running them."""

    def __init__(self, seed: int, population: Population, folder: Path, **common: Any) -> None:
        watched = _watched(population, folder)
        super().__init__(list(watched.clients), seed, **common)
        self.clients, self.refresh = watched.clients, watched.refresh  # type: ignore[method-assign]

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterable[tuple[int, Payload | str]]:
        return [(client, "not started") for client in payloads]


@dataclass(frozen=True)
class _Clients:
    """Factory of the client of a simulated node; pickled to Ray's processes."""

    tables: dict[str, Any]
    folder: Path

    def __call__(self, context: Context) -> Site:
        torch.set_num_threads(1)
        number = int(context.node_config["partition-id"])
        config = config_of(self.tables)
        name = f"{number:09}"  # in the order of numbers, since ids are in the order of names
        site = simulated_site(_population(config), number, name, _folder(self.folder, number))
        return replace(site, packages=None, device=device_named(config.device.name, "'device.name'"))


def simulated_site(population: Population, number: int, name: str, folder: Path) -> Site:
    """Return client `number` of a population as a site with this name and private folder."""
    client = population.clients[number]
    about = (population.classes, population.features, client.state, restore_preparation)
    return Site(name, folder, client.x, client.y, *about, simulated=True, table=client.table, samples=client.samples)


_built: dict[str, Population] = {}


def _population(config: Config) -> Population:
    """Build the experiment's population, once per process for all nodes there."""
    text = config.to_toml()
    if text not in _built:
        _built.clear()
        _built[text] = config.population()
    return _built[text]


def _watched(population: Population, folder: Path) -> WatchedSites:
    memories = {client.id: _folder(folder, client.id) / _RUN for client in population.clients}
    return WatchedSites({client.id: client for client in population.clients}, memories, restore_preparation)


def _folder(run: Path, client: int) -> Path:
    return run / CLIENT_FOLDERS / str(client)


def _keep_nothing(site: Site, request: Request, payload: Payload) -> None:
    """Ignore results sent to a simulated site: the run itself writes them."""


def _check(config: Config, population: Population) -> None:
    local = {
        "device": ("tf32", "cuda_graphs", "chunk"),
        "simulation": ("drop_rate", "failures"),
    }
    for section, names in local.items():
        for name in names:
            if config.tables[section][name] != config.defaults[section][name]:
                raise FedkinError(
                    f"'{section}.{name}' is for the local engine; leave it out with simulation.engine = \"flower\"."
                )
    if population.drift is not None or population.arrivals is not None:
        raise FedkinError(
            f"Scenario '{config.simulation.scenario}' changes the federation in the middle of a run, which only "
            "the local engine simulates; leave simulation.engine out."
        )
