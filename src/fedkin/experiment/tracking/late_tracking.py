"""Send a finished or stopped run's steps to trackers afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.core.progress import run_with_callbacks
from fedkin.experiment.run_folder import CONFIG, RECORDS, no_run, read_lines, run_config
from fedkin.experiment.tracking import Trackers, check_installed


def track(folder: Path, to: Sequence[str] = (), settings: Sequence[str] = (), anew: bool = False) -> int:
    """Send the steps of a run to trackers that do not have them yet, and the result; return how many steps it has.

    `to` are names of trackers, by default those of the run's configuration, which `settings` override, each a
    ``"tracking.key=value"``. With `anew` a new tracked run is started where a tracker knows the run already. Raises
    FedkinError if there is no run or no step, a name or setting is not allowed, another process is at work in the
    folder, or a tracker is not installed or cannot be reached.
    """
    if not (folder / CONFIG).is_file():
        raise no_run(folder)
    for setting in settings:
        if not setting.startswith("tracking."):
            raise FedkinError(f"--set takes tracking.key=value here, not '{setting}'; the run has been made.")
    names = [f"tracking.to={json.dumps(list(to))}"] if to else []
    config = run_config(folder, [*names, *settings])
    if not config.tracking.to:
        raise FedkinError(f"{folder} has no tracker configured; pass --to, as in --to mlflow.")
    check_installed(config.tracking)
    with folder_lock(folder):
        steps = len(read_lines(folder / RECORDS))
        if not steps:
            raise FedkinError(f"{folder} has no step to track yet; resume it with `fedkin resume {folder}`.")
        with run_with_callbacks(Trackers(config, folder, _refuse, anew)):
            return steps


def _refuse(sentence: str) -> NoReturn:
    raise FedkinError(f"{sentence}.")
