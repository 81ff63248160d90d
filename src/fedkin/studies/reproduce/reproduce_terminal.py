"""Output of reproductions on the terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

import numpy as np

from fedkin.core import FedkinError
from fedkin.engines.local import cores
from fedkin.experiment.terminal_tables import drawing_on, print_table, sentence_text, table_text
from fedkin.studies.reproduce.command import Watcher, check_lines, failures_error, plans_of, reproduce, write_tables
from fedkin.studies.reproduce.entry import ScaleName, chosen, load_entry
from fedkin.studies.reproduce.entry_table import EntryTable
from fedkin.studies.reproduce.reproduce_words import SUMMARY_HEADS, markdown, summary, summary_rows, text_parts
from fedkin.studies.time_budget import duration

Form = Literal["table", "markdown", "json"]
"""How tables are printed."""

REFERENCE = 100.0
"""GFLOP/s of one core at single-precision matrix products where the entries' `core_seconds` were measured."""
_SIDE, _REPEATS = 768, 20


def listing(out: Path) -> str:
    """List all entries, their expected duration on this machine, and which are done."""
    rate, count = speed(), cores()
    rows = [("entry", "quick", "paper", "about")]
    for name, path in chosen("all").items():
        entry = load_entry(path)
        known = [scale and scale.core_seconds for scale in (entry.scales.quick, entry.scales.paper)]
        quick, paper = (duration(time * REFERENCE / rate / count) if time else "?" for time in known)
        there = [scale for scale in ("quick", "paper") if (out / name / scale / "table.md").exists()]
        done = f"  [{', '.join(there)}: {out / name}]" if there else ""
        rows.append((name, quick, paper, f"{entry.about}{done}"))
    times = f"Times are for {count} runs at a time on this machine's {count} cores at {rate:.0f} GFLOP/s each."
    usage = "fedkin reproduce ENTRY... [--scale quick|paper] runs some; 'all' stands for all."
    return "\n".join([table_text(rows, left=range(4)), "", sentence_text(times), sentence_text(usage)])


def speed() -> float:
    """Measure the GFLOP/s of one core of this machine in matrix products, the best of several tries."""
    from threadpoolctl import threadpool_limits

    a = np.ones((_SIDE, _SIDE), dtype=np.float32)
    best = 0.0
    with threadpool_limits(1):
        for _ in range(_REPEATS):
            began = time.perf_counter()
            a @ a
            best = max(best, 2 * _SIDE**3 / (time.perf_counter() - began) / 1e9)
    return best


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
    print(f"Report: {out / f'summary-{tables[0].plan.scale_name}.html'}")


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

    def checking(self, done: int, total: int) -> None:
        self.display.update(self.task, description=f"Checked {done} of {total} kinds of data")

    def preparing(self, what: str) -> None:
        self.display.update(self.task, description=f"Training {what}")

    def began(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self.display.update(self.task, description=f"{done} of {total} runs")

    def ended(self, name: str, failed: str | None, ahead: float) -> None:
        self.done += 1
        self.display.update(self.task, description=f"{self.done} of {self.total} runs", completed=ahead)
        if failed:
            self.display.console.print(f"{name} failed: {failed}", highlight=False, markup=False)
