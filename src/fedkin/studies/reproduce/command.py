"""Steps of ``fedkin reproduce``, from names of entries to tables."""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.files import write_atomically
from fedkin.core.progress import Progress
from fedkin.engines.local import cores
from fedkin.experiment.config import config_of
from fedkin.experiment.run import check_all, execute, resume
from fedkin.experiment.run_folder import CONFIG, is_finished
from fedkin.experiment.terminal import Bar
from fedkin.experiment.terminal_tables import print_table, sentence_text, table_text
from fedkin.nn.encoder import Pretrained
from fedkin.report.page import write_page
from fedkin.studies.pretrain import pretrain
from fedkin.studies.reproduce.entry import EncoderFile, Plan, PlannedRun, ScaleName, chosen, load_entry, plan_of
from fedkin.studies.reproduce.entry_table import EntryTable, table_of
from fedkin.studies.reproduce.measures import is_probed, probed
from fedkin.studies.reproduce.reproduce_page import (
    SUMMARY_HEADS,
    markdown,
    markdown_rows,
    page,
    summary_rows,
    text_parts,
)
from fedkin.studies.time_budget import duration
from fedkin.studies.workers import EndedError, Worker, register, targets

RUNS = "runs"


def plans_of(names: Sequence[str], scale: ScaleName, seeds: int | None = None, device: str = "cpu") -> list[Plan]:
    """Plan the entries that `names` stand for, each once.

    Raises FedkinError if there is no such entry, one cannot be used, or two files have one name.
    """
    paths: dict[str, Path] = {}
    for name, path in (entry for pattern in names for entry in chosen(pattern).items()):
        first = paths.setdefault(name, path)
        if first.resolve() != path.resolve():
            raise FedkinError(f"{first} and {path} have one name, '{name}', and so one folder for tables; rename one.")
    return [
        plan_of(name, load_entry(path), scale, seeds, name if "/" in name else str(path), device)
        for name, path in paths.items()
    ]


def reproduce(
    plans: Sequence[Plan], out: Path, jobs: int, progress: Progress, only: Collection[str] = ()
) -> tuple[list[EntryTable], dict[str, str]]:
    """Make the missing runs of some plans of one scale, and write their tables; return these, and why runs failed.

    `out` is the folder for runs, shared by all entries, and for tables; `jobs` run in parallel. `only` are names of the
    rows and columns to run; by default all. Raises FedkinError, before the first run begins, if any could not.
    """
    runs: dict[str, tuple[PlannedRun, set[str]]] = {}
    # Those of the longest runs first, so that all cores end together.
    for plan in sorted(plans, key=lambda plan: -(plan.scale.core_seconds or 0.0) / len(plan.runs())):
        for name, (run, probes) in plan.runs(only).items():
            runs.setdefault(name, (run, set()))[1].update(probes)
    waiting = [
        name
        for name, (_, probes) in runs.items()
        if not (is_finished(out / RUNS / name) and all(is_probed(probe, out / RUNS / name) for probe in probes))
    ]
    experiments = {name: runs[name][0].experiment(out) for name in waiting}
    check_all(experiments.values(), progress.part)
    _make_files([file for run, _ in runs.values() for file in run.files], out, progress)
    progress.phase("Runs")
    finished = len(runs) - len(waiting)
    progress.part(finished, len(runs))

    def count(name: str, failed: str | None) -> None:
        nonlocal finished
        finished += 1
        progress.part(finished, len(runs))
        if failed:
            progress.warn(f"{name} failed: {failed}")

    failed: dict[str, str] = {}
    if experiments:
        failed = run_all(experiments, out / RUNS, jobs, count, {name: runs[name][1] for name in waiting})
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


def _make_files(files: Sequence[EncoderFile], out: Path, progress: Progress) -> None:
    """Train the encoders that runs need; interrupted training resumes from its last epoch."""
    for place, file in {file.place(out): file for file in files}.items():
        if place.exists() and Pretrained.load(place).about["epochs"] >= file.epochs:
            continue
        progress.phase(f"Training {file.name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        pretrain(file.data, place, name=file.model, epochs=file.epochs, samples=file.samples, seed=file.seed)


def write_tables(plans: Sequence[Plan], out: Path) -> list[EntryTable]:
    """Write the tables of finished runs: a folder for each entry and scale, and a summary of these entries."""
    tables = [table_of(plan, out / RUNS) for plan in plans]
    for table in tables:
        folder = out / table.plan.name / table.plan.scale_name
        write_atomically(folder / "table.md", markdown(table))
        write_atomically(folder / "table.json", json.dumps(table.tree(), indent=2) + "\n")
        write_page(folder / "report.html", page(table))
    if len(tables) > 1:
        summary = "\n".join(markdown_rows([SUMMARY_HEADS, *summary_rows(tables)]))
        text = "\n\n".join([summary, *map(markdown, tables)])
        write_atomically(out / f"summary-{plans[0].scale_name}.md", text)
    return tables


def listing(out: Path) -> str:
    """List all entries, the core time of each where it was measured, and which are done."""
    rows = [("entry", "quick", "paper", "about")]
    for name, path in chosen("all").items():
        entry = load_entry(path)
        times = [scale and scale.core_seconds for scale in (entry.scales.quick, entry.scales.paper)]
        quick, paper = (duration(time) if time else "?" for time in times)
        written = [scale for scale in ("quick", "paper") if (out / name / scale / "table.md").exists()]
        finished = f"  [{', '.join(written)}: {out / name}]" if written else ""
        rows.append((name, quick, paper, f"{entry.about}{finished}"))
    machine = f"Times are of one core with 100 GFLOP/s; of this machine's {cores()} each makes a run at a time."
    usage = "fedkin reproduce ENTRY... [--scale quick|paper] runs some; 'all' stands for all."
    return "\n".join([table_text(rows, left=range(4)), "", sentence_text(machine), sentence_text(usage)])


def reproduced(
    names: Sequence[str],
    scale: ScaleName,
    seeds: int | None,
    jobs: int | None,
    out: Path,
    show: bool,
    only: Sequence[str] = (),
    as_json: bool = False,
    quiet: bool = False,
    device: str = "cpu",
) -> None:
    """Run entries, or only show them, and print their tables; with `quiet`, print JSON only.

    Raises FedkinError if there is no such entry, row or column, an entry cannot be used, runs failed, or no run has a
    number that an entry measures.
    """
    plans = plans_of(names, scale, seeds, device)
    lines = {line.name for plan in plans for line in (*plan.rows, *plan.columns)}
    for line in only:
        if line not in lines:
            raise unknown_name("row or column", line, lines)
    if show:
        tables, failed = write_tables(plans, out), dict[str, str]()
    else:
        with nullcontext(Progress()) if quiet or not sys.stderr.isatty() else Bar() as progress:
            tables, failed = reproduce(plans, out, jobs or cores(), progress, only)
    if as_json:
        print(json.dumps([table.tree() for table in tables], indent=2))
    elif not quiet:
        _print(tables, out)
    if failed:
        name, why = next(iter(failed.items()))
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise FedkinError(f"{name}{more} failed ({why.rstrip('.')}); the tables show what the others found.")
    if absent := [text for table in tables for text in table.absent]:
        raise FedkinError(" ".join(absent))


def _print(tables: Sequence[EntryTable], out: Path) -> None:
    if len(tables) > 1:
        print_table(summary_rows(tables), SUMMARY_HEADS, left=(0, 1))
        print(f"All tables: {out / f'summary-{tables[0].plan.scale_name}.md'}")
        return
    above, rows, below = text_parts(tables[0])
    print("\n".join(map(sentence_text, above)))
    print_table(rows)
    print("\n".join(map(sentence_text, below)))
    print(f"Report: {out / tables[0].plan.name / tables[0].plan.scale_name / 'report.html'}")
