"""Entry: a table or figure of a paper as a TOML file of runs, measures and printed figures.

A cell is a row and a column. Its runs are the entry's ``[run]`` with the settings of the row, of the column and of the
scale on top, in this order; there is one for every seed. docs/reproduce.md explains how to write one.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, PositiveInt, ValidationError

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.files import read_tables
from fedkin.core.options import validation_sentence
from fedkin.experiment.sections import STRICT

ScaleName = Literal["quick", "paper"]
Settings = dict[str, Any]
"""Keys of an experiment such as ``method.local_epochs``, and their values."""
Better = Annotated[str, Field(pattern=r"^(higher|lower|near:-?[0-9.]+)$")]
"""Which figures are the better ones: higher, lower, or nearer to a number."""


class EntryLine(BaseModel):
    """Row or column of an entry.

    `set` are settings on top of the entry's ``[run]``. `measure`, `better`, `digits`, `factor` and `tolerance` override
    those of the entry; a column's take precedence over a row's. `at` is the position on the horizontal axis, for a
    column of a figure.
    """

    model_config = STRICT
    name: str
    set: Settings = {}
    measure: str | None = None
    better: Better | None = None
    digits: NonNegativeInt | None = None
    factor: FiniteFloat | None = None
    tolerance: Annotated[float, Field(ge=0)] | None = None
    at: FiniteFloat | None = None


class EntryRow(EntryLine):
    """Row of an entry.

    `paper` has the printed figure of each column, such as ``"0.894 ± 0.031"``; empty where the paper prints nothing.
    The row's figures are averaged `over` settings, each on top of all others.
    """

    paper: list[str] = []
    over: list[Settings] = [{}]


class EncoderFile(BaseModel):
    """Encoder that runs need, trained by `fedkin.studies.pretrain`; settings refer to it by ``"file:NAME"``."""

    model_config = STRICT
    name: str
    data: str
    model: str = "auto"
    epochs: PositiveInt = 20
    samples: PositiveInt | None = None
    seed: NonNegativeInt = 0


class RunScale(BaseModel):
    """Scale of an entry: how many of its runs are made, and how long.

    Every cell has one run for each of the seeds. `core_seconds` is the measured time of all runs on one core with the
    matrix speed `reproduce_terminal.REFERENCE`; without it every run counts as one second. `differs` says how the
    set-up deviates from the paper's. `set` are settings of all runs, `only` of single rows or columns, by name. By
    default all rows and columns are run, with the entry's files.
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


class EntryScales(BaseModel):
    """Scales of an entry: quick, and as in the paper, which an entry of a user's own need not have."""

    model_config = STRICT
    quick: RunScale
    paper: RunScale | None = None

    def scale(self, name: ScaleName, asked: str) -> RunScale:
        """Return a scale by name; raises FedkinError if the entry, which a user calls `asked`, does not have it."""
        found = self.quick if name == "quick" else self.paper
        if found is None:
            raise FedkinError(
                f"{asked} has no section [scales.{name}], which says how many seeds to run at this scale."
            )
        return found


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
    override it. ``{at}`` in it stands for the column's `at`, ``{column}`` for its name. `better` says which figures are
    better; `digits` are shown; ours are multiplied by `factor`, such as 100 where the paper prints percent, and may be
    `tolerance` from one of the paper's that comes without an interval, in the paper's unit.
    """

    model_config = STRICT
    title: str
    source: str = ""
    claim: str = ""
    differs: str = ""
    run: Settings = {}
    measure: str | None = None
    better: Better = "higher"
    digits: NonNegativeInt = 3
    factor: FiniteFloat = 1.0
    tolerance: Annotated[float, Field(ge=0)] = 0.03
    axis: str = ""
    files: list[EncoderFile] = []
    columns: Annotated[list[EntryLine], Field(min_length=1)]
    rows: Annotated[list[EntryRow], Field(min_length=1)]
    claims: list[PaperClaim] = []
    scales: EntryScales

    @cached_property
    def cells(self) -> set[str]:
        """Return the names of all cells, as claims use them."""
        return {cell_name(row, column) for row in self.rows for column in self.columns}

    @property
    def about(self) -> str:
        """Place in the paper, if there is one, and title."""
        return f"{self.source}: {self.title}" if self.source else self.title


def cell_name(row: EntryLine, column: EntryLine) -> str:
    """Return the name of a cell, as claims use it."""
    return f"{row.name} | {column.name}"


def measure_of(entry: PaperEntry, row: EntryLine, column: EntryLine, where: Path | str = "The entry") -> str:
    """Return the measure of a cell: that of its column, else of its row, else of the entry.

    Raises FedkinError if there is none, or it needs the column's position and there is none; `where` names the entry in
    the message.
    """
    measure = column.measure or row.measure or entry.measure
    if measure is None:
        raise FedkinError(f"{where} does not say what to measure in '{cell_name(row, column)}'.")
    measure = measure.replace("{column}", column.name)
    if "{at}" not in measure:
        return measure
    if column.at is None:
        raise FedkinError(f"{where} measures '{measure}' in column '{column.name}', which has no 'at' to put in.")
    return measure.replace("{at}", f"{column.at:g}")


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
    root = folder_of_entries()
    names = [f"{path.parent.name}/{path.stem}" for path in root.glob("*/*.toml")]
    return sorted(names, key=_in_order)


def _in_order(name: str) -> tuple[str, str, int]:
    stem, _, number = name.rpartition("-")
    return (name.partition("/")[0], stem, int(number)) if number.isdigit() else (name.partition("/")[0], name, 0)


def chosen(name: str) -> dict[str, Path]:
    """Return the entries that a name stands for: one, all of a paper, ``all``, or a user's own TOML file.

    Raises FedkinError if there is no such entry, or the file cannot be read.
    """
    if name.endswith(".toml"):
        read_tables(Path(name))
        return {Path(name).stem: Path(name)}
    known, root = names_of_entries(), folder_of_entries()
    found = [one for one in known if name in ("all", one, one.partition("/")[0])]
    if not found:
        raise unknown_name("entry", name, ["all", *{one.partition("/")[0] for one in known}, *known])
    return {one: root / f"{one}.toml" for one in found}


def load_entry(path: Path) -> PaperEntry:
    """Read and check one entry.

    Raises FedkinError if the file cannot be read, a key or value is not allowed, or names in it do not fit together.
    """
    tables = read_tables(path)
    try:
        entry = PaperEntry.model_validate(tables)
    except ValidationError as error:
        raise validation_sentence(error, tables, (), f"in {path}") from error
    _check_names(entry, path)
    return entry


def _check_names(entry: PaperEntry, path: Path) -> None:
    from fedkin.studies.reproduce.measures import check
    from fedkin.studies.reproduce.verdict import printed

    rows, columns = [row.name for row in entry.rows], [column.name for column in entry.columns]
    for kind, names in (("rows", rows), ("columns", columns)):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise FedkinError(f"Two {kind} of {path} are called '{twice[0]}'; every one needs a name of its own.")
    for row in entry.rows:
        if row.paper and len(row.paper) != len(columns):
            raise FedkinError(
                f"Row '{row.name}' of {path} has {len(row.paper)} figures of the paper for {len(columns)} columns."
            )
        for figure in row.paper:
            printed(figure)
        for column in entry.columns:
            check(measure_of(entry, row, column, path))
    for name, scale in (("quick", entry.scales.quick), ("paper", entry.scales.paper)):
        if scale is None:
            continue
        for kind, named, known in (
            ("row", scale.rows or [], rows),
            ("column", scale.columns or [], columns),
            ("row or column", list(scale.only), [*rows, *columns]),
        ):
            for one in named:
                if one not in known:
                    raise unknown_name(f"{kind} in 'scales.{name}' of {path}:", one, known)
    for claim in entry.claims:
        for link in claim.chain:
            if isinstance(link, str) and link not in entry.cells:
                raise unknown_name(f"cell in a claim of {path}:", link, entry.cells)
