"""Steps of ``fedkin reproduce``, from names of entries to tables."""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.files import write_atomically
from fedkin.core.progress import Progress
from fedkin.engines.local import cores
from fedkin.experiment.config import config_of
from fedkin.experiment.run import check_all, execute, resume
from fedkin.experiment.run_folder import CONFIG, is_finished
from fedkin.experiment.terminal_tables import drawing_on, print_table, sentence_text, table_text
from fedkin.report.page import write_page
from fedkin.studies.reproduce.entry import (
    RUNS,
    EncoderFile,
    Plan,
    PlannedRun,
    ScaleName,
    chosen,
    experiment_of,
    load_entry,
    place_of,
    plan_of,
)
from fedkin.studies.reproduce.entry_table import EntryTable, table_of
from fedkin.studies.reproduce.measures import is_probed, probed
from fedkin.studies.reproduce.reproduce_page import (
    SUMMARY_HEADS,
    markdown,
    page,
    summary,
    summary_rows,
    text_parts,
)
from fedkin.studies.time_budget import duration
from fedkin.studies.workers import EndedError, Worker, register, targets


class Watcher:
    """Callbacks for the progress of a reproduction; this base class ignores it."""

    def phase(self, text: str) -> None:
        """Called when something that may take a while is done before the runs."""

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
    check_all(experiments.values(), lambda done, total: watcher.phase(f"Checked {done} of {total} kinds of data"))
    _make_files([file for job in grid.jobs.values() for file in job.files], out, watcher)
    watcher.began(len(grid.jobs) - len(pending), len(grid.jobs))
    left = {name: grid.weights[name] for name in pending}
    total = sum(left.values()) or 1.0

    def report_end(name: str, failed: str | None) -> None:
        left.pop(name, None)
        watcher.ended(name, failed, 1 - sum(left.values()) / total)

    failed = run_all(experiments, runs, jobs, report_end, grid.probes) if experiments else {}
    return write_tables(plans, out), failed


def run_all(
    experiments: Mapping[str, Mapping[str, Any]],
    runs: Path,
    jobs: int,
    on_ended: Callable[[str, str | None], None],
    probes: Mapping[str, Collection[str]] | None = None,
) -> dict[str, str]:
    """Make all runs in folders, `jobs` in parallel with one thread each, and measure their probes.

    `experiments` are `Config.tables` by name of the folder below `runs`. A stopped run is resumed, a finished one only
    probed. `on_ended` is called with the name of every run that ended, and why it failed if it did. Return why runs
    failed. Raises FedkinError if a process was ended from outside, for lack of memory for example.
    """
    failed: dict[str, str] = {}
    workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def make(name: str) -> None:
        worker, tables = workers.get(), experiments[name]
        try:
            worker.call(make_run, tables, targets(tables), str(runs / name), sorted((probes or {}).get(name, ())))
        finally:
            workers.put(worker)

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        shown: set[str] = set()
        for _ in range(min(jobs, len(experiments))):
            workers.put(stack.enter_context(Worker(1, shown)))
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)  # before workers are killed, as after Ctrl-C
        names = {pool.submit(make, name): name for name in experiments}
        for future in as_completed(names):
            name = names[future]
            try:
                future.result()
            except EndedError as error:
                raise FedkinError(
                    f"The process of run {name} was ended from outside, perhaps for lack of memory; repeat the "
                    "command to resume, with --jobs 1 for minimal memory."
                ) from error
            except FedkinError as error:
                failed[name] = str(error)
            on_ended(name, failed.get(name))
    return failed


def make_run(
    tables: dict[str, Any], classes: Mapping[str, str], place: str, probes: Collection[str], progress: Progress
) -> None:
    """Make, or resume, the run of an experiment in a folder, and measure its probes, in a worker's process."""
    folder = Path(place)
    register(tables, classes)
    if not (folder / CONFIG).exists():
        execute(config_of(tables), folder, progress)
    elif not is_finished(folder):
        resume(folder, progress)
    for probe in probes:
        probed(folder, probe)


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
    return tables


def _make_files(files: Sequence[EncoderFile], out: Path, watcher: Watcher) -> None:
    """Train the encoders that runs need; interrupted training resumes from its last epoch."""
    from fedkin.nn.encoder import Pretrained
    from fedkin.studies.pretrain import pretrain

    for file in {place_of(file, out): file for file in files}.values():
        place = place_of(file, out)
        if place.exists() and Pretrained.load(place).about["epochs"] >= file.epochs:
            continue
        watcher.phase(f"Training {file.name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        pretrain(file.data, place, name=file.model, epochs=file.epochs, samples=file.samples, seed=file.seed)


def failures_error(failed: Mapping[str, str]) -> FedkinError:
    """Return one error for all runs that failed."""
    name, why = next(iter(failed.items()))
    others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return FedkinError(f"{name}{others} failed ({why.rstrip('.')}); the tables show what the others found.")


Form = Literal["table", "markdown", "json"]
"""How tables are printed."""


def listing(out: Path) -> str:
    """List all entries, the core time of each where it was measured, and which are done."""
    rows = [("entry", "quick", "paper", "about")]
    for name, path in chosen("all").items():
        entry = load_entry(path)
        known = [scale and scale.core_seconds for scale in (entry.scales.quick, entry.scales.paper)]
        quick, paper = (duration(time) if time else "?" for time in known)
        there = [scale for scale in ("quick", "paper") if (out / name / scale / "table.md").exists()]
        done = f"  [{', '.join(there)}: {out / name}]" if there else ""
        rows.append((name, quick, paper, f"{entry.about}{done}"))
    times = f"Times are of one core with 100 GFLOP/s; of this machine's {cores()} each makes a run at a time."
    usage = "fedkin reproduce ENTRY... [--scale quick|paper] runs some; 'all' stands for all."
    return "\n".join([table_text(rows, left=range(4)), "", sentence_text(times), sentence_text(usage)])


def reproduced(
    names: Sequence[str],
    scale: ScaleName,
    seeds: int | None,
    jobs: int | None,
    out: Path,
    show: bool,
    only: Sequence[str] = (),
    form: Form = "table",
    quiet: bool = False,
    device: str = "cpu",
) -> None:
    """Run entries, or only show them, and print their tables; with `quiet`, print JSON only.

    Raises FedkinError if there is no such entry, row or column, an entry cannot be used, runs failed, or no run has a
    number that an entry measures.
    """
    plans = plans_of(names, scale, seeds, device)
    if show:
        check_lines(plans, only)
        tables, failed = write_tables(plans, out), dict[str, str]()
    else:
        bar: AbstractContextManager[Watcher] = nullcontext(Watcher()) if quiet or not sys.stderr.isatty() else _Bar()
        with bar as watcher:
            tables, failed = reproduce(plans, out, jobs or cores(), watcher, only)
    if form == "json":
        print(json.dumps([table.tree() for table in tables], indent=2))
    elif not quiet:
        _print(tables, out, form == "markdown")
    if failed:
        raise failures_error(failed)
    if absent := [text for table in tables for text in table.absent]:
        raise FedkinError(" ".join(absent))


def _print(tables: Sequence[EntryTable], out: Path, as_markdown: bool) -> None:
    if len(tables) == 1:
        plan = tables[0].plan
        if as_markdown:
            print(markdown(tables[0]))
        else:
            above, heads, rows, below = text_parts(tables[0])
            print("\n".join(map(sentence_text, above)))
            print_table(rows, heads)
            print("\n".join(map(sentence_text, below)))
        print(f"Report: {out / plan.name / plan.scale_name / 'report.html'}")
        return
    if as_markdown:
        print(summary(tables))
    else:
        print_table(summary_rows(tables), SUMMARY_HEADS, left=(0, 1))
    print(f"All tables: {out / f'summary-{tables[0].plan.scale_name}.md'}")


class _Bar(Watcher):
    """Progress bar of finished runs, with the remaining time estimated from the work left; a context manager."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        description = TextColumn("{task.description}", markup=False)
        columns = (description, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.display = Progress(*columns, console=Console(file=drawing_on(sys.stderr)), transient=True)
        self.task = self.display.add_task("Preparing", total=1.0)
        self.done = self.total = 0

    def __enter__(self) -> _Bar:
        self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.stop()

    def phase(self, text: str) -> None:
        self.display.update(self.task, description=text)

    def began(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self.phase(f"{done} of {total} runs")

    def ended(self, name: str, failed: str | None, ahead: float) -> None:
        self.done += 1
        self.display.update(self.task, description=f"{self.done} of {self.total} runs", completed=ahead)
        if failed:
            self.display.console.print(f"{name} failed: {failed}", highlight=False, markup=False)
