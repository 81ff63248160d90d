"""What the tables of this folder have in common: a run per cell, and figures with their spread."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fedkin.core.progress import Progress
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import CONFIG, RECORDS, TIMING, read_lines


def run(
    folder: Path, method: str, settings: Mapping[str, Any], more: Sequence[str] = (), progress: Progress | None = None
) -> None:
    """One run, unless it is there already; one that was stopped goes on."""
    if (folder / "result.json").exists():
        return
    if (folder / CONFIG).exists():
        resume(folder, progress)
    else:
        execute(load_config(method, [*overrides(settings), *more]), folder, progress)


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """Settings as ``fedkin run --set`` takes them."""
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]


def records(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's records."""
    return read_lines(folder / RECORDS)


def seconds(folder: Path) -> list[float]:
    """Seconds of a run's steps."""
    return [line["seconds"] for line in json_lines(folder / TIMING)]


def json_lines(file: Path) -> list[dict[str, Any]]:
    """A file's lines of JSON; none if it is absent."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def spread(values: Sequence[float | None], digits: int = 2) -> str:
    """Mean and standard deviation; a dash if one is not known."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return "–"
    text = f"{mean(known):.{digits}f}"
    return f"{text} ± {stdev(known):.{digits}f}" if len(known) > 1 else text
