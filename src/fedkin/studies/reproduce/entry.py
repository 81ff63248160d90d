"""Entry: a table or figure of a paper as a TOML file of runs, measures and printed figures.

A cell is a row and a column. Its runs are the entry's ``[run]`` with the settings of the row, of the column and of the
scale on top, in this order; there is one for every seed. docs/reproduce.md explains how to write one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, PositiveInt, ValidationError

from fedkin.core import FedkinError
from fedkin.core.errors import listing, unknown_name
from fedkin.core.files import read_tables
from fedkin.core.method import validation_sentence
from fedkin.experiment.config import STRICT, flat, load_config
from fedkin.experiment.registry import DEFAULT_METHOD, file_name, resolve

ScaleName = Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
"""``quick``, ``paper``, or one of an entry's own, such as that of rows whose data few have."""
Settings = dict[str, Any]
"""Keys of an experiment such as ``method.local_epochs``, and their values."""


@dataclass(frozen=True)
class Figure:
    """Mean over seeds, with its confidence interval.

    `half` is that of the 95 % interval of the mean, by Student's t; ``None`` for a single seed, or where none was
    printed. `seeds` is the number of values that were averaged; 0 if unknown. `rounding` is the largest rounding error
    of a printed value; 0 for a measured one.
    """

    value: float
    half: float | None = None
    seeds: int = 0
    rounding: float = 0.0

    def shown(self, digits: int) -> str:
        """Format the figure for a table, such as ``"0.894 ± 0.031"``."""
        return " ± ".join(f"{number:.{digits}f}" for number in (self.value, self.half) if number is not None)


def printed(text: str) -> Figure | None:
    """Parse a figure as a paper prints it; ``None`` for an empty text or a dash.

    Raises FedkinError if it is neither a number nor a number with an interval.
    """
    if text.strip() in ("", "-", "–"):
        return None
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?", text.strip())
    if not match:
        raise FedkinError(f"'{text}' is not a figure; it should be like '0.894', '0.894 ± 0.031' or ''.")
    places = len(match[1].partition(".")[2])
    return Figure(float(match[1]), None if match[2] is None else float(match[2]), rounding=0.5 * 10.0**-places)


class EntryLine(BaseModel):
    """Row or column of an entry.

    `set` are settings on top of the entry's ``[run]``. `measure`, `digits`, `factor` and `tolerance` override
    those of the entry; a column's take precedence over a row's. `at` is the position on the horizontal axis, for a
    column of a figure; `clusters` their number in a column, for methods of rows that cannot find it. `paper` has for a
    row the printed figure of each column, such as ``"0.894 ± 0.031"``; empty where the paper prints nothing.
    """

    model_config = STRICT
    name: str
    set: Settings = {}
    measure: str | None = None
    digits: NonNegativeInt | None = None
    factor: FiniteFloat | None = None
    tolerance: Annotated[float, Field(ge=0)] | None = None
    at: FiniteFloat | None = None
    clusters: PositiveInt | None = None
    paper: list[str] = []


class EncoderFile(BaseModel):
    """Encoder that runs need, trained by `fedkin.studies.pretrain`; settings refer to it by ``"file:NAME"``."""

    model_config = STRICT
    name: str
    data: str
    model: str = "auto"
    epochs: PositiveInt = 20
    samples: PositiveInt | None = None
    seed: NonNegativeInt = 0

    def place(self, out: Path) -> Path:
        """Return its path below `out`: its name before a digest of how it is made."""
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:10]
        name = Path(self.name)
        return (out / "files" / f"{name.stem}-{digest}{name.suffix or '.safetensors'}").resolve()


class RunScale(BaseModel):
    """Scale of an entry: how many of its runs are made, and how long.

    Every cell has one run for each of the seeds. `core_seconds` is the measured time of all runs on one core that makes
    100 GFLOP/s of single-precision matrix products. `differs` says how the set-up deviates from the paper's. `set` are
    settings of all runs, `only` of single rows, columns or cells, by name. By default all rows and columns are run,
    with the entry's files.
    """

    model_config = STRICT
    seeds: Annotated[list[NonNegativeInt], Field(min_length=1)]
    core_seconds: Annotated[float, Field(gt=0)] | None = None
    differs: str = ""
    set: Settings = {}
    only: dict[str, Settings] = {}
    rows: list[str] | None = None
    columns: list[str] | None = None
    files: list[EncoderFile] | None = None


class PaperClaim(BaseModel):
    """Conclusion that a paper draws from its table, in a form that can be checked.

    `chain` has cells, as ``"row | column"``, and numbers; the claim holds if every one is at least the next one, or
    below it by no more than `margin`.
    """

    model_config = STRICT
    text: str
    chain: Annotated[list[str | FiniteFloat], Field(min_length=2)]
    margin: Annotated[float, Field(ge=0)] = 0.0


class PaperEntry(BaseModel):
    """Table or figure of a paper.

    `title` is its subject, `source` its place in the paper, such as ``"Table 6"``, and `claim` what it should show; the
    last two may be empty.
    `differs` says how all scales deviate from the paper's set-up. All cells start from the experiment `run`, as in a
    file for ``fedkin run``. `measure` is that of a run, see `fedkin.studies.reproduce.measures`; rows and columns may
    override it. ``{at}`` in it stands for the column's `at`, ``{column}`` for its name. `digits` are shown; ours are
    multiplied by `factor`, such as 100 where the paper prints percent, and may be `tolerance` from one of the paper's
    that comes without an interval, in the paper's unit. With `ranks` rows are ranked over the columns.
    """

    model_config = STRICT
    title: str
    source: str = ""
    claim: str = ""
    differs: str = ""
    run: Settings = {}
    measure: str | None = None
    digits: NonNegativeInt = 3
    factor: FiniteFloat = 1.0
    tolerance: Annotated[float, Field(ge=0)] = 0.03
    axis: str = ""
    ranks: bool = False
    files: list[EncoderFile] = []
    columns: Annotated[list[EntryLine], Field(min_length=1)]
    rows: Annotated[list[EntryLine], Field(min_length=1)]
    claims: list[PaperClaim] = []
    scales: dict[ScaleName, RunScale]

    @property
    def heading(self) -> str:
        """Place in the paper, if there is one, and title."""
        return f"{self.source}: {self.title}" if self.source else self.title


@dataclass(frozen=True, eq=False)
class Cell:
    """Cell of an entry: its row, its column and what is measured; `name` is that in claims."""

    row: EntryLine
    column: EntryLine
    measure: str

    @property
    def name(self) -> str:
        return f"{self.row.name} | {self.column.name}"


def cells_of(entry: PaperEntry) -> list[Cell]:
    """Return the cells of an entry row by row, each with the measure of its column, else of its row, else the entry's.

    Raises FedkinError if a cell has none, or one that needs the column's position where there is none.
    """
    cells = []
    for row in entry.rows:
        for column in entry.columns:
            cell = Cell(row, column, column.measure or row.measure or entry.measure or "")
            if not cell.measure or ("{at}" in cell.measure and column.at is None):
                raise FedkinError(f"Cell '{cell.name}' needs a 'measure', and 'at' in its column if that has {{at}}.")
            at = "" if column.at is None else f"{column.at:g}"
            measure = cell.measure.replace("{column}", column.name).replace("{at}", at)
            cells.append(replace(cell, measure=measure))
    return cells


def folder_of_entries() -> Path:
    """Return the folder of the papers' entries: in the package, or beside the sources in a checkout."""
    packaged = Path(str(resources.files("fedkin"))) / "experiments"
    beside = Path(__file__).parents[4] / "experiments"
    for folder in (packaged, beside):
        if folder.is_dir():
            return folder
    raise FedkinError(f"The papers' experiments are neither in {packaged} nor in {beside}; reinstall fedkin.")


def names_of_entries() -> list[str]:
    """List all entries as ``paper/table-1``, in order of paper and number."""
    names = [f"{path.parent.name}/{path.stem}" for path in folder_of_entries().glob("*/*.toml")]
    # Numbers in their order, and not table-10 before table-2.
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def entries_named(name: str) -> dict[str, Path]:
    """Return the entries that a name stands for: one, all of a paper, ``all``, or a user's own TOML file.

    Raises FedkinError if there is no such entry, or the file cannot be read.
    """
    if name.endswith(".toml"):
        read_tables(Path(name))
        return {name: Path(name)}
    names, root = names_of_entries(), folder_of_entries()
    entries = [entry for entry in names if name in ("all", entry, entry.partition("/")[0])]
    if not entries:
        papers = list(dict.fromkeys(entry.partition("/")[0] for entry in names))
        raise unknown_name("entry", name, ["all", *papers, *names])
    return {entry: root / f"{entry}.toml" for entry in entries}


def load_entry(path: Path) -> PaperEntry:
    """Read and check one entry.

    Raises FedkinError if the file cannot be read, a key or value is not allowed, or names in it do not fit together.
    """
    from fedkin.studies.reproduce.measures import check  # which takes torch, and seconds

    tables = read_tables(path)
    try:
        entry = PaperEntry.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, (), f"in {path}") from error
    try:
        cells = cells_of(entry)
        for cell in cells:
            check(cell.measure)
        for text in [figure for row in entry.rows for figure in row.paper]:
            printed(text)
    except FedkinError as error:
        raise FedkinError(f"{path}: {error}") from error
    rows, columns = [row.name for row in entry.rows], [column.name for column in entry.columns]
    if len({*rows}) < len(rows) or len({*columns}) < len(columns):
        raise FedkinError(f"Two rows or columns of {path} have one name; each needs one of its own.")
    if wrong := [row.name for row in entry.rows if row.paper and len(row.paper) != len(columns)]:
        raise FedkinError(f"Row '{wrong[0]}' of {path} needs a figure of the paper, perhaps '', for every column.")
    names = {cell.name for cell in cells}
    used = [link for claim in entry.claims for link in claim.chain if isinstance(link, str)]
    for scale in entry.scales.values():
        names |= {*rows, *columns}
        used += [*(scale.rows or []), *(scale.columns or []), *scale.only]
    if unknown := [name for name in used if name not in names]:
        raise unknown_name(f"row, column or cell in {path}:", unknown[0], names)
    return entry


FILE = "file:"
"""How a setting begins that names one of an entry's files."""


@dataclass(frozen=True)
class PlannedRun:
    """Run of a plan.

    The name is that of its folder: method, data, a digest of all settings, seed; equal experiments have equal names.
    `tables` are the complete experiment, as `Config.tables`; a file that it needs is named as in the entry.
    """

    name: str
    tables: dict[str, Any]
    files: tuple[EncoderFile, ...]

    def experiment(self, out: Path) -> dict[str, Any]:
        """Return the experiment with the paths of its files below `out`."""
        places = {FILE + file.name: str(file.place(out)) for file in self.files}
        return {
            name: {key: places.get(value, value) if isinstance(value, str) else value for key, value in table.items()}
            if isinstance(table, dict)
            else table
            for name, table in self.tables.items()
        }


@dataclass(frozen=True)
class Plan:
    """Plan of an entry at a scale: the runs of each cell, one per seed.

    `request` is the name by which a user requests it: the entry's, or the path of a user's own file.
    """

    request: str
    entry: PaperEntry
    scale_name: ScaleName
    scale: RunScale
    cells: dict[Cell, tuple[PlannedRun, ...]]

    @property
    def name(self) -> str:
        """Name of the folder for tables."""
        return Path(self.request).stem if self.request.endswith(".toml") else self.request

    def runs(self) -> dict[str, tuple[PlannedRun, set[str]]]:
        """Return the runs by name, each once, with the names of its probes."""
        runs: dict[str, tuple[PlannedRun, set[str]]] = {}
        for cell, planned in self.cells.items():
            probe, slash, _ = cell.measure.partition("/")
            for run in planned:
                runs.setdefault(run.name, (run, set()))[1].update({probe} if slash else ())
        return runs


def plan_of(
    request: str, entry: PaperEntry, scale_name: ScaleName, seeds: int | None = None, device: str = "cpu"
) -> Plan:
    """Plan the runs of an entry at a scale; `request` is what a user typed.

    `seeds` is their number, if not the scale's: the first of those, then the numbers that follow the greatest. `device`
    is that of the networks, for methods that have any; runs on another device are different runs. Raises FedkinError if
    the entry does not have the scale, or the settings do not form a valid experiment.
    """
    scale = entry.scales.get(scale_name)
    if scale is None:
        raise FedkinError(f"{request} has no [scales.{scale_name}], but {listing(sorted(entry.scales), 8)}.")
    numbers = scale.seeds
    if seeds is not None:
        after = max(numbers) + 1
        numbers = [*numbers, *range(after, after + seeds)][:seeds]
    cells = {
        cell: tuple(_run(entry, scale, cell, seed, device) for seed in numbers)
        for cell in cells_of(entry)
        if (scale.rows is None or cell.row.name in scale.rows)
        and (scale.columns is None or cell.column.name in scale.columns)
    }
    return Plan(request, entry, scale_name, scale, cells)


def _run(entry: PaperEntry, scale: RunScale, cell: Cell, seed: int, device: str) -> PlannedRun:
    row, column = cell.row, cell.column
    only = {
        key: value for name in (row.name, column.name, cell.name) for key, value in scale.only.get(name, {}).items()
    }
    settings = {**row.set, **column.set, **scale.set, **only, "seed": seed, "device.workers": 1}
    method = str(settings.get("method.name", entry.run.get("method", {}).get("name", DEFAULT_METHOD)))
    try:
        traits = resolve("method", method).traits
        if column.clusters is not None and traits.takes_k and not traits.finds_k:
            settings["method.n_clusters"] = column.clusters
        if device != "cpu" and traits.has_device:
            settings["device.name"] = device
        pairs = [*flat(entry.run), *settings.items()]
        written = [f"{path}={json.dumps(value, ensure_ascii=False)}" for path, value in pairs]
        tables = load_config(method, written, "in its settings").tables
    except FedkinError as error:
        raise FedkinError(f"The cell '{cell.name}' is no experiment: {error}") from error
    values = [value for _, value in flat(tables) if isinstance(value, str)]
    names = {value.removeprefix(FILE) for value in values if value.startswith(FILE)}
    files = tuple(file for file in (entry.files if scale.files is None else scale.files) if file.name in names)
    if missing := names - {file.name for file in files}:
        raise FedkinError(f"The cell '{cell.name}' needs '{missing.pop()}', not among its files.")
    return PlannedRun(_name(tables, files), tables, files)


def _name(tables: Mapping[str, Any], files: tuple[EncoderFile, ...]) -> str:
    """Return the name of a run's folder: readable parts, and a digest of all settings but the seed.

    Settings that are "none" are not part of the digest, so that a new option does not rename every run.
    """
    settings = {path: value for path, value in flat(tables) if path != "seed" and value != "none"}
    written = json.dumps([settings, [file.model_dump() for file in files]], sort_keys=True)
    digest = hashlib.sha256(written.encode()).hexdigest()[:10]
    data = re.sub(r"[^A-Za-z0-9_]+", "-", Path(str(tables["data"]["source"])).name)
    return f"{file_name(tables['method']['name'])}-{data}-{digest}-s{tables['seed']}"
