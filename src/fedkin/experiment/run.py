"""Run an experiment from its configuration to a folder of results.

The folder holds ``config.toml`` (complete), ``records.jsonl`` (one line per step), ``checkpoint.safetensors`` (replaced
after every step), and at the end ``labels/<client>.csv``, ``result.json`` with ``models.safetensors``, ``SHA256SUMS``
of all but the checkpoint, which has its own, and ``report.html``. Killed at any moment and resumed, a run leaves the
same bytes as one that was never stopped, in every file except ``timing.jsonl``. That has the seconds of each step, and
those all clients together computed in it; its step 0 is preparing the data and the method's init. With the engine
``flower`` a client's private files are in ``clients/<id>``, where ``identity`` is random, too. While a process works in
the folder, ``.fedkin.lock`` is there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin.core import Federation, FedkinError
from fedkin.core.device import check_compiler, device_named, on
from fedkin.core.errors import raised_by, refuse, require
from fedkin.core.files import check_empty, folder_lock
from fedkin.core.progress import Callback, Progress
from fedkin.data.population import Population, short_names
from fedkin.engines.local import LocalFederation
from fedkin.experiment.checkpoint import load_checkpoint
from fedkin.experiment.checksums import SUMS
from fedkin.experiment.config import Config, config_of
from fedkin.experiment.data_overview import overview
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CLIENT_FOLDERS,
    CONFIG,
    LEDGER,
    REPORT,
    TIMING,
    no_run,
    run_config,
    write_config,
)
from fedkin.experiment.run_loop import Run, RunOutcome, check_data, prepare
from fedkin.experiment.tracking import NOTES, check_installed

_DECIDED_BY = ("data", "scenario", "engine", "tracking")
"""Sections that decide whether a preflight passes; the method is checked as the experiment is read."""

_REMEDY = "give another --out, or `fedkin resume` it if it is a run"
"""How to go on where a run's folder is not empty."""


def execute(
    config: Config, folder: Path, progress: Progress | None = None, callbacks: Sequence[Callback] = ()
) -> RunOutcome:
    """Run an experiment into `folder`.

    Parameters
    ----------
    config : Config
    folder : Path
        Empty or absent.
    progress : Progress, optional
        Shows the progress.
    callbacks : sequence of Callback, optional
        Called as the run proceeds, too.

    Raises
    ------
    FedkinError
        If `folder` is not empty or another process works there, the data are refused, a file cannot be written, or a
        tracker is not installed or cannot be opened.
    """
    check_empty(folder, _REMEDY)
    check_installed(config.tracking)
    progress = progress or Progress()
    with folder_lock(folder):
        check_empty(folder, _REMEDY)
        began = False
        try:
            write_config(folder, config)
            with _opened(config, folder, progress, callbacks) as run:
                began = True
                return run.finish()
        except BaseException as error:
            refused = isinstance(error, FedkinError) and not (folder / CHECKPOINT).exists()
            if refused or not began:  # the folder is free for another try
                _clear(folder)
            raise


def check(config: Config, folder: Path, progress: Progress | None = None) -> str:
    """Check that an experiment can begin in `folder`, as `execute` would, and prepare its data; nothing is written.

    Returns what was read of the data, see `fedkin.experiment.data_overview`; `progress` is warned of what is noted of
    them. The clients are in this process, whatever the engine. Raises FedkinError if `folder` is not empty, the
    data do not fit together, or as `check_experiment` does.
    """
    check_empty(folder, _REMEDY)
    check_machine(config)
    here = replace(config, engine=config.engine.model_copy(update={"name": "local"}))
    progress = progress or Progress()
    with open_federation(here, folder, progress) as (population, fed):
        return overview(population, check_data(here, population, fed, progress))


def resume(
    folder: Path, progress: Progress | None = None, callbacks: Sequence[Callback] = (), device: str | None = None
) -> RunOutcome:
    """Resume the run in `folder` from its last checkpoint; the results of a finished run are written again.

    `device` is where networks and large searches compute from here on, if not as ``config.toml`` says, which stays as
    it is.

    Raises
    ------
    FedkinError
        If `folder` holds no run, its files do not fit together or are of another version, there is no such device,
        or another process works there.
    """
    if not (folder / CONFIG).is_file():
        raise no_run(folder)
    _check_here(folder, "`./flwr.sh run . federation --stream` in its app's folder resumes it")
    with folder_lock(folder):
        config = _config_in(folder, [] if device is None else [f"engine.device={json.dumps(device)}"])
        check_installed(config.tracking)
        with _opened(config, folder, progress or Progress(), callbacks) as run:
            return run.finish()


def report(folder: Path) -> Path:
    """Write ``report.html`` of the run in `folder` again, as of its last step, and return its path.

    Raises
    ------
    FedkinError
        If `folder` holds no run that has made a step, or one of another version.
    """
    _check_here(folder, "its server writes the report when the run ends")
    if (folder / CONFIG).is_file() and not (folder / CHECKPOINT).exists():
        raise FedkinError(f"{folder} has nothing to report yet; resume it with `fedkin resume {folder}`.")
    with _opened(_config_in(folder), folder, Progress(), read_only=True) as run:
        state = run.last_state()
        assert state is not None
        run.write_report(state)
    return folder / REPORT


@contextmanager
def open_federation(
    config: Config, folder: Path, progress: Callback, read_only: bool = False
) -> Iterator[tuple[Population, Federation]]:
    """Open the population of an experiment and the federation that reaches it, as a context manager.

    `folder` is the run's; `progress` receives `phase` and `part`. If it is `read_only`, no client is contacted:
    Flower's simulation is not started, and no device is needed. Raises FedkinError if there is no such device, or the
    data are refused.
    """
    engine = config.engine
    device = None if read_only else device_named(engine.device, "'engine.device'")
    if device is not None and engine.compile:
        check_compiler(device)
    with nullcontext() if device is None else on(device, engine.tf32, engine.execution):
        progress.phase(f"Reading {config.data.source}")
        population = config.population()
        with _reached(config, population, folder, progress, read_only) as fed:
            yield population, fed


def _reached(
    config: Config, population: Population, folder: Path, progress: Callback, read_only: bool
) -> AbstractContextManager[Federation]:
    """Connect to the population's clients with the engine of the configuration."""
    engine = config.engine
    common = {
        "names": short_names(population.names), "min_clients": engine.min_clients, "on_drop": progress.warn
    }  # fmt: skip
    if engine.name != "flower":
        local = LocalFederation(
            population.clients,
            seed=config.seed,
            chunk=None if engine.chunk == "auto" else engine.chunk,
            workers=None if engine.workers == "auto" else engine.workers,
            drop_rate=engine.drop_rate,
            failures=engine.failures,
            on_progress=progress.part,
            **common,
        )
        return nullcontext(local)
    from fedkin.experiment.simulated_clients import UnreachableFederation, simulated

    if read_only:
        return nullcontext(UnreachableFederation(config.seed, population, folder, **common))
    progress.phase("Starting Flower's simulation")
    return simulated(config, population, folder, on_progress=progress.part, **common)


@contextmanager
def _opened(
    config: Config, folder: Path, progress: Progress, callbacks: Sequence[Callback] = (), read_only: bool = False
) -> Iterator[Run]:
    """Open the federation and prepare the run of an experiment in `folder`, as a context manager."""
    with open_federation(config, folder, progress, read_only) as (population, fed):
        yield prepare(config, folder, population, fed, progress, callbacks)


def _config_in(folder: Path, overrides: Sequence[str] = ()) -> Config:
    """Read the configuration of the run in `folder`; where another version wrote it, that is the error."""
    try:
        return run_config(folder, overrides)
    except FedkinError:
        load_checkpoint(folder / CHECKPOINT)
        raise


def _check_here(folder: Path, instead: str) -> None:
    """Check that the run's clients are on this machine; `instead` says who does it where they are distant sites."""
    if (folder / LEDGER).is_file():
        raise FedkinError(f"{folder} is the run of a real federation; {instead}.")


def _clear(folder: Path) -> None:
    """Delete what a run wrote into its empty folder before it failed in its first step."""
    for name in (CONFIG, SUMS, TIMING, NOTES):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / CLIENT_FOLDERS, ignore_errors=True)


def check_experiment(config: Config) -> None:
    """Check that an experiment can begin on this machine, including reading and partitioning its data.

    Raises FedkinError if a tracker, the device or the engine is not there, or the data are refused.
    """
    check_machine(config)
    config.population()


def check_machine(config: Config) -> None:
    """Check that the trackers, the device and the engine of an experiment are available."""
    check_installed(config.tracking)
    device_named(config.engine.device, "'engine.device'")
    if config.engine.name == "flower":
        require("Engine 'flower'", "flwr ray", "flower")


def check_all(experiments: Iterable[Mapping[str, Any]], on_part: Callable[[int, int], None] | None = None) -> None:
    """Check many experiments, as `Config.tables`, before the first begins.

    Experiments that differ in method or seed alone are checked once. `on_part` is called with the number of checked
    experiments and the total. Raises FedkinError, with a line for each problem.
    """
    different: dict[str, Mapping[str, Any]] = {}
    for tables in experiments:
        different.setdefault(json.dumps([tables.get(name) for name in _DECIDED_BY], sort_keys=True), tables)
    problems: dict[str, None] = {}
    for done, tables in enumerate(different.values(), 1):
        problems |= dict.fromkeys(raised_by(lambda tables=tables: check_experiment(config_of(dict(tables)))))
        if on_part:
            on_part(done, len(different))
    refuse(problems)
