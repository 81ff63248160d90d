"""Comparison as text on the terminal."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.experiment.terminal import Bar
from fedkin.experiment.terminal_tables import print_table, sentence_text
from fedkin.studies.compare.candidate_runs import CandidateRun
from fedkin.studies.compare.comparison import Comparison
from fedkin.studies.compare.comparison_page import cells, headings, table_notes
from fedkin.studies.compare.comparison_words import about_as_good, behind_truth, lead
from fedkin.studies.time_budget import duration


class OneOfMany(Bar):
    """Progress bar of one run among many, without a line for each of its steps."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def phase(self, text: str) -> None:
        super().phase(f"{self._title} · {text}")

    def step(self, line: RecordLine, timing: Timing) -> None:
        return None


def bar(title: str) -> AbstractContextManager[Progress]:
    """Show a progress bar for one run among many if stderr is a terminal; a context manager."""
    return OneOfMany(title) if sys.stderr.isatty() else nullcontext(Progress())


def shown(job: CandidateRun, ended: int, foreseen: int, left: float) -> AbstractContextManager[Progress]:
    """Show a progress bar for this run if stderr is a terminal; a context manager."""
    done = f"Run {ended + 1} of about {foreseen} · {duration(left)} left"
    return bar(f"{done} · {job.candidate.name}, seed {job.seed}")


def unseen(job: CandidateRun, ended: int, foreseen: int, left: float) -> AbstractContextManager[Progress]:
    """Show no progress for this run; a context manager like `shown`."""
    return nullcontext(Progress())


def print_comparison(comparison: Comparison) -> None:
    """Print the table, the recommendation and the next command, with rules on a terminal only."""
    print(sentence_text(comparison.question))
    rows = [(_name(comparison, line.name), *cells(comparison, line), line.remark) for line in comparison.lines]
    columns = ("Method", *headings(comparison), "Remark")
    print_table(rows, columns, left=(0, len(columns) - 1))
    for line in [*map(_filled, table_notes(comparison)), *text_lines(comparison)]:
        print(line)


def text_lines(comparison: Comparison) -> list[str]:
    """Return the lines below the table: recommendation, warnings, and the next command."""
    lines = [_filled(lead(comparison.recommended, comparison.reason, comparison.confident))]
    lines += [_filled(f"Warning: {text}") for text in comparison.warnings]
    if comparison.as_good:
        lines.append(_filled(about_as_good(comparison.as_good)))
    if comparison.truth_gap is not None:
        lines.append(behind_truth(comparison.truth_gap))
    return [*lines, *(f"  {command}" for command in comparison.use[:1]), f"Report: {comparison.out / 'report.html'}"]


def _filled(text: str) -> str:
    return sentence_text(text, elsewhere=118)


def _name(comparison: Comparison, name: str) -> str:
    return f"* {name}" if comparison.recommended and name.split(",")[0] == comparison.recommended else f"  {name}"
