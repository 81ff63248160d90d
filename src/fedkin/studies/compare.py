"""Comparisons of methods on some data, or on the scenarios of a benchmark: `fedkin.compare` and the commands.

First comes one seed of every method that finds the number of clusters, or is given the known one. If the number is not
known, the first cheap method that needs it, and quick ones that may be given it, climb a ladder of numbers; those found
and the best of the ladder are given to the other cheap methods, and the likeliest to the costly ones. A number whose
clusters are found again no better than by chance is given to none before the ladder. Then come further
seeds of each method with its best number. A run has its share of the time that is left, or its limit; what did not
finish is tried again when all had their turn, the cheapest method first, as long as there is more time than it had.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib import import_module
from numbers import Integral
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from fedkin.core import FedkinError
from fedkin.core.aliases import checked_keywords
from fedkin.core.doors import COMPARE, at_door, flag
from fedkin.core.errors import all_problems, kind_of
from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.core.seeds import derive_generator
from fedkin.data.dataset import encode_labels
from fedkin.data.inputs import FederationInput, federation_input
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import hold_out
from fedkin.experiment import registry
from fedkin.experiment.config import Config, apply_setting
from fedkin.experiment.option_models import flat
from fedkin.experiment.run import check_machine
from fedkin.experiment.terminal import Bar
from fedkin.report.numbers import format_bytes, join_words, pluralize
from fedkin.report.page import write_page
from fedkin.studies.benchmark import PAGE as BENCHMARK_PAGE
from fedkin.studies.benchmark import Benchmark, questions_of, scenarios_of
from fedkin.studies.cells import CellResult
from fedkin.studies.comparison import PAGE, SCORE, TRUTH, Comparison, ComparisonRow, page_of
from fedkin.studies.question import (
    Candidate,
    Family,
    Question,
    Role,
    Selection,
    base_name,
    method_named,
    question_of,
    selection_of,
)
from fedkin.studies.ranking import (
    ALIKE,
    CHANCE,
    SAME,
    CandidateScore,
    Choice,
    best_numbers,
    finest,
    rank_of,
    recommend,
    score_of,
)
from fedkin.studies.study import Cell, SentPopulation, Study
from fedkin.studies.time_budget import TimeBudget, duration, parsed_duration
from fedkin.studies.workers import Worker

LADDER = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
"""Numbers of clusters of samples that a few cheap methods try where none is known."""
FEW = (2, 3, 4)
"""Numbers of clusters of clients that are tried where no method finds any."""
_MAX_NUMBERS = 4
"""Numbers that are given to cheap methods."""
_SAMPLES_PER_CLUSTER = 10
_QUICK = 0.01
"""Part of the budget that a run of a method takes which climbs the ladder though it finds the number itself."""
_MIN_SECONDS = 2.0
"""Seconds below which no run is begun, for reading the data may take as long."""
_KEPT, _MOST_KEPT = 0.1, 10.0
"""Part of the budget that is kept for scores and the page, and at most so many seconds."""
_TRIED = (2, 20)
"""Numbers of clusters to look at settings with; one that some method does not take is no mistake of the user's."""


@dataclass(frozen=True)
class Options:
    """Options of a comparison or a benchmark.

    `methods` are names, which options may follow as in ``"ccfc+decorrelation=1"``, or ``("all",)``; each has `seeds`
    runs, at least 1. `clusters` is their number, at least 2, if it is known. `budget` is wall-clock time, such as
    ``"10m"`` or seconds. `by`, "score" or "truth", is the criterion of the ranking and the recommendation. `limit` is
    the time of one run, after which it is given up until a call has a longer one; by default its share of the budget.
    """

    methods: tuple[str, ...] = ("all",)
    clusters: int | None = None
    seeds: int = 3
    budget: str | float = "10m"
    by: str = "score"
    limit: str | None = None

    def check(self) -> None:
        """Check that all options are in their range.

        Raises FedkinError, which names the first option that is not.
        """
        for name, value, least in (("clusters", self.clusters, 2), ("seeds", self.seeds, 1)):
            if value is not None and (not isinstance(value, Integral) or value < least):
                raise FedkinError(f"{flag(name)} is {value!r}; it takes one whole number of at least {least}.")
        if self.by not in ("score", "truth"):
            raise FedkinError(f"{flag('by')} is '{self.by}'; it should be score or truth.")
        parsed_duration(self.budget)
        if self.limit is not None:
            parsed_duration(self.limit, "limit")


@checked_keywords
def compare(
    clients: Any,
    y: Any = None,
    *,
    methods: str | Sequence[str] = "all",
    budget: str | float = "10m",
    n_clusters: int | None = None,
    question: str = "auto",
    seeds: int = 3,
    seed: int | None = None,
    by: str = "score",
    settings: str | Sequence[str] | Mapping[str, Any] = (),
    out: str | Path | None = None,
) -> Comparison:
    """Compare all suitable methods on some data, rank them with or without truth, and recommend one.

    Parameters
    ----------
    clients : str, Path, sequence, dict, or FederatedDataset
        What ``fedkin compare`` takes; or clients in any form that ``fit`` of estimators takes, in a list, in a dict by
        name, or as a ``FederatedDataset`` of Flower's. A table's column called ``label`` is taken for labels, and
        others as in files.
    y : str, sequence or dict, optional
        The name of the column of labels; or one array per client, ``(n,)``, in order or by name. Methods that cluster
        samples are judged by them and do not see them; those that cluster clients learn from them.
    methods : str or sequence of str
        Names, which options may follow as in ``"kfed+start=largest"``, also in one text with commas between them; or
        ``"all"``.
    budget : str or float
        Wall-clock time for all runs together: seconds, or a text such as ``"90s"``, ``"10m"`` or ``"2h"``.
    n_clusters : int, optional
        Number of clusters, if it is known.
    question : {"auto", "samples", "clients"}
        What is to be clustered; for arrays, samples by default.
    seeds : int
        Runs of each method.
    seed : int, optional
        Seed of the partition and of the first run of each method; by default that of an experiment's file, or 0.
    by : {"score", "truth"}
        Criterion of the ranking and the recommendation.
    settings : dict, str or sequence of str
        Keys of an experiment and their values, such as ``{"method.rounds": 10}``; those of ``method`` are for all
        methods that have them. Or ``"method.rounds=10"``, as ``--set`` takes it.
    out : str or Path, optional
        Output folder; by default one in ``comparisons/``. A comparison that it holds is resumed.

    Returns
    -------
    Comparison
        ``recommended`` and ``reason``; ``table``, a DataFrame; ``lines``, one per method; ``out``, with the results
        and a page.

    Raises
    ------
    FedkinError
        If an argument is out of its range, no method suits the data, `out` holds anything else, or no run finished in
        the budget.
    """
    with at_door(COMPARE):
        names = tuple(name.strip() for name in methods.split(",")) if isinstance(methods, str) else tuple(methods)
        for name in names:
            if not isinstance(name, str):
                raise FedkinError(
                    f"methods has {kind_of(name)}; it takes names, such as 'kfed' or 'package.module:Class'."
                )
        common = _settings(settings)
        options = Options(names, n_clusters, seeds, budget, by)
        options.check()
        if isinstance(clients, str | Path):
            if y is not None and not isinstance(y, str):
                raise FedkinError(
                    f"Labels were given beside '{clients}', which has its own; give arrays of both, or none."
                )
            given, label, what, scenario = None, y, str(clients), None
        else:
            given = federation_input(clients, y, entrance="compare")
            label, what, scenario = given.label, "clients in memory", "files"
        common += [] if label is None else [f"data.label={label}"]
        asked = question_of(what, scenario=scenario, seed=seed, settings=common, asked=question, methods=names)
        folder = Path("comparisons") / (asked.name if given is None else "arrays")
        return compared(asked, options, folder if out is None else Path(out), given=given)


def compared(
    question: Question,
    options: Options,
    out: Path,
    shows: bool = True,
    worker: Worker | None = None,
    began: float | None = None,
    given: FederationInput | None = None,
) -> Comparison:
    """Compare methods on the same clients; an interrupted comparison of the same question in `out` is resumed.

    `shows` says whether to show the progress on a terminal. The `worker` makes the runs; by default it is a new one.
    The budget starts at `began`, a time of ``time.monotonic()``; by default it is now. `given` are clients in memory,
    in place of the question's data.
    Raises FedkinError if an option is out of its range, no method suits the data, `out` holds anything else, or no run
    finished in the budget.
    """
    options.check()
    seconds = parsed_duration(options.budget)
    budget = TimeBudget(seconds, min(_KEPT * seconds, _MOST_KEPT), began)
    selection = selection_of(question.family, options.methods)
    config = _checked(question, selection, options)
    population = question.check(config.population() if given is None else _in_memory(config, given))
    truth = population.truth if question.family == "samples" else population.clusters
    if options.by == "truth" and truth is None:
        raise FedkinError(f"{flag('by')} truth needs a truth, and '{question.data}' has none; leave it out.")
    sent = None if given is None else SentPopulation.of(population)
    plan = {**asdict(question), "clusters": options.clusters, "clients": {} if given is None else _sums(population)}
    with worker or Worker() as at_work, Study(out, plan, "comparison", at_work, sent) as study:
        schedule = Schedule(question, selection, options, study, budget, population, shows=shows)
        make_runs([schedule], options.seeds)
        comparison = _comparison(schedule, config, given is not None)
        comparison.write()
        write_page(out / PAGE, page_of(comparison))
    return comparison


def benchmarked(
    family: Family,
    options: Options,
    out: Path,
    data: str = "digits",
    scenarios: Sequence[str] = ("all",),
    rounds: int = 20,
    module: str = "perceptron",
    worker: Worker | None = None,
    shows: bool = True,
) -> Benchmark:
    """Compare methods on each scenario of a benchmark until the budget is spent, and write the page.

    `data` are for all scenarios that do not require a particular data set; each seed has a partition of its own.
    Methods that cluster clients train `module` for so many communication `rounds`; all else is a method's default.
    Methods that cannot find the number of clusters are given it. Results in `out` with the same data and settings are
    not computed again. By default the `worker` is a process of one thread.
    Raises FedkinError if an option is out of range, a name unknown, or the folder holds another benchmark.
    """
    options.check()
    if rounds < 1:
        raise FedkinError(f"{flag('rounds')} is {rounds}; allowed: 1 or more.")
    selection = selection_of(family, options.methods)
    shared = {"rounds": rounds, "module": module} if family == "clients" else {}
    questions = questions_of(family, data, scenarios_of(family, scenarios), shared)
    options = replace(options, by="truth" if family == "samples" else "score")
    budget = TimeBudget(parsed_duration(options.budget))
    plan = {"family": family, "data": data, **shared}
    with worker or Worker(threads=1) as at_work, Study(out, plan, "benchmark", at_work) as study:
        schedules = [
            Schedule(question, selection, replace(options, clusters=number), study, budget, None, name, shows)
            for name, (question, number) in questions.items()
        ]
        for candidate in schedules[0].selection.first(schedules[0].options.clusters, needy_only=True):
            schedules[0].question.config(candidate, 0)  # settings are refused before anything runs
        make_runs(schedules, options.seeds)
        rows = {schedule.scenario: schedule.rows() for schedule in schedules}
        results = {
            cell: result
            for cell, result in study.results.items()
            if cell.scenario in rows
            and cell.method in selection.methods
            and cell.seed < options.seeds
            and not study.waits(cell, schedules[0].limit)  # cut off by the budget, and made anew
        }
        benchmark = Benchmark(family, data, shared, rows, results)
        write_page(out / BENCHMARK_PAGE, benchmark.page())
    return benchmark


def _checked(question: Question, selection: Selection, options: Options) -> Config:
    """Check the experiments of all candidates, which differ in the method only, and return the first.

    Raises FedkinError, with a line for each method whose settings are not allowed, or if a tracker, the device or the
    engine is not there.
    """
    numbers = _TRIED if options.clusters is None else (options.clusters,)
    tried = [*selection.first(options.clusters), *selection.with_k(numbers, cheap=True)]
    tried += selection.with_k(numbers, cheap=False)
    configs: dict[str, Config] = {}
    problems: dict[str, str] = {}
    for candidate in tried:
        try:
            configs.setdefault(candidate.method, question.config(candidate, question.seed))
        except FedkinError as error:
            problems.setdefault(candidate.method, str(error))
    if refused := {text: name for name, text in problems.items() if name not in configs}:
        raise all_problems([f"{name}: {text}" if len(configs) else text for text, name in refused.items()])
    config = next(iter(configs.values()))
    check_machine(config)
    return config


def _in_memory(config: Config, given: FederationInput) -> Population:
    """Build the clients that were given in memory, some of whose samples may be held out; labels beside them are read.

    Raises FedkinError if a client's samples or labels cannot be used.
    """
    scenario: Any = replace(config.scenario, data=given.source, label=given.column)
    beside = [labels for labels in given.labels if labels is not None] if given.label is None else []
    if not beside:
        return scenario.build(config.data_seed)  # type: ignore[no-any-return]
    population: Population = replace(scenario, test_fraction=0.0).build(config.data_seed)
    read = []
    for client, labels, name in zip(population.clients, given.labels, population.names, strict=True):
        indices, classes = encode_labels(labels, f"y of client {name}")
        if len(indices) != len(client):
            raise FedkinError(f"y of client {name} has {len(indices)} labels for {len(client)} samples.")
        read.append([classes[i] for i in indices.tolist()])
    indices, classes = encode_labels([label for labels in read for label in labels], "y")
    clients, tests = [], []
    for client, y in zip(population.clients, indices.split([len(labels) for labels in read]), strict=True):
        rng = derive_generator(config.data_seed, "test", client.id)
        kept, out = hold_out(torch.arange(len(client)), scenario.test_fraction, rng)
        clients.append(replace(client, y=y).rows(kept))
        tests.append((client.x[out], y[out]))
    truth = [client.y for client in clients if client.y is not None]
    return replace(
        population, clients=clients, truth=truth, classes=classes, tests=tests if scenario.test_fraction > 0 else []
    )


def _sums(population: Population) -> dict[str, str]:
    """Return a checksum of each client's samples and labels, by its name."""
    sums = {}
    for name, client in zip(population.names, population.clients, strict=True):
        columns = None if client.table is None else client.table.columns
        parts = [str(columns).encode(), *(each.numpy().tobytes() for each in (client.x, client.y) if each is not None)]
        sums[name] = sha256(b"".join(parts)).hexdigest()
    return sums


class OneOfMany(Bar):
    """Progress bar of one run among many, without a line for each of its steps."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def phase(self, text: str) -> None:
        super().phase(f"{self._title} · {text}")

    def step(self, line: RecordLine, timing: Timing) -> None:
        return None


@dataclass
class Schedule:
    """Schedule of one question: which run is made next, and how the time budget is shared.

    Of a benchmark it is that of one `scenario`; its true number of clusters is given to methods that cannot find it,
    and every seed has a partition of its own.
    """

    question: Question
    selection: Selection
    options: Options
    study: Study
    budget: TimeBudget
    population: Population | None
    scenario: str = ""
    shows: bool = True

    def __post_init__(self) -> None:
        self.by_truth = self.options.by == "truth"
        self.limit = math.inf if self.options.limit is None else parsed_duration(self.options.limit, "limit")
        self.tried: dict[Candidate, None] = {}

    def runs(self, candidate: Candidate) -> list[CellResult]:
        """Return the finished runs of a candidate, in order of seed."""
        cells = (self._cell(candidate, seed) for seed in range(self.options.seeds))
        return [result for cell in cells if (result := self.study.finished(cell))]

    def first(self, candidate: Candidate) -> CellResult | None:
        """Return the result of a candidate's first run, also of one that failed; ``None`` if it had no turn."""
        return self.study.results.get(self._cell(candidate, 0))

    def scores(self) -> dict[Candidate, CandidateScore]:
        """Return the scores of every candidate that has a finished run."""
        family, same = self.question.family, not self.scenario
        return {each: score_of(family, runs, same) for each in self.tried if (runs := self.runs(each))}

    def best(self) -> dict[str, Candidate]:
        """Return for each method the finished candidate with the best number of clusters, the cheapest first."""
        best = best_numbers(self.scores(), self.by_truth)
        return {name: best[name] for name in self.selection.methods if name in best}

    def rows(self) -> list[ComparisonRow]:
        """Return a row per method, the cheapest first."""
        best, scores = self.best(), self.scores()
        return [self._row(name, best.get(name), scores) for name in self.selection.methods]

    def turns(self, seed: int) -> Iterator[Candidate]:
        """Yield candidates in the order of their turns with a seed, counted from 0."""
        if seed:
            yield from self.best().values()
            return
        clusters = self.options.clusters
        first = self.selection.first(clusters, bool(self.scenario))
        yield from self._listed([each for each in first if method_named(each.method).traits.cost == "cheap"])
        if self.population is not None and clusters is None and self.question.family == "samples":
            samples = sum(map(len, self.population.clients))
            ladder = [number for number in LADDER if number <= samples // _SAMPLES_PER_CLUSTER]
            likely = self._numbers()[:1] or ladder[:1]
            # A number whose clusters are found again no better than by chance would mislead every other method.
            if max((score.score for score in self.scores().values()), default=0.0) > CHANCE:
                yield from self._listed([Candidate(name, number) for name in self.selection.needy for number in likely])
            for number in ladder:
                yield from self._listed([Candidate(name, number) for name in self._climbers()])
            likely = self._numbers()[:1] or likely
            yield from self._listed([Candidate(name, number) for name in self.selection.needy for number in likely])
        yield from self._listed(first)
        if clusters is None:
            yield from self._listed(self.selection.with_k(self._numbers(), cheap=True))
            yield from self._listed(self.selection.with_k(self._numbers()[:1], cheap=False))

    def unfinished(self) -> list[tuple[Candidate, int]]:
        """Return candidates and seeds to try again, the cheapest first."""
        jobs = [(each, 0) for each in self.tried]
        jobs += [(each, seed) for seed in range(1, self.options.seeds) for each in self.best().values()]
        order = {name: at for at, name in enumerate(self.selection.methods)}
        return sorted(jobs, key=lambda job: (order[job[0].method], job[1]))

    def share(self, seed: int) -> float:
        """Return the share of the time left that a run has: as much as one of each method that waits for the seed."""
        waiting = sum(not self._has_ended(name, seed) for name in self.selection.methods)
        return self.budget.left / max(1, waiting + (seed == 0))

    def run(self, candidate: Candidate, seed: int, seconds: float) -> None:
        """Make a run for at most `seconds`, unless it has ended, or had as much time before, or time is up."""
        cell, seconds = self._cell(candidate, seed), min(seconds, self.limit)
        if self.budget.left < _MIN_SECONDS or not self.study.waits(cell, seconds):
            return
        names = [*([self.scenario] if self.scenario else []), candidate.name, f"seed {cell.seed}"]
        title = f"{', '.join(names)} · {duration(self.budget.left)} left"
        question = replace(self.question, seed=cell.seed) if self.scenario else self.question
        bar: AbstractContextManager[Progress]
        bar = OneOfMany(title) if self.shows and sys.stderr.isatty() else nullcontext(Progress())
        with bar as progress:
            halves = self.question.family == "samples" and not self.scenario
            config = question.config(candidate, cell.seed)
            self.study.run(cell, config, max(seconds, _MIN_SECONDS), progress, halves)

    def _listed(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        for candidate in candidates:
            self.tried[candidate] = None
            yield candidate

    def _has_ended(self, method: str, seed: int) -> bool:
        """Return whether a method has a result of a seed, or the reason why it has none."""
        mine = [each for each in self.tried if each.method == method]
        return any(self._cell(each, seed) in self.study.results for each in mine)

    def _climbers(self) -> list[str]:
        """Return the methods on the ladder: the cheapest that needs a number of clusters, and quick optional ones."""
        quick = [
            each.method
            for each in self.tried
            if (made := method_named(each.method)).traits.finds_k
            and made.traits.takes_k
            and each.number is None
            and (runs := self.runs(each))
            and runs[0].seconds <= _QUICK * self.budget.seconds
        ]
        return [*self.selection.needy[:1], *quick]

    def _numbers(self) -> list[int]:
        """Return the numbers of clusters to give, the likeliest first: those of the best candidates so far."""
        scores, of_clients = self.scores(), self.question.family == "clients"
        ranked = sorted(scores, key=lambda each: -rank_of(scores[each], self.by_truth))
        able = {each: scores[each] for each in ranked if scores[each].clusters[0] > 1}
        if able and not self.by_truth and not of_clients:
            ranked = [finest(able), *ranked]
        assert self.population is not None
        clients = self.population.clients
        maximum = len(clients) - 1 if of_clients else sum(map(len, clients))
        proposed = [scores[each].clusters[0] if each.number is None else each.number for each in ranked]
        usable = list(dict.fromkeys(number for number in proposed if 2 <= number <= maximum))
        few = [number for number in FEW if number <= maximum] if of_clients else []
        return (usable or few)[:_MAX_NUMBERS]

    def _cell(self, candidate: Candidate, seed: int) -> Cell:
        if self.scenario:  # where a method has one number, which its results do not repeat
            return Cell(candidate.method, seed, scenario=self.scenario)
        return Cell(candidate.method, self.question.seed + seed, candidate.number)

    def _row(self, name: str, taken: Candidate | None, scores: Mapping[Candidate, CandidateScore]) -> ComparisonRow:
        """Build a method's row; without a finished run it says why."""
        role = self.selection.role(name)
        if taken is None:
            shown = next((each for each in self.tried if each.method == name), Candidate(name))
            first = self.first(shown)
            if first is None:
                why = "not started in the budget"
            else:
                kind = "not finished in the budget" if first.limit else "cannot be applied"
                why = f"{kind}: {first.failed.rstrip('.')}"
            return ComparisonRow(name, shown.number, role, remark="; ".join(filter(None, [_ROLES[role], why])))
        score = scores[taken]
        return ComparisonRow(
            method=name,
            number=taken.number,
            role=role,
            runs=len(score.runs),
            clusters=score.clusters,
            measures=score.measures,
            truth=score.truth,
            deviations=score.deviations,
            error=score.error,
            bytes=score.bytes,
            seconds=score.seconds,
            memory=max(run.memory for run in score.runs),
            remark=_ROLES[role],
        )


_ROLES: Mapping[Role, str] = {
    "": "",
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
    "baseline": "forms no clusters",
}


def make_runs(schedules: Sequence[Schedule], seeds: int) -> None:
    """Make runs until all are made or the budget is spent: one seed of all before the second of any."""
    for seed in range(seeds):
        for schedule in schedules:
            for candidate in schedule.turns(seed):
                limited = schedule.limit < math.inf
                schedule.run(candidate, seed, schedule.budget.left if limited else schedule.share(seed))
    for schedule in schedules:
        for candidate, seed in schedule.unfinished():
            schedule.run(candidate, seed, schedule.budget.left)


def _comparison(schedule: Schedule, config: Config, in_memory: bool) -> Comparison:
    """Build the comparison from the runs that finished."""
    question, selection, options = schedule.question, schedule.selection, schedule.options
    scores = schedule.scores()
    if not scores:
        raise _nothing_finished(schedule)
    best = {candidate: scores[candidate] for candidate in schedule.best().values()}
    choice = recommend(selection, best, schedule.by_truth)
    take = choice.candidate if choice else None
    ranks = {each.method: rank_of(score, schedule.by_truth) for each, score in best.items()}
    lines = schedule.rows()
    lines.sort(key=lambda line: (not line.runs, not take or line.method != take.method, -ranks.get(line.method, -1.0)))
    chance, doubts = _doubts(schedule, choice, scores, best) if choice else (None, [])
    return Comparison(
        question=question.description,
        family=question.family,
        lines=tuple(lines),
        recommended=take.method if take else None,
        reason=_reason(choice, best, schedule.by_truth)
        if choice
        else "no method that finished may be recommended, or none found more than one cluster",
        use=_use(question, take, in_memory) if take else (),
        by=options.by,
        seeds=options.seeds,
        budget=schedule.budget.seconds,
        spent=schedule.budget.spent,
        out=schedule.study.out,
        settings={key: value for key, value in config.tables.items() if key != "method"},
        warnings=tuple(doubts),
        better_than_chance=chance,
        undecided=bool(choice and choice.undecided),
        as_good=tuple(each.name for each in choice.as_good) if choice else (),
        notes=schedule.population.notes if schedule.population else (),
    )


def _nothing_finished(schedule: Schedule) -> FedkinError:
    firsts = [schedule.first(each) for each in schedule.tried]
    refusals = [first.failed for first in firsts if first and not first.limit]
    if refusals and all(first and not first.limit for first in firsts):
        return FedkinError(f"No method suits '{schedule.question.data}': {refusals[0]}")
    why = f" ({refusals[0]})" if refusals else ""
    return FedkinError(
        f"No run finished in the budget of {duration(schedule.budget.seconds)}{why}; the same with a larger budget "
        "resumes."
    )


def _doubts(
    schedule: Schedule,
    choice: Choice,
    scores: Mapping[Candidate, CandidateScore],
    best: Mapping[Candidate, CandidateScore],
) -> tuple[bool | None, list[str]]:
    """Return whether clusters are better than chance, and reasons to recommend without confidence."""
    taken, doubts, chance = best[choice.candidate], [], None
    seeds = schedule.options.seeds
    if taken.family == "samples":
        finders = [score for each, score in scores.items() if each.number is None]
        single = bool(finders) and all(max(score.clusters) == 1 for score in finders)
        again = taken.measures["found_again"]
        chance = again > CHANCE and not single
        if single:
            doubts.append("Every method that finds the number of clusters finds one: the data may have none.")
        elif not chance:
            doubts.append(
                f"No better than chance: halves of the samples agree on the clusters to {again:.2f} (ARI), and pieces "
                f"of a single cloud are found again to {CHANCE:g}, too. The data may have no clusters."
            )
        if choice.undecided:
            names = join_words([each.name for each in choice.undecided])
            doubts.append(f"Undecided: halves do not tell it from {names}, whose clusters differ; look at both.")
    else:
        accuracy, guess = taken.measures.get("accuracy"), _guessed_accuracy(schedule.population)
        if accuracy is not None and guess is not None and accuracy <= guess:
            doubts.append(
                f"The clusters' models are no better than a guess: an accuracy of {accuracy:.3f}, where always "
                f"answering a client's most frequent class has {guess:.3f}. They need more rounds, or another model."
            )
    if len(taken.runs) < seeds:
        doubts.append(
            f"Only {len(taken.runs)} of {pluralize(seeds, 'run')} finished; the same with a larger budget resumes."
        )
    stability = taken.measures.get("stability")
    if stability is not None and stability < ALIKE:
        doubts.append(f"The clusters depend on the seed: those of two runs agree to ARI {stability:.2f} only.")
    ended = {each.method for each in schedule.tried if (first := schedule.first(each)) and not first.limit}
    forming = [each for each in best if schedule.selection.role(each.method) != "baseline"]
    if (len(best) == 1 or not forming) and {*schedule.selection.methods} - ended:
        names = join_words(sorted(each.method for each in best))
        doubts.append(f"Only {names} finished, so there is little to compare; a larger budget resumes.")
    return chance, doubts


def _guessed_accuracy(population: Population | None) -> float | None:
    """Return the mean over clients of the accuracy of always answering the most frequent class of their training."""
    assert population is not None
    shares = [
        float((tests == client.y.mode().values).double().mean())
        for client, (_, tests) in zip(population.clients, population.tests, strict=True)
        if client.y is not None and len(client.y) and len(tests)
    ]
    return mean(shares) if shares else None


def _reason(choice: Choice, best: Mapping[Candidate, CandidateScore], by_truth: bool) -> str:
    """Explain why a candidate is recommended, as the rest of a sentence that begins with "it"."""
    score = best[choice.candidate]
    value = score.measures[SCORE[score.family]]
    others = f", as good as {pluralize(len(choice.as_good), 'other')}" if choice.as_good else ""
    if by_truth:
        name = TRUTH[score.family][0]
        parts = [f"agrees best with the truth ({name.upper()} {score.truth[name]:.3f})"]
    elif score.family == "samples":
        parts = [f"finds clusters that the other half of the samples finds again (ARI {value:.3f}){others}"]
    else:
        parts = [f"reaches an accuracy of {value:.3f} on clients' own test samples{others}"]
    if choice.baseline is not None:
        level = best[choice.baseline].measures["accuracy"]
        parts.append(
            f"is not significantly better than {choice.baseline.method}, which forms no clusters ({level:.3f})"
        )
    if score.family == "samples" and choice.candidate.number is None and not by_truth:
        parts.append("finds the number of clusters itself")
    stable = score.measures.get("stability")
    if stable is not None:
        same = f"finds the same clusters over seeds (ARI {stable:.2f})"
        parts.append(same if stable >= SAME else f"agrees with itself over seeds to ARI {stable:.2f}")
    return join_words([*parts, f"moves {format_bytes(score.bytes)} in {duration(score.seconds)}"])


def _use(question: Question, chosen: Candidate, in_memory: bool) -> tuple[str, ...]:
    """Return commands that run the recommended method alone, and apply it to new samples or an unseen client.

    Of clients in memory, which no file holds, it is the call in Python.
    """
    options = {key: value for key, value in chosen.settings(question.settings).items() if key != "name"}
    if in_memory:
        name = method_named(chosen.method).__name__.removesuffix("Method")
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        return (f"fedkin.{name}({given}).fit(clients)",) if name in import_module("fedkin").__all__ else ()
    settings = [
        f"--set {shlex.quote(f'{section}.{key}={_plain(value)}')}"
        for section, values in question.tables.items()
        for key, value in values.items()
        if section != "evaluation" and (section, key) not in (("data", "source"), ("scenario", "name"))
    ]
    settings += [f"--set {shlex.quote(f'method.{key}={_plain(value)}')}" for key, value in options.items()]
    apply = "predict" if question.family == "samples" else "assign"
    method, number = base_name(chosen.method), "" if chosen.number is None else f"-{chosen.number}"
    run = f"runs/{question.name}-{registry.file_name(method)}{number}"
    where = f"--data {shlex.quote(question.data)} --scenario {question.scenario} --seed {question.seed}"
    parts = [f"fedkin run {method}", where, *settings, f"--out {shlex.quote(run)}"]
    return (" ".join(parts), f"fedkin {apply} {shlex.quote(run)} NEW.csv")


def _plain(value: object) -> str:
    """Format a value for ``--set``; text is quoted only if it would be read as another type."""
    if not isinstance(value, str):
        return "none" if value is None else json.dumps(value)
    read: dict[str, object] = {}
    apply_setting(read, f"value={value}")
    return value if read["value"] == value else json.dumps(value, ensure_ascii=False)


def _settings(given: Any) -> list[str]:
    """Return settings as ``--set`` takes them; raises FedkinError if one is no plain value, or none of a file's."""
    if not isinstance(given, Mapping):
        return [given] if isinstance(given, str) else [str(each) for each in given]
    settings = []
    for path, value in flat(given):
        plain = value.tolist() if hasattr(value, "tolist") else value
        try:
            written = json.dumps("none" if plain is None else str(plain) if isinstance(plain, Path) else plain)
        except TypeError as error:
            raise FedkinError(
                f"'{path}' in settings is {kind_of(value)}, which no experiment's file can hold; of a function give "
                "the path, such as 'networks:build' for networks.py."
            ) from error
        settings.append(f"{path}={written}")
    return settings
