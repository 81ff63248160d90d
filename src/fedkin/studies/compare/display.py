"""Progress of a comparison on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.experiment.terminal import Bar
from fedkin.studies.compare.candidate_runs import CandidateRun
from fedkin.studies.compare.comparison_words import seconds


class OneOfMany(Bar):
    """Progress bar of one run among many, without a line for each of its steps."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def phase(self, text: str) -> None:
        super().phase(f"{self._title} · {text}")

    def step(self, line: RecordLine, timing: Timing) -> None:
        return None


@contextmanager
def shown(job: CandidateRun, ended: int, foreseen: int, left: float) -> Iterator[Progress]:
    """Show a progress bar for this run if stderr is a terminal; a context manager."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    title = f"Run {ended + 1} of about {foreseen} · {seconds(left)} left · {job.candidate.name}, seed {job.seed}"
    with OneOfMany(title) as bar:
        yield bar


@contextmanager
def unseen(job: CandidateRun, ended: int, foreseen: int, left: float) -> Iterator[Progress]:
    """Show no progress for this run; a context manager like `shown`."""
    yield Progress()
