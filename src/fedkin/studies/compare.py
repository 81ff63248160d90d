"""Comparisons of methods on some data, or on the scenarios of a benchmark: `fedkin.compare` and the commands.

First comes one seed of every method that finds the number of clusters, or is given the known one. If the number is not
known, the first cheap method that needs it, and quick ones that may be given it, climb a ladder of numbers; those found
and the best of the ladder are given to the other cheap methods, and the likeliest to the costly ones. A number whose
clusters are found again no better than by chance is given to none before the ladder. Then come further
seeds of each method with its best number. A run has its share of the time that remains, or its limit; what did not
finish is tried again when all had their turn, the cheapest method first, as long as there is more time than it had.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import import_module
from numbers import Integral
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from fedkin.core import FedkinError
from fedkin.core.errors import COMPARE, all_problems, at_door, checked_keywords, flag, kind_of
from fedkin.core.seeds import derive_generator
from fedkin.data.dataset import encode_labels
from fedkin.data.inputs import FederationInput, federation_input
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import hold_out
from fedkin.experiment import registry
from fedkin.experiment.config import Config, apply_setting, flat
from fedkin.experiment.run import check_machine
from fedkin.experiment.terminal import Bar
from fedkin.report.numbers import format_bytes, join_words, pluralize
from fedkin.report.page import write_page
from fedkin.studies.benchmark import questions_of, scenarios_of
from fedkin.studies.cells import CellResult
from fedkin.studies.comparison import BENCHMARK_PAGE, PAGE, Benchmark, Comparison, page_of
from fedkin.studies.question import (
    Candidate,
    Family,
    Question,
    Role,
    base_name,
    method_named,
    methods_of,
    question_of,
    role_of,
)
from fedkin.studies.ranking import ALIKE, CHANCE, SAME, Choice, Score, best_numbers, finest, recommend, score_of
from fedkin.studies.study import Cell, Study
from fedkin.studies.time_budget import TimeBudget, duration, parsed_duration
from fedkin.studies.workers import Worker

LADDER = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
"""Numbers of clusters of samples that a few cheap methods try where none is known."""
_MIN_SECONDS = 2.0
"""Seconds below which no run is begun, for reading the data may take as long."""
_ROLES: Mapping[Role, str] = {
    "": "",
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
    "baseline": "forms no clusters",
}


@dataclass(frozen=True)
class Options:
    """Options of a comparison or a benchmark.

    Each method has `seeds` runs, at least 1. `clusters` is their number, at least 2, if it is known. `budget` is
    wall-clock time, such as ``"10m"`` or seconds. `limit` is the time of one run, after which it is given up until a
    call has a longer one; by default its share of the budget. Raises FedkinError, which names the first option that is
    out of its range.
    """

    clusters: int | None = None
    seeds: int = 3
    budget: str | float = "10m"
    limit: str | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("clusters", self.clusters, 2), ("seeds", self.seeds, 1)):
            if value is not None and (not isinstance(value, Integral) or value < least):
                raise FedkinError(f"{flag(name)} is {value!r}; it takes one whole number of at least {least}.")
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
    settings: str | Sequence[str] | Mapping[str, Any] = (),
    out: str | Path | None = None,
) -> Comparison:
    """Compare all suitable methods on some data, rank them without truth, and recommend one.

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
        Names, which options may follow as in ``"kfed+server=one-round"``, also in one text with commas between them; or
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
        names = [name.strip() for name in methods.split(",")] if isinstance(methods, str) else list(methods)
        for name in names:
            if not isinstance(name, str):
                raise FedkinError(
                    f"methods has {kind_of(name)}; it takes names, such as 'kfed' or 'package.module:Class'."
                )
        common, options = _settings(settings), Options(n_clusters, seeds, budget)
        if isinstance(clients, str | Path):
            if y is not None and not isinstance(y, str):
                raise FedkinError(
                    f"Labels were given beside '{clients}', which has its own; give arrays of both, or none."
                )
            data, label, what, scenario = None, y, str(clients), None
        else:
            data = federation_input(clients, y, entrance="compare")
            label, what, scenario = data.label, "clients in memory", "files"
        common += [] if label is None else [f"data.label={label}"]
        full = question_of(what, scenario=scenario, seed=seed, settings=common, asked=question, methods=names)
        folder = Path("comparisons") / (full.name if data is None else "arrays")
        return compared(full, options, folder if out is None else Path(out), in_memory=data)


def compared(
    question: Question,
    options: Options,
    out: Path,
    shows: bool = True,
    worker: Worker | None = None,
    start: float | None = None,
    in_memory: FederationInput | None = None,
) -> Comparison:
    """Compare methods on the same clients; an interrupted comparison of the same question in `out` is resumed.

    `shows` says whether to show the progress on a terminal. The `worker` makes the runs; by default it is a new one.
    The budget starts at `start`, a time of ``time.monotonic()``; by default it is now. Clients `in_memory` take the
    place of the question's data.
    Raises FedkinError if no method suits the data, `out` holds anything else, or no run finished in the budget.
    """
    seconds = parsed_duration(options.budget)
    budget = TimeBudget(seconds, min(0.1 * seconds, 10.0), start)  # some is for scores and the page
    config = _checked(question, options)
    population = question.check(config.population() if in_memory is None else _population(config, in_memory))
    plan = {name: value for name, value in vars(question).items() if name != "methods"}
    plan |= {"clusters": options.clusters, "clients": {} if in_memory is None else _sums(population)}
    sent = None if in_memory is None else population
    with worker or Worker() as process, Study(out, plan, "comparison", process, sent) as study:
        schedule = Schedule(question, options, study, budget, population, shows=shows)
        make_runs([schedule], options.seeds)
        comparison = _comparison(schedule, config, in_memory is not None)
        comparison.write()
        write_page(out / PAGE, page_of(comparison))
    return comparison


def benchmarked(
    family: Family,
    methods: Sequence[str],
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
    if rounds < 1:
        raise FedkinError(f"{flag('rounds')} is {rounds}; allowed: 1 or more.")
    shared = {"rounds": rounds, "module": module} if family == "clients" else {}
    names = methods_of(family, methods)
    questions = questions_of(family, names, data, scenarios_of(family, scenarios), shared)
    budget = TimeBudget(parsed_duration(options.budget))
    plan = {"family": family, "data": data, **shared}
    with worker or Worker(threads=1) as process, Study(out, plan, "benchmark", process) as study:
        schedules = [
            Schedule(question, replace(options, clusters=number), study, budget, None, name, shows)
            for name, (question, number) in questions.items()
        ]
        first = schedules[0]
        for candidate in first.question.candidates(first.options.clusters, needy_only=True):
            first.question.config(candidate, 0)  # settings are refused before anything runs
        make_runs(schedules, options.seeds)
        rows = {schedule.scenario: schedule.rows() for schedule in schedules}
        results = {
            cell: result
            for cell, result in study.results.items()
            if cell.scenario in rows
            and cell.method in names
            and cell.seed < options.seeds
            and not study.waits(cell, first.limit)  # cut off by the budget, and made anew
        }
        benchmark = Benchmark(family, data, shared, rows, results)
        write_page(out / BENCHMARK_PAGE, benchmark.page())
    return benchmark


def _checked(question: Question, options: Options) -> Config:
    """Check the experiments of all candidates, which differ in the method only, and return the first.

    Raises FedkinError, with a line for each method whose settings are not allowed, or if a tracker, the device or the
    engine is not there.
    """
    # A number of clusters that some method does not take is no mistake of the user's, so two are tried.
    numbers = (2, 20) if options.clusters is None else (options.clusters,)
    candidates = [*question.candidates(options.clusters), *question.with_numbers(numbers, "cheap", "costly")]
    configs: dict[str, Config] = {}
    problems: dict[str, str] = {}
    for candidate in candidates:
        try:
            configs.setdefault(candidate.method, question.config(candidate, question.seed))
        except FedkinError as error:
            problems.setdefault(candidate.method, str(error))
    if refused := {text: name for name, text in problems.items() if name not in configs}:
        raise all_problems([f"{name}: {text}" if len(configs) else text for text, name in refused.items()])
    config = next(iter(configs.values()))
    check_machine(config)
    return config


def _population(config: Config, data: FederationInput) -> Population:
    """Build the clients that were passed in memory, some of whose samples may be held out; labels beside them are read.

    Raises FedkinError if a client's samples or labels cannot be used.
    """
    scenario: Any = replace(config.scenario, data=data.source, label=data.column)
    if data.label is not None or all(labels is None for labels in data.labels):
        return scenario.build(config.data_seed)  # type: ignore[no-any-return]
    population: Population = replace(scenario, test_fraction=0.0).build(config.data_seed)
    texts = []
    for client, labels, name in zip(population.clients, data.labels, population.names, strict=True):
        indices, classes = encode_labels(labels, f"y of client {name}")
        if len(indices) != len(client):
            raise FedkinError(f"y of client {name} has {len(indices)} labels for {len(client)} samples.")
        texts.append([classes[i] for i in indices.tolist()])
    indices, classes = encode_labels([label for labels in texts for label in labels], "y")
    clients, tests = [], []
    for client, y in zip(population.clients, indices.split([len(labels) for labels in texts]), strict=True):
        rng = derive_generator(config.data_seed, "test", client.id)
        rows, test_rows = hold_out(torch.arange(len(client)), scenario.test_fraction, rng)
        clients.append(replace(client, y=y).rows(rows))
        tests.append((client.x[test_rows], y[test_rows]))
    truth = [client.y for client in clients if client.y is not None]
    return replace(
        population, clients=clients, truth=truth, classes=classes, tests=tests if scenario.test_fraction > 0 else []
    )


def _sums(population: Population) -> dict[str, str]:
    """Return a checksum of each client's samples and labels, by its name."""
    sums = {}
    for name, client in zip(population.names, population.clients, strict=True):
        columns = None if client.table is None else client.table.columns
        arrays = [array.numpy().tobytes() for array in (client.x, client.y) if array is not None]
        sums[name] = sha256(b"".join([str(columns).encode(), *arrays])).hexdigest()
    return sums


@dataclass
class Schedule:
    """Schedule of one question: which run is made next, and how the time budget is shared.

    Of a benchmark it is that of one `scenario`; its true number of clusters is given to methods that cannot find it,
    and every seed has a partition of its own.
    """

    question: Question
    options: Options
    study: Study
    budget: TimeBudget
    population: Population | None
    scenario: str = ""
    shows: bool = True
    tried: dict[Candidate, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limit = math.inf if self.options.limit is None else parsed_duration(self.options.limit, "limit")

    def results(self, candidate: Candidate) -> list[CellResult]:
        """Return the results of a candidate's finished runs, in order of seed."""
        cells = (self._cell(candidate, seed) for seed in range(self.options.seeds))
        return [result for cell in cells if (result := self.study.finished(cell))]

    def first(self, candidate: Candidate) -> CellResult | None:
        """Return the result of a candidate's first run, also of one that failed; ``None`` if it had no turn."""
        return self.study.results.get(self._cell(candidate, 0))

    def scores(self) -> list[Score]:
        """Return the scores of every candidate that has a finished run."""
        same = not self.scenario
        return [
            score_of(self.question.family, candidate, results, same)
            for candidate in self.tried
            if (results := self.results(candidate))
        ]

    def best(self) -> list[Score]:
        """Return for each method the score with the best number of clusters, the cheapest first."""
        best = best_numbers(self.question.family, self.scores())
        return [best[name] for name in self.question.methods if name in best]

    def rows(self) -> list[Score]:
        """Return a row per method, the cheapest first; without a finished run it says why."""
        best = {score.method: score for score in self.best()}
        rows = []
        for name in self.question.methods:
            role = role_of(name)
            if name in best:
                rows.append(replace(best[name], remark=_ROLES[role]))
                continue
            candidate = next((tried for tried in self.tried if tried.method == name), Candidate(name))
            first = self.first(candidate)
            why = "not started in the budget"
            if first is not None:
                kind = "not finished in the budget" if first.limit else "cannot be applied"
                why = f"{kind}: {first.failed.rstrip('.')}"
            remark = "; ".join(filter(None, [_ROLES[role], why]))
            rows.append(Score(name, candidate.number, role, remark=remark))
        return rows

    def turns(self, seed: int) -> Iterator[Candidate]:
        """Yield candidates in the order of their turns with a seed, counted from 0."""
        if seed:
            yield from [Candidate(score.method, score.number) for score in self.best()]
            return
        clusters, question = self.options.clusters, self.question
        first = question.candidates(clusters, bool(self.scenario))
        yield from self._listed([each for each in first if method_named(each.method).traits.cost == "cheap"])
        if self.population is not None and clusters is None and question.family == "samples":
            samples = sum(map(len, self.population.clients))
            ladder = [number for number in LADDER if 10 * number <= samples]
            # A number whose clusters are found again no better than by chance would mislead every other method.
            if max((score.value for score in self.scores()), default=0.0) > CHANCE:
                yield from self._needy(self._numbers()[:1] or ladder[:1])
            for number in ladder:
                yield from self._listed([Candidate(name, number) for name in self._climbers()])
            yield from self._needy(self._numbers()[:1] or ladder[:1])
        yield from self._listed(first)
        if clusters is None:
            yield from self._listed(question.with_numbers(self._numbers(), "cheap"))
            yield from self._listed(question.with_numbers(self._numbers()[:1], "costly"))

    def _needy(self, numbers: Sequence[int]) -> Iterator[Candidate]:
        yield from self._listed([Candidate(name, number) for name in self.question.needy for number in numbers])

    def _listed(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        for candidate in candidates:
            self.tried[candidate] = None
            yield candidate

    def _climbers(self) -> list[str]:
        """Return the methods on the ladder: the cheapest that needs a number of clusters, and quick optional ones."""
        quick = []
        for candidate in self.tried:
            traits = method_named(candidate.method).traits
            optional = traits.finds_k and traits.takes_k and candidate.number is None
            # Quick is a run that takes a hundredth of the budget.
            if optional and (runs := self.results(candidate)) and 100 * runs[0].seconds <= self.budget.seconds:
                quick.append(candidate.method)
        return [*self.question.needy[:1], *quick]

    def _numbers(self) -> list[int]:
        """Return up to four numbers of clusters to give, the likeliest first: those of the best candidates so far."""
        assert self.population is not None
        of_clients = self.question.family == "clients"
        ranked = sorted(self.scores(), key=lambda score: -score.value)
        several = [score for score in ranked if score.clusters[0] > 1]
        if several and not of_clients:
            ranked = [finest(several), *ranked]
        clients = self.population.clients
        maximum = len(clients) - 1 if of_clients else sum(map(len, clients))
        proposed = [score.clusters[0] if score.number is None else score.number for score in ranked]
        usable = list(dict.fromkeys(number for number in proposed if 2 <= number <= maximum))
        few = [number for number in (2, 3, 4) if number <= maximum] if of_clients else []
        return (usable or few)[:4]

    def unfinished(self) -> list[tuple[Candidate, int]]:
        """Return candidates and seeds to try again, the cheapest first."""
        jobs = [(candidate, 0) for candidate in self.tried]
        best = [Candidate(score.method, score.number) for score in self.best()]
        jobs += [(candidate, seed) for seed in range(1, self.options.seeds) for candidate in best]
        order = {name: place for place, name in enumerate(self.question.methods)}
        return sorted(jobs, key=lambda job: (order[job[0].method], job[1]))

    def share(self, seed: int) -> float:
        """Return the share of the remaining time for a run: as much as one of each method that waits for the seed."""
        cells = {name: [self._cell(c, seed) for c in self.tried if c.method == name] for name in self.question.methods}
        waiting = sum(all(cell not in self.study.results for cell in tried) for tried in cells.values())
        return self.budget.remaining / max(1, waiting + (seed == 0))

    def run(self, candidate: Candidate, seed: int, seconds: float) -> None:
        """Make a run for at most `seconds`, unless it has ended, or had as much time before, or time is up."""
        cell, seconds = self._cell(candidate, seed), min(seconds, self.limit)
        if self.budget.remaining < _MIN_SECONDS or not self.study.waits(cell, seconds):
            return
        question = replace(self.question, seed=cell.seed) if self.scenario else self.question
        names = [*([self.scenario] if self.scenario else []), candidate.name, f"seed {cell.seed}"]
        with Bar() if self.shows and sys.stderr.isatty() else nullcontext() as bar:
            if bar is not None:
                bar.phase(f"{', '.join(names)} · {duration(self.budget.remaining)} left")
            halves = self.question.family == "samples" and not self.scenario
            self.study.run(cell, question.config(candidate, cell.seed), max(seconds, _MIN_SECONDS), halves)

    def _cell(self, candidate: Candidate, seed: int) -> Cell:
        if self.scenario:  # a method has one number of clusters in it, which its results do not repeat
            return Cell(candidate.method, seed, scenario=self.scenario)
        return Cell(candidate.method, self.question.seed + seed, candidate.number)


def make_runs(schedules: Sequence[Schedule], seeds: int) -> None:
    """Make runs until all are made or the budget is spent: one seed of all before the second of any."""
    for seed in range(seeds):
        for schedule in schedules:
            for candidate in schedule.turns(seed):
                limited = schedule.limit < math.inf
                schedule.run(candidate, seed, schedule.budget.remaining if limited else schedule.share(seed))
    for schedule in schedules:
        for candidate, seed in schedule.unfinished():
            schedule.run(candidate, seed, schedule.budget.remaining)


def _comparison(schedule: Schedule, config: Config, in_memory: bool) -> Comparison:
    """Build the comparison from the runs that finished."""
    question, options, best = schedule.question, schedule.options, schedule.best()
    firsts = [schedule.first(candidate) for candidate in schedule.tried]
    if not best:
        refusals = [first.failed for first in firsts if first and not first.limit]
        if refusals and len(refusals) == len(firsts):
            raise FedkinError(f"No method suits '{question.data}': {refusals[0]}")
        why = f" ({refusals[0]})" if refusals else ""
        raise FedkinError(
            f"No run finished in the budget of {duration(schedule.budget.seconds)}{why}; the same with a larger budget "
            "resumes."
        )
    choice = recommend(question.family, best)
    method = choice.score.method if choice else None
    lines = sorted(
        schedule.rows(),
        key=lambda line: (not line.results, line.method != method, -line.value),
    )
    chance, doubts = _doubts(schedule, choice, best) if choice else (None, [])
    return Comparison(
        question=question.description,
        family=question.family,
        lines=tuple(lines),
        recommended=method,
        reason=_reason(question.family, choice)
        if choice
        else "no method that finished may be recommended, or none found more than one cluster",
        use=_use(question, choice.score, in_memory) if choice else (),
        seeds=options.seeds,
        budget=schedule.budget.seconds,
        spent=schedule.budget.spent,
        out=schedule.study.out,
        settings={key: value for key, value in config.tables.items() if key != "method"},
        warnings=tuple(doubts),
        better_than_chance=chance,
        undecided=bool(choice and choice.undecided),
        as_good=tuple(score.name for score in choice.as_good) if choice else (),
        notes=schedule.population.notes if schedule.population else (),
    )


def _doubts(schedule: Schedule, choice: Choice, best: Sequence[Score]) -> tuple[bool | None, list[str]]:
    """Return whether clusters are better than chance, and reasons to recommend without confidence."""
    score, measures, seeds = choice.score, choice.score.measures, schedule.options.seeds
    doubts: list[str] = []
    chance = None
    if schedule.question.family == "samples":
        finders = [finder for finder in schedule.scores() if finder.number is None]
        single = bool(finders) and all(max(finder.clusters) == 1 for finder in finders)
        again = measures["found_again"]
        chance = again > CHANCE and not single
        if single:
            doubts.append("Every method that finds the number of clusters finds one: the data may have none.")
        elif not chance:
            doubts.append(
                f"No better than chance: halves of the samples agree on the clusters to {again:.2f} (ARI), and pieces "
                f"of a single cloud are found again to {CHANCE:g}, too. The data may have no clusters."
            )
        if choice.undecided:
            names = join_words([different.name for different in choice.undecided])
            doubts.append(f"Undecided: halves do not tell it from {names}, whose clusters differ; look at both.")
    else:
        accuracy, guess = measures.get("accuracy"), _guessed_accuracy(schedule.population)
        if accuracy is not None and guess is not None and accuracy <= guess:
            doubts.append(
                f"The clusters' models are no better than a guess: an accuracy of {accuracy:.3f}, where always "
                f"answering a client's most frequent class has {guess:.3f}. They need more rounds, or another model."
            )
    if len(score.results) < seeds:
        runs = pluralize(seeds, "run")
        doubts.append(f"Only {len(score.results)} of {runs} finished; the same with a larger budget resumes.")
    if measures.get("stability", 1.0) < ALIKE:
        doubts.append(
            f"The clusters depend on the seed: those of two runs agree to ARI {measures['stability']:.2f} only."
        )
    ended = {tried.method for tried in schedule.tried if (first := schedule.first(tried)) and not first.limit}
    forming = [finished for finished in best if finished.role != "baseline"]
    if (len(best) == 1 or not forming) and {*schedule.question.methods} - ended:
        names = join_words(sorted(finished.method for finished in best))
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


def _reason(family: Family, choice: Choice) -> str:
    """Explain why a method is recommended, as the rest of a sentence that begins with "it"."""
    score, measures = choice.score, choice.score.measures
    as_good = f", as good as {pluralize(len(choice.as_good), 'other')}" if choice.as_good else ""
    if family == "samples":
        again = measures["found_again"]
        parts = [f"finds clusters that the other half of the samples finds again (ARI {again:.3f}){as_good}"]
    else:
        parts = [f"reaches an accuracy of {measures['accuracy']:.3f} on clients' own test samples{as_good}"]
    if choice.baseline is not None:
        level = choice.baseline.measures["accuracy"]
        parts.append(
            f"is not significantly better than {choice.baseline.method}, which forms no clusters ({level:.3f})"
        )
    if family == "samples" and score.number is None:
        parts.append("finds the number of clusters itself")
    if "stability" in measures:
        stable = measures["stability"]
        same = f"finds the same clusters over seeds (ARI {stable:.2f})"
        parts.append(same if stable >= SAME else f"agrees with itself over seeds to ARI {stable:.2f}")
    return join_words([*parts, f"moves {format_bytes(score.bytes or 0)} in {duration(score.seconds or 0)}"])


def _use(question: Question, score: Score, in_memory: bool) -> tuple[str, ...]:
    """Return commands that run the recommended method alone, and apply it to new samples or an unseen client.

    Of clients in memory, which no file holds, it is the call in Python.
    """
    options = Candidate(score.method, score.number).settings(question.settings)
    del options["name"]
    if in_memory:
        name = method_named(score.method).__name__.removesuffix("Method")
        keywords = ", ".join(f"{key}={value!r}" for key, value in options.items())
        return (f"fedkin.{name}({keywords}).fit(clients)",) if name in import_module("fedkin").__all__ else ()
    paths = {f"{section}.{key}": value for section, table in question.tables.items() if section != "evaluation"
             for key, value in table.items()}  # fmt: skip
    paths |= {f"method.{key}": value for key, value in options.items()}
    settings = [
        f"--set {shlex.quote(f'{path}={_plain(value)}')}"
        for path, value in paths.items()
        if path not in ("data.source", "simulation.scenario")
    ]
    method, number = base_name(score.method), "" if score.number is None else f"-{score.number}"
    run = shlex.quote(f"runs/{question.name}-{registry.file_name(method)}{number}")
    source = f"--data {shlex.quote(question.data)} --scenario {question.scenario} --seed {question.seed}"
    apply = "predict" if question.family == "samples" else "assign"
    return (" ".join([f"fedkin run {method}", source, *settings, f"--out {run}"]), f"fedkin {apply} {run} NEW.csv")


def _plain(value: object) -> str:
    """Format a value for ``--set``; text is quoted only if it would be read as another type."""
    if not isinstance(value, str):
        return "none" if value is None else json.dumps(value)
    parsed: dict[str, object] = {}
    apply_setting(parsed, f"value={value}")
    return value if parsed["value"] == value else json.dumps(value, ensure_ascii=False)


def _settings(settings: Any) -> list[str]:
    """Return settings as ``--set`` takes them; raises FedkinError if one is no plain value, or none of a file's."""
    if not isinstance(settings, Mapping):
        return [settings] if isinstance(settings, str) else [str(setting) for setting in settings]
    texts = []
    for path, value in flat(settings):
        plain = value.tolist() if hasattr(value, "tolist") else value
        try:
            text = json.dumps("none" if plain is None else str(plain) if isinstance(plain, Path) else plain)
        except TypeError as error:
            raise FedkinError(
                f"'{path}' in settings is {kind_of(value)}, which no experiment's file can hold; of a function give "
                "the path, such as 'networks:build' for networks.py."
            ) from error
        texts.append(f"{path}={text}")
    return texts
