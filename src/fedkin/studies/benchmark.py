"""Scenarios of ``fedkin benchmark``, and methods ranked over them (Demšar 2006)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from fedkin.core import FedkinError
from fedkin.core.doors import flag
from fedkin.core.errors import unknown_name
from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.experiment import registry
from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.report.figures import CellVerdict, PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes
from fedkin.studies.cells import CellResult
from fedkin.studies.comparison import ComparisonRow, remarks, span
from fedkin.studies.question import Family, Question, method_named
from fedkin.studies.study import Cell

PAGE = "benchmark.html"
MEASURES: dict[Family, str] = {
    "clients": "mean accuracy of each client's model on its own tests",
    "samples": "ARI of samples' clusters and their classes",
}
_ALPHA = 0.05
_SAMPLES = 300
_FEW = 30
_MANY = 100
_LAST = 10**6
"""Rounds between evaluations: only the last is evaluated."""


@dataclass(frozen=True)
class BenchmarkScenario:
    """Scenario of a benchmark: the section ``[scenario]`` of its experiments.

    `clusters` is the number of hidden clusters of clients; ``None``: the number of classes for samples, one for
    clients. `data` is the data set that it requires; by default the benchmark's. `changes` says whether data or clients
    change in the middle of a run.
    """

    settings: Mapping[str, Any]
    clusters: int | None = None
    data: str | None = None
    changes: bool = False


def _of(name: str, clients: int = 20, samples: int = _SAMPLES, **more: Any) -> dict[str, Any]:
    return {"name": name, "clients": clients, "samples_per_client": samples, **more}


CLIENTS: dict[str, BenchmarkScenario] = {
    "label-clusters": BenchmarkScenario({"name": "label-clusters", "samples_per_client": _SAMPLES}, 3),
    "rotation": BenchmarkScenario(_of("rotation"), 4),
    "label-flip": BenchmarkScenario(_of("label-flip"), 4),
    "few-samples": BenchmarkScenario(_of("label-flip", samples=_FEW), 4),
    "many-clients": BenchmarkScenario(_of("label-flip", _MANY, 100), 4),
    "drift-swap": BenchmarkScenario(_of("drift-swap"), 4, changes=True),
    "arrivals": BenchmarkScenario(_of("arrivals"), 4, changes=True),
    "dirichlet": BenchmarkScenario(_of("dirichlet")),
    "iid": BenchmarkScenario(_of("iid")),
    "domains": BenchmarkScenario(
        {"name": "domain", "clients_per_domain": 5, "shrink": 4, "samples_per_client": _SAMPLES}, 4, "pacs"
    ),
    "thousand-clients": BenchmarkScenario(_of("label-flip", 1000, 50), 4, "fashion_mnist"),
}
"""Scenarios of clients; those that need data of their own are taken only if they are named."""

SAMPLES: dict[str, BenchmarkScenario] = {
    **{
        f"own-class p={p:g}": BenchmarkScenario({"name": "own-class", "heterogeneity": p})
        for p in (0.0, 0.25, 0.5, 0.75, 1.0)
    },
    "label-skew": BenchmarkScenario({"name": "label-skew"}),
    "few-samples": BenchmarkScenario({"name": "own-class", "heterogeneity": 0.5, "fraction": 0.33}),
    "many-clients": BenchmarkScenario({"name": "label-skew", "clients": _MANY}),
    "thousand-clients": BenchmarkScenario({"name": "label-skew", "clients": 1000}, data="mnist"),
}

SCENARIOS: dict[Family, dict[str, BenchmarkScenario]] = {"clients": CLIENTS, "samples": SAMPLES}


def scenarios_of(family: Family, names: Sequence[str]) -> list[str]:
    """Return the scenarios that take part: those named, or all that require no data set of their own.

    Raises FedkinError if a name is unknown, or there is none.
    """
    table = SCENARIOS[family]
    if tuple(names) == ("all",):
        return [name for name, scenario in table.items() if scenario.data is None]
    if not names:
        raise FedkinError("A benchmark needs at least one scenario.")
    for name in names:
        if name not in table and registry.is_known("scenario", name):
            raise FedkinError(
                f"Scenario '{name}' is not among those of the benchmark of {family}, which are {', '.join(table)}."
            )
        if name not in table:
            raise unknown_name("scenario", name, ["all", *table])
    return list(dict.fromkeys(names))


def questions_of(
    family: Family, data: str, scenarios: Sequence[str], shared: Mapping[str, Any]
) -> dict[str, tuple[Question, int]]:
    """Return the question of each scenario, by its name, and the true number of clusters.

    `shared` are settings for methods that have them, such as ``rounds``. Raises FedkinError if the data have no labels.
    """
    classes = len(load_labelled(data).classes)
    found = {}
    for name in scenarios:
        scenario = SCENARIOS[family][name]
        settings = dict(scenario.settings)
        if scenario.changes:
            settings["step"] = shared["rounds"] // 2 + 1  # only scenarios of clients change
        evaluation = {"every": _LAST, **({"map": "none"} if family == "samples" else {})}
        tables = {"data": {"source": scenario.data or data}, "scenario": settings, "evaluation": evaluation}
        number = scenario.clusters or (classes if family == "samples" else 1)
        found[name] = Question(family, tables, dict(shared), 0), number
    return found


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
        best = min(self.ranks.values(), default=0.0)
        return [name for name, rank in self.ranks.items() if rank - best <= (self.difference or 0.0)]

    @property
    def sentence(self) -> str:
        """The ranks in a sentence."""
        if self.difference is None:
            return "Ranks need at least two methods with results of at least two scenarios."
        friedman = "" if self.p is None else f" Friedman's test that all are alike: p = {self.p:.2g}."
        return (
            f"Mean ranks over {len(self.scenarios)} scenarios; nearer than the critical difference of "
            f"{self.difference:.2f} (Nemenyi, 5 %) they do not differ significantly. As good as the best: "
            f"{', '.join(self.as_good)}.{friedman}"
        )


def ranked(means: Mapping[tuple[str, str], float]) -> Ranking:
    """Rank methods by their mean over seeds, by (scenario, method), scenario by scenario; more is better.

    Seeds of one scenario are not independent, so each scenario counts once. Methods that lack a result for a scenario
    that another method has are left out, unless they are the only ones.
    """
    scenarios = list(dict.fromkeys(scenario for scenario, _ in means))
    methods = [
        method
        for method in dict.fromkeys(method for _, method in means)
        if all((scenario, method) in means for scenario in scenarios)
    ]
    if not methods:
        return Ranking({}, None, None, scenarios)
    table = np.array([[means[scenario, method] for method in methods] for scenario in scenarios])
    ranks = np.stack([rankdata(-row) for row in table]).mean(0)
    order = sorted(range(len(methods)), key=lambda at: (ranks[at], methods[at]))
    p = None
    if len(methods) > 2 and len(scenarios) > 1 and not np.allclose(table, table[:, :1]):
        p = float(friedmanchisquare(*table.T).pvalue)
    return Ranking(
        {methods[at]: float(ranks[at]) for at in order}, critical_difference(len(methods), len(scenarios)), p, scenarios
    )


def critical_difference(methods: int, scenarios: int) -> float | None:
    """Return Nemenyi's critical difference of mean ranks at 5 %; ``None`` if there is nothing to compare."""
    if methods < 2 or scenarios < 2:
        return None
    q = float(studentized_range.ppf(1 - _ALPHA, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * scenarios))


@dataclass(frozen=True)
class Benchmark:
    """Result of a benchmark: the rows of each scenario, by its name, and every run.

    `data` and the settings that all methods `shared` are the benchmark's; all else is a method's default.
    """

    family: Family
    data: str
    shared: Mapping[str, Any]
    rows: Mapping[str, Sequence[ComparisonRow]]
    results: Mapping[Cell, CellResult]

    @property
    def measure(self) -> str:
        """Name of the measure that ranks."""
        return "ari" if self.family == "samples" else "accuracy"

    def mean(self, row: ComparisonRow) -> float | None:
        """Return a method's mean over seeds in a scenario; ``None`` without a finished run."""
        return (row.truth if self.family == "samples" else row.measures).get(self.measure)

    @property
    def ranking(self) -> Ranking:
        """Ranks of the methods over all scenarios."""
        means = {(name, row.method): self.mean(row) for name, rows in self.rows.items() for row in rows}
        return ranked({cell: value for cell, value in means.items() if value is not None})

    @property
    def methods(self) -> list[str]:
        """Methods by rank, those without a rank last."""
        return list(dict.fromkeys([*self.ranking.ranks, *(row.method for rows in self.rows.values() for row in rows)]))

    @property
    def failures(self) -> list[str]:
        """Methods without a result, by scenario and reason, in sentences."""
        return [
            f"{names}, {scenario}: {why}"
            for scenario, rows in self.rows.items()
            for why, names in remarks(rows, missing_only=True).items()
        ]

    def best(self, scenario: str) -> list[str]:
        """Return the best method of a scenario, and those within two standard errors of it, best first.

        The standard error is that of the difference of means over seeds, 0 for a single seed.
        """
        means = {row.method: (value, row) for row in self.rows[scenario] if (value := self.mean(row)) is not None}
        order = sorted(means, key=lambda method: (-means[method][0], method))
        if not order:
            return []
        top, best = means[order[0]]

        def near(value: float, row: ComparisonRow) -> bool:
            variances = (each.deviations.get(self.measure, 0.0) ** 2 / each.runs for each in (best, row))
            return top - value <= 2 * math.sqrt(sum(variances))

        return [method for method in order if near(*means[method])]

    def plain(self) -> list[dict[str, Any]]:
        """Return every run as plain values, without labels."""
        runs = [{**asdict(cell), **asdict(result)} for cell, result in self.results.items()]
        return [{name: value for name, value in run.items() if name not in ("labels", "again")} for run in runs]

    def page(self) -> PageView:
        """Build the page."""
        shared = "Everything is"
        if self.family == "clients":
            shared = f"{self.shared['rounds']} rounds of `{self.shared['module']}`; everything else is"
        notes = [self.ranking.sentence]
        parts = [
            PagePart("scores", "Scenario by scenario", figures=[self._scores()], notes=notes),
            PagePart("costs", "Cost and number of clusters", figures=[self._costs()]),
            *([PagePart("failures", "Without a result", notes=self.failures)] if self.failures else []),
        ]
        return PageView(
            title=f"Benchmark of methods that cluster {self.family}",
            lead=f"On `{self.data}`, by {MEASURES[self.family]}. {shared} a method's default, none is tuned. Methods "
            "that cannot find the number of clusters are given it.",
            summary=[
                ("Methods", str(len(self.methods)), "with a result or a reason"),
                ("Scenarios", str(len(self.rows)), "of data and clients"),
                ("Runs", str(len(self.results)), "finished or given up"),
            ],
            parts=parts,
            settings={"family": self.family, "data": self.data, **self.shared},
        )

    def text(self) -> str:
        """Write the scores and ranks for a terminal."""
        table = self._scores()
        rows = [(name, *(cell.text for cell in cells)) for name, cells in table.rows]
        lines = [table_text([("method", *self.rows, "rank"), *rows]), sentence_text(self.ranking.sentence)]
        if failures := self.failures:
            lines += [f"Without a result; with a longer {flag('limit')}, what took too long is tried again:"]
            lines += [f"  {failure}" for failure in failures]
        return "\n".join(lines)

    def _scores(self) -> ResultTable:
        ranking, best = self.ranking, {scenario: self.best(scenario) for scenario in self.rows}
        known = {(scenario, row.method): row for scenario, rows in self.rows.items() for row in rows}
        rows = []
        for method in self.methods:
            cells = []
            for scenario in self.rows:
                row = known[scenario, method]
                value, spread = self.mean(row), row.deviations.get(self.measure)
                beside = "" if spread is None else f"± {spread:.3f}"
                cells.append(TableCell(_written(value), beside, "best" if method in best[scenario] else ""))
            rank = ranking.ranks.get(method)
            verdict: CellVerdict = "best" if ranking.difference and method in ranking.as_good else ""
            rows.append((method, [*cells, TableCell("–" if rank is None else f"{rank:.2f}", verdict=verdict)]))
        measure = f"{MEASURES[self.family][0].upper()}{MEASURES[self.family][1:]}"
        caption = (
            f"{measure}: mean and standard deviation over seeds, and the mean rank. Marked: the best, and what does "
            "not differ significantly from it."
        )
        return ResultTable("Scores", caption, "Method", [*self.rows, "Mean rank"], rows)

    def _costs(self) -> ResultTable:
        rows = []
        for method in self.methods:
            own = [row for rows in self.rows.values() for row in rows if row.method == method and row.runs]
            if not own:
                continue
            traits = method_named(method).traits
            memory = max(row.memory for row in own)
            cells = [
                TableCell(
                    span(sorted(number for row in own for number in row.clusters)),
                    beside="given" if traits.takes_k and not traits.finds_k else "found",
                ),
                TableCell(format_bytes(float(np.mean([row.bytes or 0 for row in own])))),
                TableCell(f"{np.mean([row.seconds or 0 for row in own]):.1f}"),
                TableCell(format_bytes(memory) if memory else "–"),
            ]
            rows.append((method, cells))
        caption = (
            "Means over scenarios, each run on one thread; numbers of clusters from the fewest to the most, and memory "
            "the most of a run's process, Python and PyTorch included."
        )
        return ResultTable("Costs", caption, "Method", ["Clusters", "Moved", "Seconds", "Memory"], rows)


def _written(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
