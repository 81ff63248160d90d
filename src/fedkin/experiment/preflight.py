"""Checks before a run begins: trackers, device, engine, data and partition, without contacting a client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedkin.core.device import device_named
from fedkin.core.errors import raised_by, refuse
from fedkin.core.extras import require
from fedkin.experiment.config import Config, config_of
from fedkin.experiment.tracking import check_installed

_DECIDED_BY = ("data", "scenario", "engine", "tracking")
"""Sections that decide whether a preflight passes; the method is checked as the experiment is read."""


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
