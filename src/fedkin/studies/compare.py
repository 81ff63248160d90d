"""Comparisons of methods on some data: `fedkin.compare` and its command.

First comes one seed of every method, the cheap ones before the others, with the known number of clusters or as it finds
one. Numbers that are found are then given to the methods that need one. Where no method finds any, samples are
clustered by a few cheap methods with each of a ladder of numbers, and those of the best candidates are given. Then come
further seeds of each method with its best number.
"""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Integral
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedkin.clustering.metrics import Labels
from fedkin.core import Client, FedkinError, Method, Record
from fedkin.core.errors import checked_keywords
from fedkin.core.files import read_tables, write_atomically
from fedkin.core.method import options_of
from fedkin.core.runner import (
    Callback,
    Progress,
    RecordLine,
    Runner,
    Timing,
    clustered,
    predicted_clusters,
    result_of,
)
from fedkin.core.seeds import derive_generator
from fedkin.data.inputs import load_clients, population_of
from fedkin.data.names import files_of_clients
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment import registry
from fedkin.experiment.config import SETTINGS, Config, apply_setting, check_section, config_of, flat
from fedkin.experiment.evaluation import evaluator_for
from fedkin.experiment.run import ExperimentRunner, check_machine, computing, local_federation
from fedkin.experiment.terminal import show_progress
from fedkin.report.page import write_page
from fedkin.secure_aggregation.sums import secure
from fedkin.studies.comparison import (
    IN_MEMORY,
    JSON,
    PAGE,
    WINNER,
    Candidate,
    CellResult,
    Comparison,
    Question,
    Score,
    agreement,
    best_numbers,
    best_of,
    method_named,
)


@checked_keywords
def compare(
    clients: Any,
    y: Any = None,
    *,
    methods: str | Sequence[str] = "all",
    budget: str | float = "10m",
    n_clusters: int | None = None,
    seeds: int = 3,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> Comparison:
    """Compare methods that cluster samples on some data, rank them without truth, and recommend one.

    Parameters
    ----------
    clients : str, Path, sequence, dict, or FederatedDataset
        What ``fedkin compare`` takes; or clients in any form that ``fit`` of estimators takes, in a list, in a dict by
        name, or as a ``FederatedDataset`` of Flower's. A table's column called ``label`` is taken for labels, and
        others as in files.
    y : str, sequence or dict, optional
        The name of the column of labels; or one array per client, ``(n,)``, in order or by name. No method sees them;
        agreement with them is shown.
    methods : str or sequence of str
        Names, also in one text with commas between them; or ``"all"``.
    budget : str or float
        Wall-clock time after which no run begins: seconds, or a text such as ``"90s"``, ``"10m"`` or ``"2h"``.
    n_clusters : int, optional
        Number of clusters, if it is known.
    seeds : int
        Runs of each method.
    seed : int, optional
        Seed of the partition and of the first run of each method; by default that of an experiment's file, or 0.
    settings : dict, optional
        Keys of an experiment and their values, such as ``{"method.rounds": 10}``; those of ``method`` are for all
        methods that have them.
    out : str or Path, optional
        Output folder; by default one in ``comparisons/``. A comparison that it holds is replaced.

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
    with show_progress() as progress:
        names = [name.strip() for name in methods.split(",")] if isinstance(methods, str) else list(methods)
        texts = [f"{path}={json.dumps(value, default=str)}" for path, value in flat(settings or {})]
        data, what, scenario = None, str(clients), None
        if not isinstance(clients, str | Path):
            data, what, scenario = (clients, y), IN_MEMORY, "files"
        elif y is not None and not isinstance(y, str):
            raise FedkinError(f"Labels were given beside '{clients}', which has its own; give arrays of both, or none.")
        texts += [f"data.label={y}"] if isinstance(y, str) else []
        question = question_of(what, scenario, seed, texts, names, n_clusters)
        folder = Path("comparisons") / (question.name if data is None else "arrays")
        return compared(question, folder if out is None else Path(out), seeds, budget, progress, data)


def compared(
    question: Question,
    out: Path,
    seeds: int = 3,
    budget: str | float = "10m",
    progress: Progress | None = None,
    in_memory: tuple[Any, Any] | None = None,
) -> Comparison:
    """Compare methods on the clients of a question, and write the page.

    Clients and labels `in_memory` take the place of the question's data. Raises FedkinError if an option is out of its
    range, no method suits the data, `out` holds anything but a comparison, or no run finished in the budget.
    """
    for name, value, least in (("clusters", question.clusters, 2), ("seeds", seeds, 1)):
        if value is not None and (not isinstance(value, Integral) or value < least):
            raise FedkinError(f"'{name}' is {value!r}; it takes one whole number of at least {least}.")
    seconds, config = parsed_duration(budget), _checked(question)
    if out.exists() and (not out.is_dir() or any(path.name not in (JSON, PAGE, WINNER) for path in out.iterdir())):
        raise FedkinError(f"{out} holds something else than a comparison; give another folder.")
    population = config.population() if in_memory is None else _population(config, *in_memory)
    if len(population.clients) < 2:
        raise FedkinError(f"'{question.data}' has one client only; a comparison needs 2 or more.")
    progress = progress or Progress()
    progress.warn = cache(progress.warn)  # type: ignore[method-assign]  # all runs are warned of the same data
    schedule = Schedule(question, population, progress, time.monotonic() + seconds)
    for seed in range(seeds):  # one seed of all before the second of any
        for candidate in schedule.turns(seed):
            schedule.run(candidate, seed)
    rows, finders = schedule.rows(), tuple(score for score in schedule.scores() if score.number is None)
    if not any(row.results for row in rows):
        raise FedkinError(f"No method has a result on '{question.data}': {rows[0].method}, {rows[0].remark}.")
    comparison = Comparison(question, tuple(rows), seeds, out, finders, tuple(population.notes))
    if comparison.choice is not None and in_memory is None:
        tables = question.config(comparison.choice.score.candidate, question.seed).tables
        write_atomically(out / WINNER, config_of({**tables, "evaluation": {}}).to_toml())
    write_atomically(out / JSON, comparison.to_json())
    write_page(out / PAGE, comparison.page())
    return comparison


def parsed_duration(duration: str | float) -> float:
    """Return the seconds of a budget: a number of them, or a text such as ``"90s"``, ``"1.5h"`` or ``"10m"``.

    Raises FedkinError if it is something else, or zero.
    """
    try:
        delta = pd.Timedelta(duration) if isinstance(duration, str) else pd.Timedelta(seconds=duration)
        seconds = float(delta.total_seconds())
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0.001 <= seconds < math.inf:  # a text without a unit would be nanoseconds
        raise FedkinError(f"'budget' is {duration!r}; it should be a time above 0, such as 90s, 10m or 2h.")
    return seconds


def _checked(question: Question) -> Config:
    """Check the experiments of all methods, which differ in nothing else, and return the first.

    Raises FedkinError if a method's settings are not allowed, or the device or the engine is not there.
    """
    candidates = question.candidates()
    if question.clusters is None:  # any number, for methods that need one
        candidates += [Candidate(name, 3) for cheap in (True, False) for name in question.takers(cheap)]
    configs = [question.config(candidate, question.seed) for candidate in candidates]
    check_machine(configs[0])
    return configs[0]


def _population(config: Config, clients: Any, y: Any) -> Population:
    """Build the clients that were passed in memory, with their labels as the truth."""
    return population_of(load_clients(clients, y, config.table, "compare"), y is not None)


@dataclass
class Schedule:
    """Schedule of a comparison: which run is made next, and what those made came to, a text where they failed."""

    question: Question
    population: Population
    progress: Progress
    deadline: float
    tried: dict[Candidate, list[CellResult | str]] = field(default_factory=dict)

    def scores(self) -> list[Score]:
        """Return the scores of every candidate that has a finished run."""
        finished = (
            (candidate, [result for result in results if isinstance(result, CellResult)])
            for candidate, results in self.tried.items()
        )
        return [Score(each.method, each.number, tuple(results)) for each, results in finished if results]

    def best(self) -> dict[str, Score]:
        """Return for each method that has a finished run the score with the best number of clusters."""
        return best_numbers(self.scores(), self.question.clusters is not None)

    def rows(self) -> list[Score]:
        """Return a row per method, the cheapest first; without a finished run it says why."""
        best = self.best()
        failed = {candidate.method: text for candidate, results in self.tried.items()
                  for text in results if isinstance(text, str)}  # fmt: skip
        return [
            best.get(name) or Score(name, remark=failed.get(name, "not reached in the budget").rstrip("."))
            for name in self.question.methods
        ]

    def turns(self, seed: int) -> Iterator[Candidate]:
        """Yield candidates in the order of their turns with a seed, counted from 0; some come twice."""
        if seed:
            best = self.best()
            yield from [best[name].candidate for name in self.question.methods if name in best]
            return
        question, first = self.question, self.question.candidates()
        cheap, costly = question.takers(cheap=True), question.takers(cheap=False)
        yield from [candidate for candidate in first if candidate.is_cheap]
        has_found = any(score.number is None and score.clusters[0] > 1 for score in self.scores())
        if question.clusters is None and not has_found:
            samples = sum(map(len, self.population.clients))
            finders = [name for name in cheap if method_named(name).traits.finds_k]
            climbers = [*[name for name in cheap if name not in finders][:1], *finders]
            # Of fewer than ten samples a cluster is hardly found again in each half.
            ladder = [number for number in (2, 3, 4, 5, 6, 8, 10, 12, 15, 20) if 10 * number <= samples]
            yield from [Candidate(name, number) for number in ladder for name in climbers]
        yield from first
        if question.clusters is None:
            numbers = self._numbers()
            yield from [Candidate(name, number) for name in cheap for number in numbers]
            yield from [Candidate(name, number) for name in costly for number in numbers[:1]]

    def _numbers(self) -> list[int]:
        """Return up to four numbers of clusters to give, the likeliest first: those of the best candidates so far."""
        best = sorted(self.scores(), key=lambda score: -score.value)
        if several := [score for score in best if score.clusters[0] > 1]:
            best = [best_of(several), *best]
        proposed = [score.clusters[0] if score.number is None else score.number for score in best]
        return list(dict.fromkeys(number for number in proposed if number > 1))[:4]

    def run(self, candidate: Candidate, seed: int) -> None:
        """Make a run, unless it was made or time is up."""
        results, question = self.tried.setdefault(candidate, []), self.question
        if len(results) > seed or time.monotonic() >= self.deadline:
            return
        self.progress.phase(f"{candidate.name}, seed {question.seed + seed}")
        config = question.config(candidate, question.seed + seed)
        try:
            results.append(run_cell(config, self.population, self.progress))
        except FedkinError as error:
            results.append(str(error))
        except Exception as error:  # a method's own, on data it was not made for: it ends this run and no other
            traceback.print_exc()
            results.append(f"it failed with {type(error).__name__}: {error}")


# What is asked.


def question_of(
    what: str,
    scenario: str | None = None,
    seed: int | None = None,
    settings: Sequence[str] = (),
    methods: Sequence[str] = ("all",),
    clusters: int | None = None,
) -> Question:
    """Build the question from what a user gives on the command line or in Python.

    `what` is a path that ends in ``.toml``, of which all but the method and the target is taken; or data, as
    `fedkin.data.sources.load` and `load_clients` take them. `seed` is that of the data and of the first run, by default
    the file's, or 0. Of the `settings`, ``"section.key=value"``, those of ``method`` are for all methods that have the
    key. Raises FedkinError if anything is not allowed.
    """
    tables: dict[str, Any] = {"data": {"source": what}}
    if what.endswith(".toml"):
        tables = {name: table for name, table in read_tables(Path(what)).items() if name != "method"}
        for section in tables:
            check_section(tables, section, f"in {what}")
    tables = {"data": {}, "simulation": {}, **tables}
    tables["simulation"] |= {} if scenario is None else {"scenario": scenario}
    for setting in settings:
        apply_setting(tables, setting)
    for section in tables:
        check_section(tables, section, SETTINGS)
    first_seed, shared = tables.pop("seed", 0), tables.pop("method", {})
    tables["evaluation"] = {"every": 1_000_000, "map": "pca"} | tables.get("evaluation", {})
    for target in ("target", "reach", "stop"):  # runs of a comparison come to their end
        tables["evaluation"].pop(target, None)
    simulation, source = tables["simulation"], str(tables["data"].get("source", "digits"))
    is_divided = "column" in simulation or files_of_clients(source)
    simulation.setdefault("scenario", "files" if is_divided else "own-class")
    chosen = methods_of(methods)
    fields = {field.name for name in chosen for field in options_of(method_named(name))}
    if wrong := [key for key in shared if key not in fields or key == "n_clusters"]:
        raise FedkinError(
            f"method.{wrong[0]} is no setting of all methods compared; 'clusters' says how many there are."
        )
    return Question(chosen, tables, shared, first_seed if seed is None else seed, clusters)


def methods_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the methods that take part, the cheapest first: those named, or with ``("all",)`` all of samples.

    Raises FedkinError if a name is unknown or that of a method of clients, or there is none.
    """
    listed = [name for name in registry.METHODS if method_named(name).traits.clusters == "samples"]
    if tuple(names) == ("all",):
        return tuple(listed)
    if not names:
        raise FedkinError("'methods' names none; give one or more from `fedkin list`, or all.")
    for name in names:
        if method_named(name).traits.clusters != "samples":
            raise FedkinError(f"Method '{name}' clusters no samples; `fedkin reproduce` compares those of clients.")
    order = {name: place for place, name in enumerate(listed)}
    return tuple(dict.fromkeys(sorted(names, key=lambda name: order.get(name, len(order)))))


# A run, and how far halves of the samples find its clusters again.


class _CellRunner(ExperimentRunner):
    """Runner of a cell, which writes nothing; its last record is `line`, and `seconds` are those of the method."""

    def start(self) -> Any:
        self.line: RecordLine = {}
        self.seconds = 0.0
        self.populate(0)
        return super().start()

    def judge(self, state: Any, record: Record | None) -> Mapping[str, Any]:
        if record is None or not state.finished:
            return {}
        self.fed.refresh()
        evaluate = evaluator_for(self.method)
        return evaluate(self.method, self.population, self.fed, state) if evaluate else {}

    def keep(self, state: Any, timing: Timing, line: RecordLine | None) -> Any:
        self.seconds += timing["seconds"]
        self.line = line or self.line
        return state


def run_cell(config: Config, population: Population, progress: Callback) -> CellResult:
    """Run a cell on copies of the population's clients.

    The method is run on random halves of each client's samples, too, by the run's seed. Raises FedkinError if the data
    or the method's settings are refused, or the method fails on them.
    """
    clients = [replace(client, state={}) for client in population.clients]
    population = replace(population, clients=clients)
    with computing(config), one_thread():
        fed = _federation(config, clients, short_names(population.names), progress)
        fed.leave(population.away(0))
        preparation = prepare(fed, config.data.table.of(config.method), population.names)
        for i in population.absent:
            clients[i].x = preparation.of(clients[i])
        prepared = _copies(clients)
        runner = _CellRunner(config, preparation.of_tests(population), fed, preparation, progress)
        result_of(runner.method, fed, runner.steps())
        labels = _pooled(clients, clustered(fed))
        # Of 2,000 samples the agreement of two partitions is known to some 0.01.
        drawn = torch.randperm(len(labels), generator=derive_generator(0, "looked at"))[:2000]
        clusters = len(np.unique(labels[labels >= 0]))
        again = agreement_of_halves(config, prepared, clusters, progress)
        line = runner.line
        metrics = {name: value for name, value in line["metrics"].items() if isinstance(value, int | float | list)}
        traffic, some_labels = line["sent"] + line["received"], labels[drawn.sort().values.numpy()].tolist()
        return CellResult(metrics, clusters, again, some_labels, traffic, round(runner.seconds, 3), line["step"])


def agreement_of_halves(config: Config, clients: Sequence[Client], clusters: int, progress: Callback) -> float:
    """Return how far what one half of the samples finds is found again in the other half, in [-1, 1]; 0 by chance.

    Each client's rows are split in two at random, by the run's seed. The method, run on one half, predicts the clusters
    of the other half's rows; they are compared (adjusted Rand index) with what it finds there. The result is the mean
    of both directions; a single cluster counts 0, since it is found again anywhere. A method that finds the number of
    clusters is given the one that it found on all rows, if it takes one: half of the rows may be too few to find it.
    `clients` are prepared.
    """
    if clusters < 2:
        return 0.0
    method: Method[Any] = config.method
    if method.traits.finds_k and method.traits.takes_k:
        method = replace(method, n_clusters=clusters)  # type: ignore[type-var]
    sides: tuple[list[Client], list[Client]] = ([], [])
    for client in clients:
        rng = derive_generator(config.seed, "halves", client.id)
        # The odd row of every second client goes to the first half, so that no half has all of them.
        order, half = torch.randperm(len(client), generator=rng), len(client) // 2 + len(client) % 2 * (client.id % 2)
        for side, rows in zip(sides, (order[:half], order[half:]), strict=True):
            if len(rows):
                side.append(replace(client.rows(rows.sort().values), state=dict(client.state)))
    runs = []
    for side in sides:
        copies = _copies(side)
        fed = _federation(config, copies, (), progress)
        runner = Runner(method, fed, progress)
        runs.append((runner.method, result_of(runner.method, fed, runner.steps()), _pooled(copies, clustered(fed))))
    values = []
    for (trained, result, _), opposite, (_, _, labels) in zip(runs, reversed(sides), reversed(runs), strict=True):
        predicted = torch.cat([predicted_clusters(trained, result, client.x) for client in opposite]).numpy()
        values.append(agreement(predicted, labels))
    return mean(values)


def _copies(clients: Sequence[Client]) -> list[Client]:
    return [replace(client, state=dict(client.state)) for client in clients]


def _federation(config: Config, clients: Sequence[Client], names: Sequence[str], progress: Callback) -> LocalFederation:
    least = min(config.federation.min_clients, len(clients))
    fed = local_federation(config, clients, progress, names=names, min_clients=least)
    if config.federation.secure_sums:
        secure(fed)
    return fed


def _pooled(clients: Sequence[Client], holders: Sequence[Client]) -> Labels:
    """Return the clusters of all clients' samples in order; -1 for those of clients without."""
    clusters = {client.id: client.state["clusters"].numpy() for client in holders if "clusters" in client.state}
    return np.concatenate([clusters.get(client.id, np.full(len(client), -1)) for client in clients])
