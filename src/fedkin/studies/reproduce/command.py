"""Steps of ``fedkin reproduce``, from names of entries to tables."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.runner import Progress
from fedkin.engines.local import cores, give_back_memory, keep_freed_memory, one_thread
from fedkin.experiment.config import config_of
from fedkin.experiment.run import check_machine, execute, resume
from fedkin.experiment.run_folder import CONFIG, is_finished
from fedkin.experiment.terminal import Bar
from fedkin.experiment.terminal_tables import table_text
from fedkin.nn.encoder import Pretrained
from fedkin.report.page import write_page
from fedkin.studies.pages import duration, page_text
from fedkin.studies.pretrain import pretrain
from fedkin.studies.reproduce.entry import Plan, PlannedRun, ScaleName, entries_named, load_entry, plan_of
from fedkin.studies.reproduce.measures import is_probed, probed
from fedkin.studies.reproduce.table import COUNTED, EntryTable, table_of

RUNS = "runs"
SCALES: tuple[ScaleName, ...] = ("quick", "paper")


def plans_of(names: Sequence[str], scale: ScaleName, seeds: int | None = None, device: str = "cpu") -> list[Plan]:
    """Plan the entries that `names` stand for, each once; raise FedkinError if there is none, or it cannot be used."""
    paths = {name: path for pattern in names for name, path in entries_named(pattern).items()}
    return [plan_of(name, load_entry(path), scale, seeds, device) for name, path in paths.items()]


def reproduce(
    plans: Sequence[Plan], out: Path, jobs: int, progress: Progress
) -> tuple[list[EntryTable], dict[str, str]]:
    """Make the missing runs of some plans of one scale, and write their tables; return these, and why runs failed.

    `out` is the folder for runs, shared by all entries, and for tables; `jobs` run in parallel. Raises
    FedkinError, before the first run begins, if any could not.
    """
    runs: dict[str, tuple[PlannedRun, set[str]]] = {}
    # Those of the longest runs first, so that all cores end together.
    for plan in sorted(plans, key=lambda plan: -(plan.scale.core_seconds or 0.0) / len(plan.runs())):
        for name, (run, probes) in plan.runs().items():
            runs.setdefault(name, (run, set()))[1].update(probes)
    waiting = {
        name: (run, probes)
        for name, (run, probes) in runs.items()
        if not (is_finished(out / RUNS / name) and all(is_probed(probe, out / RUNS / name) for probe in probes))
    }
    experiments = {name: (run.experiment(out), probes) for name, (run, probes) in waiting.items()}
    for tables, _ in experiments.values():
        check_machine(config_of(dict(tables)))
    for place, file in {file.place(out): file for run, _ in runs.values() for file in run.files}.items():
        if not place.exists() or Pretrained.load(place).about["epochs"] < file.epochs:
            progress.phase(f"Training {file.name}")
            place.parent.mkdir(parents=True, exist_ok=True)
            pretrain(file.data, place, name=file.model, epochs=file.epochs, samples=file.samples, seed=file.seed)
    progress.phase("Runs")
    finished = len(runs) - len(waiting)
    progress.part(finished, len(runs))
    failed: dict[str, str] = {}
    shown: set[str] = set()
    for name, reason, warnings in run_all(experiments, out / RUNS, jobs):
        finished += 1
        progress.part(finished, len(runs))
        failed |= {name: reason} if reason else {}
        # Runs on the same data are warned of the same.
        for text in dict.fromkeys([*warnings, *([f"{name} failed: {reason}"] if reason else [])]):
            if text not in shown:
                progress.warn(text)
        shown |= {*warnings}
    return write_tables(plans, out), failed


def run_all(
    experiments: Mapping[str, tuple[Mapping[str, Any], Collection[str]]], runs: Path, jobs: int
) -> Iterator[tuple[str, str, list[str]]]:
    """Make all runs in folders, `jobs` in parallel with one thread each, and measure their probes.

    `experiments` are `Config.tables` and names of probes, by name of the folder below `runs`. A stopped run is resumed,
    a finished one only probed. Yields, as runs end, the name, why the run failed, empty if it did not, and warnings.
    One job is made in this process. Raises FedkinError if a process was ended from outside.
    """
    tasks = {name: (dict(tables), runs / name, sorted(probes)) for name, (tables, probes) in experiments.items()}
    if min(jobs, len(tasks)) <= 1:
        for name, task in tasks.items():
            yield name, *make_run(*task)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin_worker)
    try:
        names = {pool.submit(make_run, *task): name for name, task in tasks.items()}
        for future in as_completed(names):
            yield names[future], *future.result()
    except BrokenProcessPool as error:
        raise FedkinError("A run's process was ended, perhaps for lack of memory; resume with --jobs 1.") from error
    except BaseException:
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Prepare a process for runs, which ends at once when its parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills this process
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    keep_freed_memory()


class _Warnings(Progress):
    """Progress that keeps its warnings."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


def make_run(tables: dict[str, Any], folder: Path, probes: Collection[str]) -> tuple[str, list[str]]:
    """Make, or resume, the run of an experiment in a folder, and measure its probes.

    Returns why it failed, empty if it did not, and warnings.
    """
    progress = _Warnings()
    with one_thread():
        try:
            if not (folder / CONFIG).exists():
                execute(config_of(tables), folder, progress)
            elif not is_finished(folder):
                resume(folder, progress)
            for probe in probes:
                probed(folder, probe)
        except FedkinError as error:
            return str(error), progress.texts
        except Exception as error:  # a method's own, on data it was not made for: it ends this run and no other
            traceback.print_exc()
            return f"it failed with {type(error).__name__}: {error}", progress.texts
    give_back_memory()
    return "", progress.texts


def write_tables(plans: Sequence[Plan], out: Path) -> list[EntryTable]:
    """Write the tables of finished runs, in a folder for each entry and scale."""
    tables = [table_of(plan, out / RUNS) for plan in plans]
    for table in tables:
        folder = out / table.plan.name / table.plan.scale_name
        write_atomically(folder / "table.json", json.dumps(table.tree(), indent=2) + "\n")
        write_page(folder / "report.html", table.page())
    return tables


def listing(out: Path) -> str:
    """List all entries, the core time of each where it was measured, and which are done."""
    rows = [("entry", "quick", "paper", "about")]
    for name, path in entries_named("all").items():
        entry = load_entry(path)
        scales = [entry.scales.get(scale) for scale in SCALES]
        quick, paper = (duration(scale.core_seconds) if scale and scale.core_seconds else "?" for scale in scales)
        written = [scale for scale in SCALES if (out / name / scale / "table.json").exists()]
        rows.append((name, quick, paper, f"{entry.heading}{f'  {written}' if written else ''}"))
    machine = f"Times are of one core with 100 GFLOP/s; of this machine's {cores()} each makes a run at a time."
    return f"{table_text(rows, left=range(4))}\n\n{machine}"


def reproduced(
    names: Sequence[str],
    scale: ScaleName,
    seeds: int | None,
    jobs: int | None,
    out: Path,
    show: bool,
    as_json: bool = False,
    quiet: bool = False,
    device: str = "cpu",
) -> None:
    """Run entries, or only show them, and print their tables; with `quiet`, print JSON only.

    Raises FedkinError if there is no such entry, an entry cannot be used, or runs failed.
    """
    plans = plans_of(names, scale, seeds, device)
    if show:
        tables, failed = write_tables(plans, out), dict[str, str]()
    else:
        with nullcontext(Progress()) if quiet or not sys.stderr.isatty() else Bar() as progress:
            tables, failed = reproduce(plans, out, jobs or cores(), progress)
    if as_json:
        print(json.dumps([table.tree() for table in tables], indent=2))
    elif not quiet and len(tables) == 1:
        print(f"{page_text(tables[0].page())}\nReport: {out / tables[0].plan.name / scale / 'report.html'}")
    elif not quiet:
        rows = [(table.plan.name, f"{table.finished} of {table.runs}", *map(str, table.counts().values()), table.held)
                for table in tables]  # fmt: skip
        print(table_text([("entry", "runs", *COUNTED, "claims that hold"), *rows]))
        print(f"Reports: {out}/ENTRY/{scale}/report.html")
    if failed:
        name, why = next(iter(failed.items()))
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise FedkinError(f"{name}{more} failed ({why.rstrip('.')}); the tables show what the others found.")
