"""Opens what a run works on: the population, read and partitioned, and the engine that reaches its clients."""

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
    """The population of an experiment and the federation that reaches it, for as long as the context lasts.

    Parameters
    ----------
    config : Config
        The experiment.
    folder : Path
        The run's.
    progress : Callback
        Gets `phase` and `part`.
    read_only : bool
        Whether no client is asked anything: Flower's simulation is not started, and no device is needed.

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
    """The federation that reaches the population's clients, by the engine of the experiment."""
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
    """Delete what simulated clients have left in a run's folder."""
    from fedkin.experiment.simulated_clients import SITES

    shutil.rmtree(folder / SITES, ignore_errors=True)
