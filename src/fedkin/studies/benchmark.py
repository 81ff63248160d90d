"""``fedkin benchmark``: all methods on all scenarios over seeds, ranked over scenarios (Demšar 2006)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from fedkin.core import FedkinError
from fedkin.core.doors import flag
from fedkin.core.errors import unknown_name
from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.experiment import registry
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes
from fedkin.report.page import write_page
from fedkin.studies.cells import CellResult
from fedkin.studies.comparison import bar, no_bar, span
from fedkin.studies.question import Candidate, Family, method_named, selection_of
from fedkin.studies.study import Cell, Study
from fedkin.studies.time_budget import TimeBudget, parsed_duration
from fedkin.studies.workers import Worker

PAGE = "benchmark.html"
SCORES: dict[Family, str] = {"clients": "personal_accuracy", "samples": "ari"}
"""By what is clustered, the measure that ranks."""
MEASURES: dict[Family, str] = {
    "clients": "mean accuracy of each client's model on its own tests",
    "samples": "ARI of samples' clusters and their classes",
}
_NONE = "–"
Results = Mapping[Cell, CellResult]
Scores = Mapping[tuple[str, str], Sequence[float]]
_ALPHA = 0.05
_SAMPLES = 300
_FEW = 30
_MANY = 100
_ROUNDS = 20
_LAST = 10**6
"""Rounds between evaluations: only the last is evaluated."""


@dataclass(frozen=True)
class BenchmarkScenario:
    """Scenario of a benchmark, with a short description and the section ``[scenario]`` of its experiments.

    `clusters` is the number of hidden clusters of clients; ``None``: the number of classes for samples, one for
    clients. `data` is the data set that it requires; by default the benchmark's. `changes` says whether data or clients
    change in the middle of a run.
    """

    about: str
    settings: Mapping[str, Any]
    clusters: int | None = None
    data: str | None = None
    changes: bool = False


_USUAL = {"samples_per_client": _SAMPLES}

CLIENTS: dict[str, BenchmarkScenario] = {
    "label-clusters": BenchmarkScenario("clusters with classes of their own", {"name": "label-clusters", **_USUAL}, 3),
    "rotation": BenchmarkScenario("images turned by four angles", {"name": "rotation", "clients": 20, **_USUAL}, 4),
    "label-flip": BenchmarkScenario("classes under four names", {"name": "label-flip", "clients": 20, **_USUAL}, 4),
    "few-samples": BenchmarkScenario(
        f"label-flip with {_FEW} samples per client",
        {"name": "label-flip", "clients": 20, "samples_per_client": _FEW}, 4,
    ),
    "many-clients": BenchmarkScenario(
        f"label-flip over {_MANY} clients", {"name": "label-flip", "clients": _MANY, "samples_per_client": 100}, 4
    ),
    "drift-swap": BenchmarkScenario(
        "some clients change clusters", {"name": "drift-swap", "clients": 20, **_USUAL}, 4, changes=True
    ),
    "arrivals": BenchmarkScenario(
        "some clients join later", {"name": "arrivals", "clients": 20, **_USUAL}, 4, changes=True
    ),
    "dirichlet": BenchmarkScenario("classes in random proportions", {"name": "dirichlet", "clients": 20, **_USUAL}),
    "iid": BenchmarkScenario("no clusters at all", {"name": "iid", "clients": 20, **_USUAL}),
    "domains": BenchmarkScenario(
        "photos, paintings, cartoons, sketches of 16 x 16 pixels",
        {"name": "domain", "clients_per_domain": 5, "shrink": 4, **_USUAL}, 4, "pacs",
    ),
    "thousand-clients": BenchmarkScenario(
        "label-flip of Fashion-MNIST over 1,000 clients",
        {"name": "label-flip", "clients": 1000, "samples_per_client": 50}, 4, "fashion_mnist",
    ),
}  # fmt: skip
"""Scenarios of clients; those that need data of their own are taken only if they are named."""

SAMPLES: dict[str, BenchmarkScenario] = {
    **{
        f"own-class p={p:g}": BenchmarkScenario(
            f"each client a class of its own, to the part {p:g}", {"name": "own-class", "heterogeneity": p}
        )
        for p in (0.0, 0.25, 0.5, 0.75, 1.0)
    },
    "label-skew": BenchmarkScenario("a few classes at each client", {"name": "label-skew"}),
    "few-samples": BenchmarkScenario(
        "a third of the data", {"name": "own-class", "heterogeneity": 0.5, "fraction": 0.33}
    ),
    "many-clients": BenchmarkScenario(f"label-skew over {_MANY} clients", {"name": "label-skew", "clients": _MANY}),
    "thousand-clients": BenchmarkScenario(
        "label-skew of MNIST over 1,000 clients", {"name": "label-skew", "clients": 1000}, data="mnist"
    ),
}

_TABLES: dict[Family, dict[str, BenchmarkScenario]] = {"clients": CLIENTS, "samples": SAMPLES}


@dataclass(frozen=True)
class Conditions:
    """Settings that all cells of a benchmark share.

    The number of clusters of samples is that of `classes`. `settings` are for methods that have them, such as
    ``rounds``; all others are defaults.
    """

    family: Family
    data: str
    classes: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    def config(self, cell: Cell) -> Config:
        """Return the configuration of a cell."""
        scenario = _TABLES[self.family][cell.scenario]
        method, own = _parted(cell.method)
        chosen = Candidate(method, self.given(cell)).settings(self.settings)
        overrides = {"data.source": scenario.data or self.data, "seed": cell.seed, "evaluation.every": _LAST}
        overrides |= {f"scenario.{key}": value for key, value in scenario.settings.items()}
        if scenario.changes:
            overrides["scenario.step"] = self.settings.get("rounds", _ROUNDS) // 2 + 1
        overrides |= {f"method.{key}": value for key, value in chosen.items() if key != "name"} | own
        if self.family == "samples":
            overrides["evaluation.map"] = "none"
        return load_config(method, [f"{key}={_toml(value)}" for key, value in overrides.items()])

    def given(self, cell: Cell) -> int | None:
        """Return the number of clusters that a method is given because it cannot find it; ``None`` if it finds it."""
        made = method_named(_parted(cell.method)[0])
        return self.clusters(cell.scenario) if made.traits.takes_k and not made.traits.finds_k else None

    def clusters(self, scenario: str) -> int:
        """Return the true number of clusters of a scenario."""
        return _TABLES[self.family][scenario].clusters or (self.classes if self.family == "samples" else 1)


def scenarios_of(family: Family, names: Sequence[str]) -> list[str]:
    """Return the scenarios that take part: those named, or all that require no data set of their own.

    Raises FedkinError if a name is unknown.
    """
    table = _TABLES[family]
    if tuple(names) == ("all",):
        return [name for name, scenario in table.items() if scenario.data is None]
    for name in names:
        if name not in table and registry.is_known("scenario", name):
            raise FedkinError(
                f"Scenario '{name}' is not among those of the benchmark of {family}, which are {', '.join(table)}."
            )
        if name not in table:
            raise unknown_name("scenario", name, ["all", *table])
    return list(dict.fromkeys(names))


def variants_of(family: Family, names: Sequence[str]) -> list[str]:
    """Return the methods that take part, the cheapest first; each of `names` may be followed by settings.

    Raises FedkinError if a name is unknown or of the other family, or a setting is not ``OPTION=VALUE``.
    """
    by_method: dict[str, list[str]] = {}
    for name in names:
        by_method.setdefault(_parted(name)[0], []).append(name)
    order = selection_of(family, tuple(by_method)).methods
    return list(dict.fromkeys(name for method in order for name in by_method.get(method, [method])))


def _parted(name: str) -> tuple[str, dict[str, str]]:
    """Split ``ccfc+decorrelation=1`` into the method's name and its settings.

    Raises FedkinError if a setting is not ``OPTION=VALUE``.
    """
    method, *settings = name.split("+")
    found = {}
    for setting in settings:
        option, equals, value = setting.partition("=")
        if not (option and equals and value):
            raise FedkinError(f"'{name}' has '+{setting}' behind the method; write +OPTION=VALUE.")
        found[f"method.{option}"] = value
    return method, found


def describe(family: Family, scenario: str) -> str:
    """Return a short description of a scenario."""
    return _TABLES[family][scenario].about


def cells_of(scenarios: Sequence[str], methods: Sequence[str], seeds: int) -> list[Cell]:
    """Return all cells, sorted so that every scenario and method gets one seed before any gets a second.

    Raises FedkinError if there is no cell.
    """
    if not scenarios or not methods:
        raise FedkinError("A benchmark needs at least one scenario and one method.")
    return [
        Cell(method, seed, scenario=scenario) for seed in range(seeds) for scenario in scenarios for method in methods
    ]


def _toml(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of a benchmark.

    `data` are for all scenarios that do not require a particular data set. `methods` and `scenarios` are names, or
    ``("all",)``. A method's name may have settings behind it that are not defaults, such as ``"ccfc+decorrelation=1"``.
    Each cell has `seeds` runs, at least 1. Methods that cluster clients train `module` for so many communication
    `rounds`; methods that cluster samples keep their defaults, as all do for other options. `budget` is the wall-clock
    time of this call, such as ``"2h"``, and `limit` that of one run: a run that takes longer is stopped, and a call
    with a longer limit resumes it.
    """

    family: Family
    data: str = "digits"
    methods: tuple[str, ...] = ("all",)
    scenarios: tuple[str, ...] = ("all",)
    seeds: int = 3
    rounds: int = 20
    module: str = "perceptron"
    budget: str = "2h"
    limit: str = "10m"

    def check(self) -> None:
        """Check that all options are in their range.

        Raises FedkinError, which names the first option that is not.
        """
        if self.family not in ("samples", "clients"):
            raise FedkinError(f"What is benchmarked is '{self.family}'; it should be clients or samples.")
        for name, value in (("seeds", self.seeds), ("rounds", self.rounds)):
            if value < 1:
                raise FedkinError(f"{flag(name)} is {value}; allowed: 1 or more.")
        parsed_duration(self.budget)
        parsed_duration(self.limit, "limit")


def benchmarked(
    options: BenchmarkOptions, out: Path, worker: Worker | None = None, shows: bool = True
) -> dict[Cell, CellResult]:
    """Make the missing runs of a benchmark until the budget is spent, append results, and write the page.

    Return all known results of the scenarios and methods. Results in `out` with the same data and settings are not
    computed again. By default the `worker` is a process of one thread. `shows` says whether to show the progress on a
    terminal. Raises FedkinError if an option is out of range, a name unknown, or the folder holds another benchmark.
    """
    options.check()
    methods = variants_of(options.family, options.methods)
    scenarios = scenarios_of(options.family, options.scenarios)
    cells = cells_of(scenarios, methods, options.seeds)
    classes = len(load_labelled(options.data).classes)
    shared = {"rounds": options.rounds, "module": options.module} if options.family == "clients" else {}
    conditions = Conditions(options.family, options.data, classes, shared)
    for method in methods:
        conditions.config(cells_of(scenarios, [method], 1)[0])  # settings are refused before anything runs
    plan = {"family": options.family, "data": options.data, **shared}
    budget, limit = TimeBudget(parsed_duration(options.budget)), parsed_duration(options.limit, "limit")
    with worker or Worker(threads=1) as runs, Study(out, plan, "benchmark", runs) as study:
        waiting = [cell for cell in cells if study.waits(cell, limit)]
        for at, cell in enumerate(waiting):
            if budget.left <= 0:
                break
            title = f"{at + 1}/{len(waiting)} · {cell.scenario} · {cell.method}, seed {cell.seed}"
            with (bar if shows else no_bar)(title) as progress:
                study.run(cell, conditions.config(cell), min(limit, budget.left), progress, halves=False)
        known = {cell: study.results[cell] for cell in cells if cell in study.results}
        results = {cell: each for cell, each in known.items() if not study.waits(cell, limit)}
        write_page(out / PAGE, page_of(options.family, conditions, scenarios, results))
    return results


def plain(results: Results) -> list[dict[str, Any]]:
    """Return results as plain values, without labels."""
    return [
        {name: value for name, value in {**asdict(cell), **asdict(result)}.items() if name not in ("labels", "again")}
        for cell, result in results.items()
    ]


def scores_of(results: Results, family: Family) -> dict[tuple[str, str], list[float]]:
    """Return the scores by (scenario, method), one per seed that has one, in order of seed; see `SCORES`."""
    scores: dict[tuple[str, str], list[float]] = {}
    for cell in sorted(results, key=lambda each: (each.seed, each.scenario, each.method)):
        value = results[cell].metrics.get(SCORES[family])
        if not results[cell].failed and isinstance(value, int | float):
            scores.setdefault((cell.scenario, cell.method), []).append(float(value))
    return scores


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over scenarios, best first, with tests of their differences.

    `difference` is the critical one at 5 %: methods whose mean ranks are nearer do not differ significantly. It is
    ``None`` with fewer than two methods or scenarios. `p` is that of Friedman's test that all methods are alike;
    ``None`` with fewer than three methods or two scenarios. In `scenarios` all ranked methods have results.
    """

    ranks: dict[str, float]
    difference: float | None
    p: float | None
    scenarios: list[str]

    @property
    def as_good(self) -> list[str]:
        """Return the best method, and those that are not significantly worse."""
        if not self.ranks:
            return []
        best = min(self.ranks.values())
        return [name for name, rank in self.ranks.items() if rank - best <= (self.difference or 0.0)]


def ranked(scores: Scores) -> Ranking:
    """Rank methods by their mean over seeds, scenario by scenario.

    Seeds of one scenario are not independent, so each scenario counts once. Methods that lack a result for a scenario
    that another method has are left out, unless they are the only ones. `scores` are by (scenario, method), one per
    seed; more is better.
    """
    scenarios = list(dict.fromkeys(scenario for scenario, _ in scores))
    methods = [
        method
        for method in dict.fromkeys(method for _, method in scores)
        if all((scenario, method) in scores for scenario in scenarios)
    ]
    if not methods:
        return Ranking({}, None, None, scenarios)
    means = np.array([[float(np.mean(scores[scenario, method])) for method in methods] for scenario in scenarios])
    ranks = np.stack([rankdata(-row) for row in means]).mean(0)
    order = sorted(range(len(methods)), key=lambda at: (ranks[at], methods[at]))
    p = None
    if len(methods) > 2 and len(scenarios) > 1 and not np.allclose(means, means[:, :1]):
        p = float(friedmanchisquare(*means.T).pvalue)
    return Ranking(
        {methods[at]: float(ranks[at]) for at in order}, critical_difference(len(methods), len(scenarios)), p, scenarios
    )


def critical_difference(methods: int, scenarios: int) -> float | None:
    """Return Nemenyi's critical difference of mean ranks at 5 %; ``None`` if there is nothing to compare."""
    if methods < 2 or scenarios < 2:
        return None
    q = float(studentized_range.ppf(1 - _ALPHA, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * scenarios))


def best_of(scores: Scores, scenario: str) -> list[str]:
    """Return the best method of a scenario, and those within two standard errors of it, best first.

    The standard error is that of the difference of means over seeds; with one seed, only methods with the same score
    are returned.
    """
    own = {method: np.array(values) for (name, method), values in scores.items() if name == scenario}
    if not own:
        return []
    order = sorted(own, key=lambda method: (-own[method].mean(), method))
    best = own[order[0]]

    def near(values: np.ndarray) -> bool:
        errors = [part.var(ddof=1) / len(part) if len(part) > 1 else 0.0 for part in (best, values)]
        return bool(best.mean() - values.mean() <= 2 * math.sqrt(sum(errors)))

    return [method for method in order if near(own[method])]


def page_of(family: Family, conditions: Conditions, scenarios: Sequence[str], results: Results) -> PageView:
    """Build the page of a benchmark."""
    known = results
    table = scores_of(known, family)
    ranking = ranked(table)
    failures = failures_of(known)
    parts = [
        PagePart("scenarios", "Scenario by scenario", figures=[_score_table(family, scenarios, known)],
                 notes=where_to_take(scenarios, known, family)),
        PagePart("ranks", "Over all scenarios", figures=[_rank_table(ranking)], notes=[rank_sentence(ranking)]),
        PagePart("costs", "Cost and number of clusters", figures=[_cost_table(known)]),
    ]  # fmt: skip
    if failures:
        parts.append(PagePart("failures", "Without a result", notes=failures))
    shared = "{rounds} rounds of `{module}`; everything else" if family == "clients" else "Everything"
    return PageView(
        title=f"Benchmark of methods that cluster {family}",
        lead=f"On `{conditions.data}`, by {MEASURES[family]}. {shared.format(**conditions.settings)} is a "
        "method's default, none is tuned. Methods that cannot find the number of clusters are given it.",
        summary=[
            ("Methods", str(len({one.method for one in known})), "with a result or a reason"),
            ("Scenarios", str(len({one.scenario for one in known})), "of " + str(len(scenarios))),
            ("Runs", str(len(known)), "finished or given up"),
        ],
        parts=parts,
        settings=vars(conditions) | {"settings": dict(conditions.settings)},
    )


def where_to_take(scenarios: Sequence[str], results: Results, family: Family) -> list[str]:
    """Return a sentence per scenario: the best method, and those within two standard errors of it."""
    table, found = scores_of(results, family), []
    for scenario in scenarios:
        best = best_of(table, scenario)
        if best:
            rest = f"; within the noise of it: {', '.join(f'`{name}`' for name in best[1:])}" if best[1:] else ""
            found.append(f"{scenario} ({describe(family, scenario)}): `{best[0]}`{rest}.")
    return found


def rank_sentence(ranking: Ranking) -> str:
    """Describe the ranks of the methods in a sentence."""
    if ranking.difference is None:
        return "Ranks need at least two methods with results of at least two scenarios."
    alike = ", ".join(f"`{name}`" for name in ranking.as_good)
    friedman = "" if ranking.p is None else f" Friedman's test that all are alike: p = {ranking.p:.2g}."
    return (
        f"Mean ranks over {len(ranking.scenarios)} scenarios; nearer than the critical difference of "
        f"{ranking.difference:.2f} (Nemenyi, 5 %) they do not differ significantly. As good as the best: {alike}."
        f"{friedman}"
    )


def as_text(family: Family, scenarios: Sequence[str], results: Results) -> str:
    """Write the scores and ranks for a terminal."""
    table = scores_of(results, family)
    ranking = ranked(table)
    methods = _in_order(ranking, results)
    rows = [["method", *scenarios, "rank"]]
    for method in methods:
        rank = ranking.ranks.get(method)
        cells = [_mean(table.get((scenario, method), [])) for scenario in scenarios]
        rows.append([method, *cells, _NONE if rank is None else f"{rank:.2f}"])
    lines = [table_text(rows), sentence_text(rank_sentence(ranking).replace("`", ""))]
    if failures := failures_of(results):
        lines += ["Without a result; with a longer --limit, what took too long is tried again:"]
        lines += [f"  {failure.replace('`', '')}" for failure in failures]
    return "\n".join(lines)


def failures_of(results: Results) -> list[str]:
    """Return, in order, which methods have no result in which scenarios, and why; each reason once per scenario."""
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cell, result in results.items():
        if result.failed:
            methods[cell.scenario, result.failed].add(f"`{cell.method}`")
    return sorted(f"{', '.join(sorted(names))}, {scenario}: {why}" for (scenario, why), names in methods.items())


def _in_order(ranking: Ranking, results: Results) -> list[str]:
    """Sort the methods by rank, those without a rank last."""
    return list(dict.fromkeys([*ranking.ranks, *(cell.method for cell in results)]))


def _score_table(family: Family, scenarios: Sequence[str], results: Results) -> ResultTable:
    table = scores_of(results, family)
    rows = []
    for method in _in_order(ranked(table), results):
        cells = []
        for scenario in scenarios:
            values = table.get((scenario, method), [])
            best = method in best_of(table, scenario)
            spread = f"± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
            cells.append(TableCell(_mean(values), beside=spread, verdict="best" if best else ""))
        rows.append((method, cells))
    measure = f"{MEASURES[family][0].upper()}{MEASURES[family][1:]}"
    caption = f"{measure}: mean and standard deviation over seeds. Marked: the best, and those within the noise of it."
    return ResultTable("Scores", caption, "Method", list(scenarios), rows)


def _rank_table(ranking: Ranking) -> ResultTable:
    rows = [
        (name, [TableCell(f"{rank:.2f}", verdict="best" if name in ranking.as_good else "")])
        for name, rank in ranking.ranks.items()
    ]
    return ResultTable("Mean ranks", "1 is the best; marked: not significantly worse.", "Method", ["Mean rank"], rows)


def _cost_table(results: Results) -> ResultTable:
    rows = []
    for method in dict.fromkeys(cell.method for cell in results):
        own = [result for cell, result in results.items() if cell.method == method and not result.failed]
        if not own:
            continue
        made = method_named(_parted(method)[0])
        cells = [
            TableCell(
                span(sorted(result.clusters for result in own if result.clusters is not None)),
                beside="given" if made.traits.takes_k and not made.traits.finds_k else "found",
            ),
            TableCell(format_bytes(int(np.mean([result.bytes for result in own])))),
            TableCell(f"{np.mean([result.seconds for result in own]):.1f}"),
            TableCell(f"{np.mean([result.steps for result in own]):.0f}"),
            TableCell(format_bytes(memory) if (memory := max(result.memory for result in own)) else _NONE),
        ]
        rows.append((method, cells))
    caption = (
        "Means over all runs, each on one thread; numbers of clusters from the fewest to the most, and memory the most "
        "of a run's process, Python and PyTorch included."
    )
    return ResultTable("Costs", caption, "Method", ["Clusters", "Moved", "Seconds", "Steps", "Memory"], rows)


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f}" if values else _NONE
