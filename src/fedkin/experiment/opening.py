"""Open an experiment: read and partition its data, and start the engine that reaches its clients."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from fedkin.core import Federation
from fedkin.core.device import device_named, on
from fedkin.core.progress import Callback
from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.experiment.client_names import short_names
from fedkin.experiment.config import Config


@contextmanager
def open_federation(
    config: Config, folder: Path, progress: Callback, read_only: bool = False
) -> Iterator[tuple[Population, Federation]]:
    """Open the population of an experiment and the federation that reaches it, as a context manager.

    Parameters
    ----------
    config : Config
        The experiment.
    folder : Path
        The run's.
    progress : Callback
        Receives `phase` and `part`.
    read_only : bool
        Whether no client is contacted: Flower's simulation is not started, and no device is needed.

    Raises
    ------
    FedkinError
        If there is no such device, or the data are refused.
    """
    engine = config.engine
    with nullcontext() if read_only else on(device_named(engine.device, "'engine.device'"), engine.tf32):
        progress.phase(f"Reading {config.data.source}")
        population = config.population()
        with _reached(config, population, folder, progress, read_only) as fed:
            fed.client_names = short_names(population.names)
            yield population, fed


def _reached(
    config: Config, population: Population, folder: Path, progress: Callback, read_only: bool
) -> AbstractContextManager[Federation]:
    """Connect to the population's clients with the engine of the configuration."""
    engine = config.engine
    if engine.name != "flower":
        local = LocalFederation(
            population.clients,
            seed=config.seed,
            chunk=None if engine.chunk == "auto" else engine.chunk,
            workers=None if engine.workers == "auto" else engine.workers,
            drop_rate=engine.drop_rate,
            failures=engine.failures,
            on_progress=progress.part,
        )
        return nullcontext(local)
    from fedkin.experiment.simulated_clients import simulated, unreachable

    if read_only:
        return nullcontext(unreachable(config.seed, population, folder))
    progress.phase("Starting Flower's simulation")
    return simulated(config, population, folder, progress.part)


def forget_clients(folder: Path) -> None:
    """Delete the files of simulated clients in a run's folder."""
    from fedkin.experiment.simulated_clients import SITES

    shutil.rmtree(folder / SITES, ignore_errors=True)
