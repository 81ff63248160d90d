"""Steps of ``fedkin reproduce``, from names of entries to tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.files import write_atomically
from fedkin.experiment.run import check_all
from fedkin.experiment.run_folder import is_finished
from fedkin.report import write_page
from fedkin.studies.reproduce.entry import EncoderFile, ScaleName, chosen, load_entry
from fedkin.studies.reproduce.entry_table import EntryTable, table_of
from fedkin.studies.reproduce.plan import RUNS, Plan, PlannedRun, experiment_of, place_of, plan_of
from fedkin.studies.reproduce.probes import is_probed
from fedkin.studies.reproduce.reproduce_page import page, page_of_all
from fedkin.studies.reproduce.reproduce_words import markdown, summary
from fedkin.studies.run_pool import run_all


class Watcher:
    """Callbacks for the progress of a reproduction; this base class ignores it."""

    def checking(self, done: int, total: int) -> None:
        """Called when `done` of `total` different data sets, partitions and engines are checked."""

    def preparing(self, what: str) -> None:
        """Called before a file that runs need is made."""

    def began(self, done: int, total: int) -> None:
        """Called at the start, when `done` of `total` runs are finished already."""

    def ended(self, name: str, failed: str | None, ahead: float) -> None:
        """Called when a run ended; `ahead` is the fraction of all work that is done."""


@dataclass
class Grid:
    """Runs of several plans, each once, and their share of the work; `only` restricts them to some rows and columns."""

    plans: Sequence[Plan]
    only: Collection[str] = ()
    jobs: dict[str, PlannedRun] = field(default_factory=dict)
    probes: dict[str, set[str]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for plan in self.plans:
            probes, weight = plan.probes, plan.job_seconds
            for name, job in plan.jobs_of(self.only).items():
                self.jobs.setdefault(name, job)
                self.weights.setdefault(name, weight)
                self.probes.setdefault(name, set()).update(probes.get(name, ()))

    def pending(self, runs: Path) -> dict[str, PlannedRun]:
        """Return the runs that are not finished or probed yet, the longest first, so that all cores end together."""
        left = [name for name in self.jobs if not self._is_done(name, runs / name)]
        return {name: self.jobs[name] for name in sorted(left, key=lambda name: (-self.weights[name], name))}

    def _is_done(self, name: str, folder: Path) -> bool:
        return is_finished(folder) and all(is_probed(probe, folder) for probe in self.probes[name])


def plans_of(names: Sequence[str], scale: ScaleName, seeds: int | None = None, device: str = "cpu") -> list[Plan]:
    """Plan the entries that `names` stand for, each once.

    Raises FedkinError if there is no such entry, one cannot be used, or two files have one name.
    """
    paths: dict[str, Path] = {}
    for name, path in (item for given in names for item in chosen(given).items()):
        first = paths.setdefault(name, path)
        if first.resolve() != path.resolve():
            raise FedkinError(f"{first} and {path} have one name, '{name}', and so one folder for tables; rename one.")
    plans = []
    for name, path in paths.items():
        asked = str(path) if Path(name).parent == Path() else name
        plans.append(plan_of(name, load_entry(path), scale, seeds, asked, device))
    return plans


def reproduce(
    plans: Sequence[Plan], out: Path, jobs: int, watcher: Watcher, only: Collection[str] = ()
) -> tuple[list[EntryTable], dict[str, str]]:
    """Make the missing runs of some plans of one scale, and write their tables; return these, and why runs failed.

    `out` is the folder for runs, shared by all entries, and for tables; `jobs` run in parallel. `only` are names of the
    rows and columns to run; by default all. Raises FedkinError if no plan has a row or column of a name in `only`, or,
    before the first run begins, if any could not.
    """
    check_lines(plans, only)
    grid, runs = Grid(plans, only), out / RUNS
    pending = grid.pending(runs)
    experiments = {name: experiment_of(job, out) for name, job in pending.items()}
    check_all(experiments.values(), watcher.checking)
    _make_files([file for job in grid.jobs.values() for file in job.files], out, watcher)
    watcher.began(len(grid.jobs) - len(pending), len(grid.jobs))
    left = {name: grid.weights[name] for name in pending}
    total = sum(left.values()) or 1.0

    def report_end(name: str, failed: str | None) -> None:
        left.pop(name, None)
        watcher.ended(name, failed, 1 - sum(left.values()) / total)

    failed = run_all(experiments, runs, jobs, report_end, grid.probes) if experiments else {}
    return write_tables(plans, out), failed


def check_lines(plans: Sequence[Plan], only: Collection[str]) -> None:
    """Check that every name in `only` is a row or column of some plan.

    Raises FedkinError if a name is not; the message suggests the nearest one.
    """
    known = {line.name for plan in plans for line in (*plan.rows, *plan.columns)}
    for name in only:
        if name not in known:
            raise unknown_name("row or column", name, known)


def write_tables(plans: Sequence[Plan], out: Path) -> list[EntryTable]:
    """Write the tables of finished runs: a folder for each entry and scale, and a summary of these entries."""
    tables = [table_of(plan, out / RUNS) for plan in plans]
    for table in tables:
        folder = out / table.plan.name / table.plan.scale_name
        write_atomically(folder / "table.md", markdown(table))
        write_atomically(folder / "table.json", json.dumps(table.tree(), indent=2) + "\n")
        write_page(folder / "report.html", page(table))
    if len(tables) > 1:
        scale = plans[0].scale_name
        text = summary(tables) + "\n" + "\n".join(map(markdown, tables))
        write_atomically(out / f"summary-{scale}.md", text)
        write_page(out / f"summary-{scale}.html", page_of_all(tables, scale))
    return tables


def _make_files(files: Sequence[EncoderFile], out: Path, watcher: Watcher) -> None:
    """Train the encoders that runs need; interrupted training resumes from its last epoch."""
    from fedkin.nn.encoder import Pretrained
    from fedkin.studies.pretrain import pretrain

    for file in {place_of(file, out): file for file in files}.values():
        place = place_of(file, out)
        if place.exists() and Pretrained.load(place).about["epochs"] >= file.epochs:
            continue
        watcher.preparing(file.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        pretrain(file.data, place, name=file.model, epochs=file.epochs, samples=file.samples, seed=file.seed)


def failures_error(failed: Mapping[str, str]) -> FedkinError:
    """Return one error for all runs that failed."""
    name, why = next(iter(failed.items()))
    others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return FedkinError(f"{name}{others} failed ({why.rstrip('.')}); the tables show what the others found.")
