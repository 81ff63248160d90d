"""Comparisons of methods on some data: `fedkin.compare` and its command.

First comes one seed of every method, the cheap ones before the others, with the known number of clusters or as it finds
one. Numbers that are found are then given to the methods that need one. Where no method finds any, samples are
clustered by a few cheap methods with each of a ladder of numbers, and those of the best candidates are given. Then come
further seeds of each method with its best number.
"""

from __future__ import annotations

import json
import math
import re
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core import FedkinError
from fedkin.core.errors import checked_keywords
from fedkin.core.files import write_atomically
from fedkin.core.runner import Progress
from fedkin.data.inputs import FederationInput, federation_input
from fedkin.data.population import Population
from fedkin.data.tables import encode_labels
from fedkin.experiment.config import Config, config_of, flat
from fedkin.experiment.run import check_machine
from fedkin.experiment.terminal import show_progress
from fedkin.report.page import write_page
from fedkin.studies.cells import CellResult, run_cell
from fedkin.studies.comparison import IN_MEMORY, JSON, PAGE, WINNER, Comparison, Score, best_numbers, best_of
from fedkin.studies.question import Candidate, Question, method_named, question_of


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
            data, what, scenario = federation_input(clients, y, entrance="compare"), IN_MEMORY, "files"
        elif y is not None and not isinstance(y, str):
            raise FedkinError(f"Labels were given beside '{clients}', which has its own; give arrays of both, or none.")
        label = y if data is None else data.label
        texts += [] if label is None else [f"data.label={label}"]
        question = question_of(what, scenario, seed, texts, names, n_clusters)
        folder = Path("comparisons") / (question.name if data is None else "arrays")
        return compared(question, folder if out is None else Path(out), seeds, budget, progress, data)


def compared(
    question: Question,
    out: Path,
    seeds: int = 3,
    budget: str | float = "10m",
    progress: Progress | None = None,
    in_memory: FederationInput | None = None,
) -> Comparison:
    """Compare methods on the clients of a question, and write the page.

    Clients `in_memory` take the place of the question's data. Raises FedkinError if an option is out of its range, no
    method suits the data, `out` holds anything but a comparison, or no run finished in the budget.
    """
    for name, value, least in (("clusters", question.clusters, 2), ("seeds", seeds, 1)):
        if value is not None and (not isinstance(value, Integral) or value < least):
            raise FedkinError(f"'{name}' is {value!r}; it takes one whole number of at least {least}.")
    seconds, config = parsed_duration(budget), _checked(question)
    if out.exists() and (not out.is_dir() or any(path.name not in (JSON, PAGE, WINNER) for path in out.iterdir())):
        raise FedkinError(f"{out} holds something else than a comparison; give another folder.")
    population = config.population() if in_memory is None else _population(config, in_memory)
    if len(population.clients) < 2:
        raise FedkinError(f"'{question.data}' has one client only; a comparison needs 2 or more.")
    schedule = Schedule(question, population, _WarnsOnce(progress or Progress()), time.monotonic() + seconds)
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


class _WarnsOnce(Progress):
    """Progress of the runs, which repeats no warning."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.warned = progress, set[str]()

    def phase(self, text: str) -> None:
        self.progress.phase(text)

    def part(self, done: int, total: int) -> None:
        self.progress.part(done, total)

    def warn(self, text: str) -> None:
        if text not in self.warned:
            self.warned.add(text)
            self.progress.warn(text)


def parsed_duration(duration: str | float) -> float:
    """Return the seconds of a budget: a number of them, or a text such as ``"90s"``, ``"1.5h"`` or ``"10m"``.

    Raises FedkinError if it is something else, or zero.
    """
    seconds = math.nan
    if isinstance(duration, str) and re.fullmatch(r"\d+(\.\d+)?[smh]", duration):
        seconds = float(duration[:-1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[duration[-1]]
    elif isinstance(duration, Real) and not isinstance(duration, bool):
        seconds = float(duration)
    if not 0 < seconds < math.inf:
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


def _population(config: Config, data: FederationInput) -> Population:
    """Build the clients that were passed in memory; labels beside them are read.

    Raises FedkinError if a client's samples or labels cannot be used.
    """
    scenario: Any = replace(config.scenario, data=data, label=data.column)
    beside = [client.y for client in data.clients.values()]
    if data.label is not None or all(labels is None for labels in beside):
        return scenario.build(config.data_seed)  # type: ignore[no-any-return]
    population: Population = scenario.build(config.data_seed)
    sizes = [len(client) for client in population.clients]
    if sizes != [0 if labels is None else len(labels) for labels in beside]:
        raise FedkinError("y needs one label for each sample of every client.")
    indices, classes = encode_labels(np.concatenate([np.asarray(labels) for labels in beside]), "y")
    return replace(population, truth=list(indices.split(sizes)), classes=classes)


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
