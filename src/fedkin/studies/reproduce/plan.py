"""Plan of an entry at a scale: one run per seed and set of settings, shared by cells with the same settings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.option_models import flat
from fedkin.experiment.registry import DEFAULT_METHOD, file_name
from fedkin.studies.reproduce.entry import (
    EncoderFile,
    EntryLine,
    EntryRow,
    PaperEntry,
    RunScale,
    ScaleName,
    Settings,
    cell_name,
    measure_of,
)
from fedkin.studies.reproduce.measures import probe_of

FILE = "file:"
"""How a setting begins that names one of an entry's files."""

RUNS, FILES = "runs", "files"


@dataclass(frozen=True)
class PlannedRun:
    """Run of a plan.

    The name is that of its folder: method, data, a digest of all settings, seed; equal experiments have equal names.
    `tables` are the complete experiment, as `Config.tables`; a file that it needs is named as in the entry.
    """

    name: str
    tables: dict[str, Any]
    files: tuple[EncoderFile, ...]


@dataclass(frozen=True)
class PlannedCell:
    """Cell of a plan: row, column, and per seed one run for each of the row's settings in `EntryRow.over`."""

    row: EntryRow
    column: EntryLine
    jobs: tuple[tuple[PlannedRun, ...], ...]

    @property
    def name(self) -> str:
        return cell_name(self.row, self.column)


@dataclass(frozen=True)
class Plan:
    """Plan of an entry at a scale, with its cells row by row.

    `asked` is the name by which a user requests it: the entry's, or the path of a user's own file.
    """

    name: str
    asked: str
    entry: PaperEntry
    scale_name: ScaleName
    scale: RunScale
    cells: tuple[PlannedCell, ...]

    @property
    def jobs(self) -> dict[str, PlannedRun]:
        """Runs by name, each once."""
        return self.jobs_of(())

    def jobs_of(self, lines: Collection[str]) -> dict[str, PlannedRun]:
        """Return the runs of some cells by name: those in the named rows and columns; without row names all rows.

        All columns likewise. The result is empty if all of `lines` belong to other entries.
        """
        rows, columns = {row.name for row in self.rows}, {column.name for column in self.columns}
        if lines and not (rows | columns) & set(lines):
            return {}
        rows, columns = rows & set(lines) or rows, columns & set(lines) or columns
        chosen = [cell for cell in self.cells if cell.row.name in rows and cell.column.name in columns]
        return {job.name: job for cell in chosen for seeds in cell.jobs for job in seeds}

    @property
    def probes(self) -> dict[str, set[str]]:
        """Names of the probes of each run, by name of the run, without runs that need none."""
        needed: dict[str, set[str]] = {}
        for cell in self.cells:
            probe = probe_of(measure_of(self.entry, cell.row, cell.column))
            for job in (job for seeds in cell.jobs for job in seeds if probe):
                needed.setdefault(job.name, set()).add(str(probe))
        return needed

    @property
    def job_seconds(self) -> float:
        """Mean core seconds of a run, from the scale's `core_seconds` and its own number of seeds; 1 if not known."""
        if self.scale.core_seconds is None:
            return 1.0
        seeds = len(self.cells[0].jobs)
        return self.scale.core_seconds * seeds / len(self.scale.seeds) / len(self.jobs)

    @property
    def rows(self) -> list[EntryRow]:
        """Rows at this scale."""
        return list({cell.row.name: cell.row for cell in self.cells}.values())

    @property
    def columns(self) -> list[EntryLine]:
        """Columns at this scale."""
        return list({cell.column.name: cell.column for cell in self.cells}.values())


def plan_of(
    name: str, entry: PaperEntry, scale_name: ScaleName, seeds: int | None = None, asked: str = "", device: str = "cpu"
) -> Plan:
    """Plan the runs of an entry at a scale; its `name` is for messages, `asked` the one that a user gave, if other.

    `seeds` is their number, if not the scale's: the first of those, then the numbers that follow the greatest. `device`
    is that of the networks, for methods that have any; runs on another device are different runs. Raises FedkinError if
    the entry does not have the scale, or the settings do not form a valid experiment.
    """
    scale = entry.scales.scale(scale_name, asked or name)
    drawn = scale.seeds
    if seeds is not None:
        after = max(drawn) + 1
        drawn = [*drawn, *range(after, after + seeds)][:seeds]

    def planned(row: EntryRow, column: EntryLine) -> PlannedCell:
        runs = (
            tuple(_job(name, entry, scale, row, column, {"seed": seed, **over}, device) for over in row.over)
            for seed in drawn
        )
        return PlannedCell(row, column, tuple(runs))

    cells = [
        planned(row, column)
        for row in entry.rows
        if scale.rows is None or row.name in scale.rows
        for column in entry.columns
        if scale.columns is None or column.name in scale.columns
    ]
    return Plan(name, asked or name, entry, scale_name, scale, tuple(cells))


def _job(
    name: str, entry: PaperEntry, scale: RunScale, row: EntryRow, column: EntryLine, over: Settings, device: str
) -> PlannedRun:
    settings = {
        **row.set, **column.set, **scale.set, **scale.only.get(row.name, {}), **scale.only.get(column.name, {}), **over,
    }  # fmt: skip
    try:
        settings["engine.workers"] = 1
        found = _resolved(entry.run, settings)
        if device != "cpu" and found.method.has_device:
            found = _resolved(entry.run, {**settings, "engine.device": device})
        tables = found.tables
    except FedkinError as error:
        raise FedkinError(f"The cell '{cell_name(row, column)}' of {name} is no experiment: {error}") from error
    texts = [value for _, value in flat(tables) if isinstance(value, str)]
    needed = {text.removeprefix(FILE) for text in texts if text.startswith(FILE)}
    files = tuple(file for file in (entry.files if scale.files is None else scale.files) if file.name in needed)
    if missing := needed - {file.name for file in files}:
        raise FedkinError(
            f"The cell '{cell_name(row, column)}' of {name} needs '{missing.pop()}', not among its files."
        )
    return PlannedRun(_name(tables, files), tables, files)


def _resolved(run: Mapping[str, Any], settings: Settings) -> Config:
    """Build the complete configuration: the entry's ``[run]`` with dotted keys on top."""
    method = settings.get("method.name", run.get("method", {}).get("name", DEFAULT_METHOD))
    given = [*flat(run), *settings.items()]
    written = [f"{path}={json.dumps(value, ensure_ascii=False)}" for path, value in given]
    return load_config(str(method), written, "in its settings")


def _name(tables: Mapping[str, Any], files: tuple[EncoderFile, ...]) -> str:
    """Return the name of a run's folder: readable parts, and a digest of all settings but the seed.

    Settings that are "none" are not part of the digest, so that a new option does not rename every run.
    """
    settings = {path: value for path, value in flat(tables) if path != "seed" and value != "none"}
    settings = {path: value for path, value in settings.items() if not path.startswith("tracking.")}
    written = json.dumps([settings, [file.model_dump() for file in files]], sort_keys=True)
    digest = hashlib.sha256(written.encode()).hexdigest()[:10]
    data = re.sub(r"[^A-Za-z0-9_]+", "-", Path(str(tables["data"]["source"])).name)
    return f"{file_name(tables['method']['name'])}-{data}-{digest}-s{tables['seed']}"


def experiment_of(job: PlannedRun, out: Path) -> dict[str, Any]:
    """Return the experiment of a run, with the paths of its files below `out`."""
    places = {FILE + file.name: str(place_of(file, out)) for file in job.files}
    return {
        section: {key: places.get(value, value) if isinstance(value, str) else value for key, value in table.items()}
        if isinstance(table, dict)
        else table
        for section, table in job.tables.items()
    }


def place_of(file: EncoderFile, out: Path) -> Path:
    """Return the path of a file of runs below `out`: its name before a digest of how it is made."""
    digest = hashlib.sha256(file.model_dump_json().encode()).hexdigest()[:10]
    given = Path(file.name)
    return (out / FILES / f"{given.stem}-{digest}{given.suffix or '.safetensors'}").resolve()
