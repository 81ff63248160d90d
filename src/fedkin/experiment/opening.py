"""Opens what a run works on: the population, read and partitioned, and the engine that reaches its clients."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from fedkin.core import Federation
from fedkin.core.device import device_named, on
from fedkin.core.progress import Callback
from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import Config
from fedkin.experiment.label_files import short_names


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
            local.client_names = short_names(population.names)
            yield population, local
            return
        from fedkin.experiment.simulated_clients import simulated, unreachable

        if read_only:
            yield population, unreachable(config.seed, population, folder)
            return
        progress.phase("Starting Flower's simulation")
        with simulated(config, population, folder, progress.part) as fed:
            fed.client_names = short_names(population.names)
            yield population, fed


def forget_clients(folder: Path) -> None:
    """Delete what simulated clients have left in a run's folder."""
    from fedkin.experiment.simulated_clients import SITES

    shutil.rmtree(folder / SITES, ignore_errors=True)
