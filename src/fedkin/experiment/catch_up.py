"""Tools that track runs, told of a run after it was made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from fedkin.core import FedkinError
from fedkin.core.files import occupied
from fedkin.experiment.config import load_config
from fedkin.experiment.run import CONFIG, RECORDS, TIMING, TRACKED
from fedkin.experiment.tracking import Trackers, check_installed


def track(folder: Path, to: Sequence[str] = (), settings: Sequence[str] = (), anew: bool = False) -> int:
    """Send a run's records to tools: the steps that they do not have yet, and what the run found.

    Parameters
    ----------
    folder : Path
        The run's.
    to : sequence of str
        Names of tools; by default those that the experiment names.
    settings : sequence of str
        ``"tracking.key=value"``, in place of what the experiment says.
    anew : bool
        Whether to start a new tracked run where a tool knows the run already.

    Returns
    -------
    int
        How many steps the run has.

    Raises
    ------
    FedkinError
        If there is no run or no step, a name or setting is not allowed, another process is at work in the folder, or
        a tool is not installed or cannot be told.
    """
    if not (folder / CONFIG).is_file():
        raise FedkinError(f"{folder} holds no run: {CONFIG} is absent.")
    for setting in settings:
        if not setting.startswith("tracking."):
            raise FedkinError(f"--set takes tracking.key=value here, not '{setting}'; the run has been made.")
    names = [f"tracking.to={json.dumps(list(to))}"] if to else []
    config = load_config(folder / CONFIG, [*names, *settings])
    if not config.tracking.to:
        raise FedkinError(f"{folder} says of no tool to track it with; name one, as in --to mlflow.")
    check_installed(config.tracking)
    with occupied(folder):
        records, timing = (_lines(folder / name) for name in (RECORDS, TIMING))
        if not records:
            raise FedkinError(f"{folder} has no step to tell of yet; go on with `fedkin resume {folder}`.")
        with Trackers(config, folder, TRACKED, _refuse, anew).at_work(records, timing):
            return len(records)


def _refuse(sentence: str) -> NoReturn:
    raise FedkinError(f"{sentence}.")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
