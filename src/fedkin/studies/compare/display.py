"""What a person sees while a comparison runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.experiment.terminal import Bar
from fedkin.studies.compare.candidate_runs import CandidateRun
from fedkin.studies.compare.comparison_words import seconds


class OneOfMany(Bar):
    """The bar of one run among many: the run's own steps pass without a line each."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def phase(self, text: str) -> None:
        super().phase(f"{self._title} · {text}")

    def step(self, line: RecordLine, timing: Timing) -> None:
        return None


@contextmanager
def shown(job: CandidateRun, ended: int, foreseen: int, left: float) -> Iterator[Progress]:
    """A bar on stderr for this run if that is a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    title = f"Run {ended + 1} of about {foreseen} · {seconds(left)} left · {job.candidate.name}, seed {job.seed}"
    with OneOfMany(title) as bar:
        yield bar


@contextmanager
def unseen(job: CandidateRun, ended: int, foreseen: int, left: float) -> Iterator[Progress]:
    """Nothing, whatever stderr is."""
    yield Progress()
