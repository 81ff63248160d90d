"""Clients of an experiment as nodes of Flower's simulation, each with a private folder inside the run's."""

from __future__ import annotations

import functools
import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import torch

from fedkin.core import Federation, FedkinError
from fedkin.core.device import device_named
from fedkin.core.files import environment
from fedkin.data.population import Population
from fedkin.data.preparation import restore_preparation
from fedkin.engines.flower_engine.grid import FlowerFederation, Roster
from fedkin.engines.flower_engine.messages import client_app
from fedkin.engines.local import cores
from fedkin.engines.site import Site, WatchedSites
from fedkin.experiment.config import Config, config_of
from fedkin.experiment.run_folder import CLIENT_FOLDERS

_SILENT = {
    "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # which aborts on SIGTERM, and leaves Ray's processes
}  # fmt: skip

with environment(**_SILENT):  # Flower reads them when it is imported, and Ray's processes when they start
    from flwr.app import Context
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

_RUN = "0"
"""Token of the run, the same for all, since a folder holds one run only."""


@contextmanager
def simulated(config: Config, population: Population, folder: Path, **common: Any) -> Iterator[Federation]:
    """Open a federation whose clients are nodes of Flower's simulation, as a context manager.

    Nodes build their data from `config`, as this process does; `Federation.refresh` updates `population`, for
    evaluation. Client i's private folder is ``clients/i`` in the run's. Raises FedkinError if the experiment uses what
    only the local engine offers.
    """
    _check(config, population)
    count, workers = len(population.clients), config.device.workers
    app = client_app(_Clients(json.dumps(config.tables), folder.resolve()), lambda *_: None)  # the run writes results
    with simulated_grid(app, count, min(cores() if workers == "auto" else workers, count)) as grid:
        memories = {client.id: folder / CLIENT_FOLDERS / str(client.id) / _RUN for client in population.clients}
        clients = {client.id: client for client in population.clients}
        watched = WatchedSites(clients, memories, restore_preparation)
        roster = Roster(grid)
        roster.gather(count, config.federation.patience)
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
    for section, name in ((config.device, "chunk"), (config.simulation, "drop_rate"), (config.simulation, "failures")):
        if getattr(section, name) != type(section).model_fields[name].default:
            raise FedkinError(f"'{name}' is for the local engine; leave it out with simulation.engine = \"flower\".")
    if population.drift is not None or population.arrivals is not None:
        raise FedkinError(
            f"Scenario '{config.simulation.scenario}' changes the federation in the middle of a run, which only "
            "the local engine simulates; leave simulation.engine out."
        )


# Flower's simulation, run in a background thread so that its grid is available in this one.


@contextmanager
def simulated_grid(app: ClientApp, nodes: int, workers: int) -> Iterator[Grid]:
    """Yield a grid of simulated nodes that run `app`, for as long as the context lasts.

    Flower's simulation wants to be the caller of the server's code; here it runs in a thread beside it, so that a
    simulated run shows its progress and is interrupted like any other. ``node_config["partition-id"]`` counts nodes
    from 0; `workers` are Ray processes that do their work. Raises FedkinError if the simulation cannot be started.
    """
    grids: Queue[Grid | BaseException] = Queue()
    over = Event()
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        grids.put(grid)
        over.wait()

    def simulate() -> None:
        resources: Any = {"num_cpus": 1, "num_gpus": 0.0}
        started: Any = {"num_cpus": workers, "include_dashboard": False, "logging_level": logging.ERROR}
        try:
            run_simulation(
                server_app=server,
                client_app=app,
                num_supernodes=nodes,
                backend_config={"client_resources": resources, "init_args": started},
            )
        except BaseException as error:  # a thread's own end would go unseen
            grids.put(error)

    thread = Thread(target=simulate, name="flower-simulation", daemon=True)
    with environment(**_SILENT), _quiet(), _exit_on_sigterm():
        thread.start()
        try:
            grid = grids.get()
            if isinstance(grid, BaseException):
                raise FedkinError(f"Flower's simulation did not start ({grid}).") from grid
            yield grid
        finally:
            over.set()
            thread.join(timeout=60)


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Exit on SIGTERM inside the context as from Python, so that Ray's processes end, too."""
    is_ours = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if is_ours:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Flower's log except for errors."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
