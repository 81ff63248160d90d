"""What a run works on: who takes part, read and dealt out, and the engine that reaches them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

from fedkin.core import Federation
from fedkin.core.device import device_named, on
from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import Config


class Told(Protocol):
    """Who is told what goes on; a run's `Progress`."""

    def phase(self, text: str) -> None: ...

    def part(self, done: int, total: int) -> None: ...


@contextmanager
def world_of(config: Config, folder: Path, told: Told, to_work: bool = True) -> Iterator[tuple[Population, Federation]]:
    """Who takes part, read and dealt out, and the engine that reaches them, for as long as the context lasts.

    Networks compute on the run's device, unless nothing is to be worked on.

    Raises
    ------
    FedkinError
        If there is no such device, or the data are refused.
    """
    with on(device_named(config.engine.device, "'engine.device'")) if to_work else nullcontext():
        yield from _worlds(config, folder, told, to_work)


def forget_clients(folder: Path) -> None:
    """Take away what simulated clients have left in a run's folder."""
    from fedkin.experiment.simulated_clients import SITES

    shutil.rmtree(folder / SITES, ignore_errors=True)


def _worlds(config: Config, folder: Path, told: Told, to_work: bool) -> Iterator[tuple[Population, Federation]]:
    told.phase(f"Reading {config.data.source}")
    population: Population = config.scenario.build(config.data_seed).without(config.engine.absent, config.data_seed)
    if config.engine.name == "flower":
        from fedkin.experiment.simulated_clients import seen, simulated

        if not to_work:
            yield population, seen(config, population, folder)
            return
        told.phase("Starting Flower's simulation")
        with simulated(config, population, folder, told.part) as fed:
            yield population, fed
    else:
        yield population, _local(config, population, told)


def _local(config: Config, population: Population, told: Told) -> LocalFederation:
    engine = config.engine
    return LocalFederation(
        population.clients,
        seed=config.seed,
        chunk=None if engine.chunk == "auto" else engine.chunk,
        workers=None if engine.workers == "auto" else engine.workers,
        drop_rate=engine.drop_rate,
        failures=engine.failures,
        on_progress=told.part,
    )
