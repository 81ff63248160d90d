"""Schedule of a comparison: which run is made next, and how the time budget is shared.

First comes one seed of every method that finds the number of clusters, or is given the known one. If the number is not
known, cheap methods that need it have their first turn with the best one found so far, before costly ones. Then one or
two try a ladder of numbers; the numbers found and the best of the ladder are given to the other methods: cheap ones try
all, costly ones only the likeliest. Then come further seeds of each method with its best number, for which time is
reserved as the first runs suggest; the rest is shared by methods that wait for their first turn. A run that was stopped
resumes after all had their turn, the cheapest method first, as long as there is time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import read_json, write_atomically
from fedkin.core.progress import Progress
from fedkin.experiment.run_folder import is_finished
from fedkin.studies.compare.candidate_runs import CandidateRun, Done, outcome
from fedkin.studies.compare.candidates import Candidate, Selection, method_named
from fedkin.studies.compare.judging import CandidateScore, Judge
from fedkin.studies.compare.question import Question
from fedkin.studies.compare.ranking import Score, best_numbers, score_of
from fedkin.studies.run_pool import RunWorker
from fedkin.studies.time_budget import TimeBudget

LADDER = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
"""Numbers of clusters of samples that one or two cheap methods try where none is known."""
FEW = (2, 3, 4)
"""Numbers of clusters of clients that are tried where no method finds any."""
_OF_LADDER, _MAX_NUMBERS = 2, 4
"""How many numbers the ladder gives, and how many are tried in all."""
_SAMPLES_PER_CLUSTER = 10
_QUICK = 0.01
"""Part of the budget that a run of a method takes which climbs the ladder though it finds the number itself."""
_MIN_SECONDS = 2.0
"""Seconds below which no run is begun, for reading the data may take as long."""
_DECIDED = "numbers.json"


@dataclass(frozen=True)
class _Decided:
    first: list[int] = field(default_factory=list)
    climbers: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    likeliest: list[int] = field(default_factory=list)


ShowRun = Callable[[CandidateRun, int, int, float], AbstractContextManager[Progress]]
"""Called before each run with it, the runs ended, those foreseen, and the seconds left."""


@dataclass
class Schedule:
    """Schedule of a comparison, and its runs; `seeds` is how many each candidate has.

    `clusters` is the number of clusters, if it is known. `show` returns the progress of each run, and `worker` makes
    the runs. Numbers of clusters are chosen by `score`. `refused` has an error message by candidate, for methods that
    cannot be applied.
    """

    question: Question
    selection: Selection
    judge: Judge
    clusters: int | None
    seeds: int
    out: Path
    budget: TimeBudget
    show: ShowRun
    worker: RunWorker
    score: Score = score_of
    refused: dict[Candidate, str] = field(default_factory=dict)
    _turns_had: int = 0
    _took: dict[Candidate, float] = field(default_factory=dict)
    _done: dict[CandidateRun, Done] = field(default_factory=dict)
    _verdicts: dict[tuple[Candidate, int], CandidateScore] = field(default_factory=dict)

    def work(self) -> None:
        """Make runs until all are made or the budget is spent."""
        for candidate, seed in self._turns():
            self._run(candidate, seed, self._share(seed))
        for name in self.selection.methods:
            for seed in range(self.seeds):
                for candidate in self.candidates() if seed == 0 else self._best():
                    if candidate.method == name:
                        self._run(candidate, seed, self.budget.left)

    def candidates(self) -> list[Candidate]:
        """Return all candidates that are known so far."""
        first = [*self.selection.first(self.clusters), *self._with_first(), *self._ladder()]
        decided = self._decided()
        costly = self.selection.with_k(decided.likeliest, cheap=False)
        return list(dict.fromkeys([*first, *self.selection.with_k(decided.numbers, cheap=True), *costly]))

    def finished(self) -> dict[Candidate, list[Done]]:
        """Return the finished runs by candidate, in order of seed."""
        jobs = {each: [self._job(each, seed) for seed in range(self.seeds)] for each in self.candidates()}
        runs = {each: [self._outcome(job) for job in own if self._is_finished(job)] for each, own in jobs.items()}
        return {each: own for each, own in runs.items() if own}

    def verdicts(self) -> dict[Candidate, CandidateScore]:
        """Return the scores of every candidate that has a finished run."""
        for each, runs in (found := self.finished()).items():
            if (each, len(runs)) not in self._verdicts:
                by_itself = self.clusters is None and each.number is None
                self._verdicts[each, len(runs)] = self.judge.verdict(runs, by_itself)
        return {each: self._verdicts[each, len(runs)] for each, runs in found.items()}

    def began(self, candidate: Candidate) -> bool:
        """Return whether a candidate had a turn, in this call or an earlier one."""
        return candidate in self._took or self._job(candidate, 0).folder(self.out).exists()

    def best(self) -> dict[str, Candidate]:
        """Return for each method the finished candidate with the best number of clusters."""
        return best_numbers(self.question.family, self.verdicts(), self.score)

    def _turns(self) -> Iterator[tuple[Candidate, int]]:
        """Yield candidates and seeds, counted from 0, in the order of their turns."""
        first = self.selection.first(self.clusters)
        if self.clusters is None and self.question.family == "samples":
            yield from ((each, 0) for each in first if method_named(each.method).cost == "cheap")
            self._settle(first=self._first_number())
            yield from ((each, 0) for each in self._with_first())
        yield from ((each, 0) for each in first)
        if self.clusters is None:
            self._settle(climbers=self._able_to_climb())
            yield from ((each, 0) for each in self._ladder())
            self._settle(numbers=self._found_numbers())
            yield from ((each, 0) for each in self.selection.with_k(self._decided().numbers, cheap=True))
            self._settle(likeliest=self._likeliest())
            yield from ((each, 0) for each in self.candidates())
        for seed in range(1, self.seeds):
            yield from ((each, seed) for each in self._best())

    def _run(self, candidate: Candidate, seed: int, seconds: float) -> None:
        """Make or resume a run for at most `seconds`, unless it is finished or time is up."""
        job, began = self._job(candidate, seed), self.budget.spent
        if self._is_finished(job) or candidate in self.refused or self.budget.left < _MIN_SECONDS:
            return
        with self.show(job, self._turns_had, self._turns_had + self._foreseen(), self.budget.left) as progress:
            try:
                config = self.question.config(candidate, job.seed)
                self.worker.run(config, job.folder(self.out), max(seconds, _MIN_SECONDS), self.budget.left, progress)
            except FedkinError as error:
                self.refused[candidate] = str(error)
        self._turns_had += 1
        self._took[candidate] = self.budget.spent - began

    def _share(self, seed: int) -> float:
        """Return the seconds that the next run may take."""
        left = self.budget.left
        if seed == 0:
            finished, best = self.finished(), self._best()
            had_turn = {each.method for each in (*self._took, *self.refused, *finished)}
            waiting = [name for name in self.selection.methods if name not in had_turn]
            stopped = had_turn - {each.method for each in (*self.refused, *finished)}
            kept = sum(self._took.get(each, 0.0) * (self.seeds - len(finished[each])) for each in best)
            kept += self.worker.start  # of the process that follows one that was killed
            return max(left - kept, left / 2) / max(1, len(waiting) + bool(stopped))
        waiting = [each.method for each in self._best() if not self._is_finished(self._job(each, seed))]
        return left / max(1, len(waiting))

    def _foreseen(self) -> int:
        """Estimate the number of runs that are still to have a turn."""
        tried = self._ladder()
        cheap = self.selection.with_k([0], cheap=True) if self.clusters is None else []
        expected = len(self.selection.methods) * self.seeds + len(tried) + (_MAX_NUMBERS - 1) * len(cheap)
        made = sum(map(len, self.finished().values()))
        return max(1, expected - max(made, self._turns_had))

    def _best(self) -> list[Candidate]:
        """Return each method with its best number, if it has a finished run; the cheapest first."""
        chosen = self.best()
        return [chosen[name] for name in self.selection.methods if name in chosen]

    def _first_number(self) -> list[int]:
        """Return the number that methods which need one are first given: the best found, or the ladder's least."""
        found = self._found_numbers()[:1]
        maximum = sum(self.judge.sizes) // _SAMPLES_PER_CLUSTER
        return found or [number for number in LADDER[:1] if number <= maximum]

    def _with_first(self) -> list[Candidate]:
        """Return the cheap methods that need a number of clusters with the one that they are first given."""
        return [Candidate(name, number) for name in self.selection.needy for number in self._decided().first]

    def _able_to_climb(self) -> list[str]:
        """Return the methods on the ladder: the cheapest that needs a number of clusters, and quick optional ones."""
        if self.question.family != "samples":
            return []
        quick = [
            each.method
            for each, runs in self.finished().items()
            if (own := method_named(each.method)).finds_k
            and own.takes_k
            and runs[0].seconds <= _QUICK * self.budget.seconds
        ]
        return [*self.selection.needy[:1], *dict.fromkeys(quick)]

    def _ladder(self) -> list[Candidate]:
        """Return the candidates of the ladder: numbers of clusters in ascending order, for each method on it."""
        maximum = sum(self.judge.sizes) // _SAMPLES_PER_CLUSTER
        numbers = [number for number in LADDER if number <= maximum]
        climbers = self._decided().climbers
        return [Candidate(name, number) for number in numbers for name in climbers]

    def _found_numbers(self) -> list[int]:
        """Return the numbers of clusters to give: those that methods found and the best of the ladder, by score."""
        family, verdicts = self.question.family, self.verdicts()
        ranked = sorted(verdicts, key=lambda each: -self.score(family, verdicts[each]))
        of_ladder = list(dict.fromkeys(each.number for each in ranked if each.number is not None))[:_OF_LADDER]
        proposed = [verdicts[each].clusters[0] if each.number is None else each.number for each in ranked
                    if each.number is None or each.number in of_ladder]  # fmt: skip
        maximum = len(self.judge.sizes) - 1 if family == "clients" else sum(self.judge.sizes)
        usable = list(dict.fromkeys(number for number in proposed if 2 <= number <= maximum))
        few = [number for number in FEW if number <= maximum] if family == "clients" else []
        return (usable or few)[:_MAX_NUMBERS]

    def _likeliest(self) -> list[int]:
        """Return the number of clusters of the best candidate among those with the given numbers."""
        score = {each: self.score(self.question.family, verdict) for each, verdict in self.verdicts().items()}
        numbers = self._decided().numbers
        given = [each for each in score if each.number in numbers]
        best = max(given, key=lambda each: score[each]).number if given else None
        return numbers[:1] if best is None else [best]

    def _settle(self, **decided: list[Any]) -> None:
        """Store a decision on disk, unless it is empty; an earlier one, also by another process, is kept."""
        path = self.out / _DECIDED
        known = asdict(self._decided())
        new = {name: value for name, value in decided.items() if value and not known[name]}
        if new and self.budget.left >= _MIN_SECONDS:
            write_atomically(path, json.dumps({name: value for name, value in (known | new).items() if value}) + "\n")

    def _decided(self) -> _Decided:
        """Return the stored decisions; those that were not made yet are empty."""
        path = self.out / _DECIDED
        return read_json(path, _Decided, "; remove the folder to compare again") if path.exists() else _Decided()

    def _job(self, candidate: Candidate, seed: int) -> CandidateRun:
        return CandidateRun(candidate, self.question.seed + seed)

    def _is_finished(self, job: CandidateRun) -> bool:
        return is_finished(job.folder(self.out))

    def _outcome(self, job: CandidateRun) -> Done:
        if job not in self._done:
            self._done[job] = outcome(job.folder(self.out), self.judge.sizes)
        return self._done[job]
