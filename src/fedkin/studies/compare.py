"""`fedkin.compare`, and ``fedkin compare``: methods that suit some data, ranked with or without truth, one recommended.

First comes one seed of every method that finds the number of clusters, or is given the known one. If the number is not
known, the first cheap method that needs it, and quick ones that may be given it, climb a ladder of numbers; those found
and the best of the ladder are given to the other cheap methods, and the likeliest to the costly ones. Then come further
seeds of each method with its best number. A run has its share of the time that is left; what did not finish is tried
again when all had their turn, the cheapest method first, as long as there is more time than it had.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib import import_module
from numbers import Integral
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from fedkin.core import FedkinError, Method
from fedkin.core.aliases import checked_keywords
from fedkin.core.doors import COMPARE, at_door, flag
from fedkin.core.errors import all_problems, kind_of
from fedkin.core.progress import Progress
from fedkin.core.seeds import derive_generator
from fedkin.data.dataset import encode_labels
from fedkin.data.inputs import FederationInput, federation_input
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import hold_out
from fedkin.experiment.config import Config, apply_setting
from fedkin.experiment.option_models import flat
from fedkin.experiment.registry import METHODS
from fedkin.experiment.run import check_machine
from fedkin.report.numbers import format_bytes, join_words, pluralize
from fedkin.report.page import write_page
from fedkin.studies.cells import CellResult
from fedkin.studies.comparison import PAGE, SCORE, TRUTH, Comparison, ComparisonRow, bar, page_of
from fedkin.studies.question import Candidate, Question, Role, Selection, method_named, question_of, selection_of
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
    recommendable,
    score_of,
)
from fedkin.studies.study import Cell, SentPopulation, Study
from fedkin.studies.time_budget import TimeBudget, duration, given_duration, parsed_duration
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

ShowRun = Callable[[str], AbstractContextManager[Progress]]
"""Called before each run with its title."""


@dataclass(frozen=True)
class Options:
    """Options of a comparison.

    `methods` are names, or ``("all",)``; each has `seeds` runs, at least 1. `clusters` is their number, at least 2, if
    it is known. `budget` is wall-clock time, such as ``"10m"``. `by`, "score" or "truth", is the criterion of the
    ranking and the recommendation.
    """

    methods: tuple[str, ...] = ("all",)
    clusters: int | None = None
    seeds: int = 3
    budget: str = "10m"
    by: str = "score"

    def check(self) -> None:
        """Check that all options are in their range.

        Raises FedkinError, which names the first option that is not.
        """
        if self.clusters is not None and self.clusters < 2:
            raise FedkinError(f"{flag('clusters')} is {self.clusters}; allowed: 2 or more clusters.")
        if self.seeds < 1:
            raise FedkinError(f"{flag('seeds')} is {self.seeds}; allowed: 1 or more.")
        if self.by not in ("score", "truth"):
            raise FedkinError(f"{flag('by')} is '{self.by}'; it should be score or truth.")
        parsed_duration(self.budget)


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
        Names, also in one text with commas between them, or ``"all"``.
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
        names = _method_names(methods)
        common = _settings(settings)
        number = None if n_clusters is None else _whole("n_clusters", n_clusters)
        options = Options(names, number, _whole("seeds", seeds), given_duration(budget), by)
        options.check()
        if isinstance(clients, str | Path):
            if y is not None and not isinstance(y, str):
                raise FedkinError(
                    f"Labels were given beside '{clients}', which has its own; give arrays of both, or none."
                )
            common = [*common, *([] if y is None else [f"data.label={y}"])]
            asked = question_of(str(clients), seed=seed, settings=common, asked=question, methods=names)
            return compared(asked, options, Path(out) if out is not None else Path("comparisons") / asked.name)
        given = federation_input(clients, y, entrance="compare")
        label = [] if given.label is None else [f"data.label={given.label}"]
        asked = question_of(
            "clients in memory", scenario="files", seed=seed, settings=[*common, *label], asked=question, methods=names
        )
        return compared(asked, options, Path(out) if out is not None else Path("comparisons") / "arrays", given=given)


def compared(
    question: Question,
    options: Options,
    out: Path,
    show: ShowRun = bar,
    worker: Worker | None = None,
    began: float | None = None,
    given: FederationInput | None = None,
) -> Comparison:
    """Compare methods on the same clients; an interrupted comparison of the same question in `out` is resumed.

    `show` is as in `ShowRun`. The `worker` makes the runs, and is left running; by default it is a new one. The budget
    starts at `began`, a time of ``time.monotonic()``; by default it is now. `given` are clients in memory, in place of
    the question's data.
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
    with nullcontext(worker) if worker else Worker() as at_work, Study(out, plan, "comparison", at_work, sent) as study:
        schedule = Schedule(question, selection, options, population, study, budget, show)
        schedule.work()
        comparison = _comparison(schedule, config, given is not None)
        comparison.write()
        write_page(out / PAGE, page_of(comparison))
    return comparison


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

    def checksum(x: Tensor, y: Tensor | None, columns: Any) -> str:
        parts = [str(columns).encode(), *(each.numpy().tobytes() for each in (x, y) if each is not None)]
        return sha256(b"".join(parts)).hexdigest()

    return {
        name: checksum(one.x, one.y, None if one.table is None else one.table.columns)
        for name, one in zip(population.names, population.clients, strict=True)
    }


@dataclass
class Schedule:
    """Schedule of a comparison: which run is made next, and how the time budget is shared."""

    question: Question
    selection: Selection
    options: Options
    population: Population
    study: Study
    budget: TimeBudget
    show: ShowRun

    def __post_init__(self) -> None:
        self.by_truth = self.options.by == "truth"
        self.tried: dict[Candidate, None] = {}
        self.turns = 0

    def work(self) -> None:
        """Make runs until all are made or the budget is spent."""
        for candidate, seed in self._turns():
            waiting = sum(not self._has_ended(name, seed) for name in self.selection.methods)
            self._run(candidate, seed, self.budget.left / max(1, waiting + (seed == 0)))
        unfinished = [(each, 0) for each in self.tried]
        unfinished += [(each, seed) for seed in range(1, self.options.seeds) for each in self._best()]
        order = {name: at for at, name in enumerate(self.selection.methods)}
        for candidate, seed in sorted(unfinished, key=lambda job: (order[job[0].method], job[1])):
            self._run(candidate, seed, self.budget.left)

    def runs(self, candidate: Candidate) -> list[CellResult]:
        """Return the finished runs of a candidate, in order of seed."""
        cells = (self._cell(candidate, seed) for seed in range(self.options.seeds))
        return [result for cell in cells if (result := self.study.finished(cell))]

    def first(self, candidate: Candidate) -> CellResult | None:
        """Return the result of a candidate's first run, also of one that failed; ``None`` if it had no turn."""
        return self.study.results.get(self._cell(candidate, 0))

    def scores(self) -> dict[Candidate, CandidateScore]:
        """Return the scores of every candidate that has a finished run."""
        return {each: score_of(self.question.family, runs) for each in self.tried if (runs := self.runs(each))}

    def best(self) -> dict[str, Candidate]:
        """Return for each method the finished candidate with the best number of clusters."""
        return best_numbers(self.scores(), self.by_truth)

    def _turns(self) -> Iterator[tuple[Candidate, int]]:
        """Yield candidates and seeds, counted from 0, in the order of their turns."""
        clusters, family = self.options.clusters, self.question.family
        first = self.selection.first(clusters)
        cheap = [each for each in first if method_named(each.method).traits.cost == "cheap"]
        yield from self._first_seed(cheap)
        if clusters is None and family == "samples":
            maximum = sum(map(len, self.population.clients)) // _SAMPLES_PER_CLUSTER
            start = self._numbers()[:1] or [number for number in LADDER[:1] if number <= maximum]
            yield from self._first_seed([Candidate(name, number) for name in self.selection.needy for number in start])
            for number in [number for number in LADDER if number <= maximum]:
                yield from self._first_seed([Candidate(name, number) for name in self._climbers()])
        yield from self._first_seed(first)
        if clusters is None:
            numbers = self._numbers()
            yield from self._first_seed(self.selection.with_k(numbers, cheap=True))
            yield from self._first_seed(self.selection.with_k(self._numbers()[:1], cheap=False))
        for seed in range(1, self.options.seeds):
            yield from ((each, seed) for each in self._best())

    def _first_seed(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, int]]:
        for candidate in candidates:
            self.tried[candidate] = None
            yield candidate, 0

    def _run(self, candidate: Candidate, seed: int, seconds: float) -> None:
        """Make a run for at most `seconds`, unless it has ended, or had as much time before, or time is up."""
        cell = self._cell(candidate, seed)
        if self.budget.left < _MIN_SECONDS or not self.study.waits(cell, seconds):
            return
        self.turns += 1
        title = f"Run {self.turns} · {duration(self.budget.left)} left · {candidate.name}, seed {cell.seed}"
        with self.show(title) as progress:
            config = self.question.config(candidate, cell.seed)
            halves = self.question.family == "samples"
            self.study.run(cell, config, max(seconds, _MIN_SECONDS), progress, halves)

    def _has_ended(self, method: str, seed: int) -> bool:
        """Return whether a method has a result of a seed, or the reason why it has none."""
        mine = [each for each in self.tried if each.method == method]
        return any(self._cell(each, seed) in self.study.results for each in mine)

    def _best(self) -> list[Candidate]:
        """Return each method with its best number, if it has a finished run; the cheapest first."""
        best = self.best()
        return [best[name] for name in self.selection.methods if name in best]

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
        scores = self.scores()
        ranked = sorted(scores, key=lambda each: -rank_of(scores[each], self.by_truth))
        able = {each: scores[each] for each in ranked if scores[each].clusters[0] > 1}
        if able and not self.by_truth and self.question.family == "samples":
            ranked = [finest(able), *ranked]
        sizes = len(self.population.clients) - 1, sum(map(len, self.population.clients))
        maximum = sizes[0] if self.question.family == "clients" else sizes[1]
        proposed = [scores[each].clusters[0] if each.number is None else each.number for each in ranked]
        usable = list(dict.fromkeys(number for number in proposed if 2 <= number <= maximum))
        few = [number for number in FEW if number <= maximum] if self.question.family == "clients" else []
        return (usable or few)[:_MAX_NUMBERS]

    def _cell(self, candidate: Candidate, seed: int) -> Cell:
        return Cell(candidate.method, self.question.seed + seed, candidate.number)


def _comparison(schedule: Schedule, config: Config, in_memory: bool) -> Comparison:
    """Build the comparison from the runs that finished."""
    question, selection, options = schedule.question, schedule.selection, schedule.options
    scores = schedule.scores()
    firsts = {each: schedule.first(each) for each in schedule.tried}
    failures = {each.method: first.failed for each, first in firsts.items() if first and first.failed}
    if not scores:
        refusals = [text for text in failures.values() if not text.startswith("it took")]
        limited = [each for each in schedule.tried if (first := schedule.first(each)) is None or first.limit]
        if refusals and not limited:
            raise FedkinError(f"No method suits '{question.data}': {refusals[0]}")
        why = f" ({refusals[0]})" if refusals else ""
        raise FedkinError(
            f"No run finished in the budget of {options.budget}{why}; the same with a larger budget resumes."
        )
    numbers = schedule.best()
    best = {candidate: scores[candidate] for candidate in numbers.values()}
    choice = recommend(selection, best, schedule.by_truth)
    take = choice.candidate if choice else None
    known = {each: score.agreement_with_truth for each, score in recommendable(selection, best).items() if score.truth}
    lines = [_line(schedule, name, numbers.get(name), best) for name in selection.methods]
    ranks = {each.method: rank_of(score, schedule.by_truth) for each, score in best.items()}
    lines.sort(key=lambda line: (not line.runs, not take or line.method != take.method, -ranks.get(line.method, -1.0)))
    chance = None
    doubts: list[str] = []
    if choice:
        chance, doubts = _doubts(schedule, choice, scores, best)
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
        truth_gap=max(known.values()) - known[take] if take in known else None,
        seeds=options.seeds,
        budget=schedule.budget.seconds,
        spent=schedule.budget.spent,
        seed=question.seed,
        out=schedule.study.out,
        settings={key: value for key, value in config.tables.items() if key != "method"},
        warnings=tuple(doubts),
        confident=not doubts,
        better_than_chance=chance,
        undecided=bool(choice and choice.undecided),
        as_good=tuple(each.name for each in choice.as_good) if choice else (),
        notes=schedule.population.notes,
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
    there = sorted(each.method for each in best)
    firsts = {each.method: schedule.first(each) for each in schedule.tried}
    failed = {name for name, first in firsts.items() if first and first.failed and not first.limit}
    single_choice = len(there) == 1 or all(schedule.selection.role(name) == "baseline" for name in there)
    if single_choice and {*schedule.selection.methods} - {*there} - failed:
        what = f"Only {join_words(there)} finished"
        what += ", so it was compared with nothing" if len(there) == 1 else ", which form no clusters"
        doubts.append(f"{what}; the same with a larger budget resumes.")
    return chance, doubts


def _guessed_accuracy(population: Population) -> float | None:
    """Return the mean over clients of the accuracy of always answering the most frequent class of their training."""
    shares = [
        float((tests == client.y.mode().values).double().mean())
        for client, (_, tests) in zip(population.clients, population.tests, strict=True)
        if client.y is not None and len(client.y) and len(tests)
    ]
    return mean(shares) if shares else None


_ROLES: Mapping[Role, str] = {
    "": "",
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
    "baseline": "forms no clusters",
}


def _line(
    schedule: Schedule, name: str, taken: Candidate | None, best: Mapping[Candidate, CandidateScore]
) -> ComparisonRow:
    """Build a method's row; without a finished run it says why."""
    tried = [each for each in schedule.tried if each.method == name]
    shown = taken or (tried[0] if tried else Candidate(name))
    role = schedule.selection.role(name)
    notes = [_ROLES[role]]
    if taken is None:
        first = schedule.first(shown)
        if first is None:
            notes.append("not started in the budget")
        elif first.limit:
            notes.append(f"not finished in the budget: {first.failed}")
        else:
            notes.append(f"cannot be applied: {first.failed.rstrip('.')}")
    remark = "; ".join(note for note in notes if note)
    if taken is None:
        return ComparisonRow(name, shown.number, role, remark=remark)
    score = best[taken]
    numbers = sorted({each.number for each in tried if each.number is not None and schedule.runs(each)})
    shown_deviations = (SCORE[score.family], *TRUTH[score.family])
    return ComparisonRow(
        method=name,
        number=shown.number,
        role=role,
        runs=len(score.runs),
        clusters=score.clusters,
        measures=score.measures,
        truth=score.truth,
        deviations={name: value for name, value in score.deviations.items() if name in shown_deviations},
        clients=score.clients,
        bytes=score.bytes,
        seconds=mean(run.seconds for run in score.runs),
        tried=tuple(numbers) if len(numbers) > 1 else (),
        remark=remark,
    )


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
    seconds = mean(run.seconds for run in score.runs)
    return join_words([*parts, f"moves {format_bytes(score.bytes)} in {duration(seconds)}"])


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
    run = f"runs/{question.name}-{chosen.folder}"
    where = f"--data {shlex.quote(question.data)} --scenario {question.scenario} --seed {question.seed}"
    parts = [f"fedkin run {chosen.method}", where, *settings, f"--out {shlex.quote(run)}"]
    return (" ".join(parts), f"fedkin {apply} {shlex.quote(run)} NEW.csv")


def _plain(value: object) -> str:
    """Format a value for ``--set``; text is quoted only if it would be read as another type."""
    if not isinstance(value, str):
        return "none" if value is None else json.dumps(value)
    read: dict[str, object] = {}
    apply_setting(read, f"value={value}")
    return value if read["value"] == value else json.dumps(value, ensure_ascii=False)


# Arguments of `compare` in Python, and errors that name them as Python does.


def _settings(given: Any) -> list[str]:
    """Return settings as ``--set`` takes them; raises FedkinError if they are of another type."""
    if isinstance(given, Mapping):
        return [f"{path}={_as_toml(path, value)}" for path, value in flat(given)]
    settings = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else [given]
    if wrong := [each for each in settings if not isinstance(each, str)]:
        raise FedkinError(f"settings has {kind_of(wrong[0])}; it takes a dict, such as {{'method.rounds': 10}}.")
    return settings


def _whole(name: str, value: Any) -> int:
    """Return an argument that is one whole number; raises FedkinError if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        first = "; seed is that of the first of these runs" if name == "seeds" else ""
        raise FedkinError(f"{name} is {value!r}; it takes one whole number, such as 3{first}.")
    return int(value)


def _as_toml(path: str, value: Any) -> str:
    """Format a plain value, or a NumPy one, as TOML; ``None`` is "none" in an experiment."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    try:
        return json.dumps("none" if plain is None else str(plain) if isinstance(plain, Path) else plain)
    except TypeError as error:
        if callable(value):
            name = getattr(value, "__name__", type(value).__name__)
            raise FedkinError(
                f"'{path}' in settings is {name} itself, and runs are other processes, which take names; put a "
                "function that makes it into a file, and give its path, such as 'networks:build' for networks.py."
            ) from error
        raise FedkinError(f"'{path}' in settings is {kind_of(value)}, which no experiment's file can hold.") from error


def _method_names(methods: Any) -> tuple[str, ...]:
    """Return methods' names, which may be in one text; the sentence on anything else has that of a class."""
    if isinstance(methods, str):
        return tuple(name for each in methods.split(",") if (name := each.strip())) or (methods,)
    names = tuple(methods) if isinstance(methods, Sequence) else (methods,)
    for each in names:
        if not isinstance(each, str):
            kind = each if isinstance(each, type) else type(each)
            method = getattr(kind, "_method", kind)
            path = f"{method.__module__}:{method.__qualname__}"
            registered = next((name for name, entry in METHODS.items() if entry.target == path), None)
            path = path if issubclass(method, Method) else "package.module:Class"
            what = f"the class {kind.__name__}" if isinstance(each, type) else f"an object of type {kind.__name__}"
            options = "" if isinstance(each, type) else ", and its options as settings"
            raise FedkinError(f"methods has {what}, and it takes names; give '{registered or path}'{options}.")
    return names
