"""Scenarios of ``fedkin benchmark``, which is a comparison on several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import flag, unknown_name
from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.studies.question import Family, Question, methods_of


@dataclass(frozen=True)
class BenchmarkScenario:
    """Scenario of a benchmark: the section ``[simulation]`` of its experiments.

    `clusters` is the number of hidden clusters of clients; ``None``: the number of classes for samples, one for
    clients. `data` is the data set that it requires; by default the benchmark's. `changes` says whether data or clients
    change in the middle of a run.
    """

    settings: Mapping[str, Any]
    clusters: int | None = None
    data: str | None = None
    changes: bool = False


def _of(name: str, clients: int = 20, samples: int = 300, **more: Any) -> dict[str, Any]:
    return {"scenario": name, "clients": clients, "samples_per_client": samples, **more}


CLIENTS: dict[str, BenchmarkScenario] = {
    "label-clusters": BenchmarkScenario({"scenario": "label-clusters", "samples_per_client": 300}, 3),
    "rotation": BenchmarkScenario(_of("rotation"), 4),
    "label-flip": BenchmarkScenario(_of("label-flip"), 4),
    "few-samples": BenchmarkScenario(_of("label-flip", samples=30), 4),
    "many-clients": BenchmarkScenario(_of("label-flip", 100, 100), 4),
    "drift-swap": BenchmarkScenario(_of("drift-swap"), 4, changes=True),
    "arrivals": BenchmarkScenario(_of("arrivals"), 4, changes=True),
    "dirichlet": BenchmarkScenario(_of("dirichlet")),
    "iid": BenchmarkScenario(_of("iid")),
    "domains": BenchmarkScenario(
        {"scenario": "domain", "clients_per_domain": 5, "shrink": 4, "samples_per_client": 300}, 4, "pacs"
    ),
    "thousand-clients": BenchmarkScenario(_of("label-flip", 1000, 50), 4, "fashion_mnist"),
}
"""Scenarios of clients; those that need data of their own are taken only if they are named."""

SAMPLES: dict[str, BenchmarkScenario] = {
    **{
        f"own-class p={p:g}": BenchmarkScenario({"scenario": "own-class", "heterogeneity": p})
        for p in (0.0, 0.25, 0.5, 0.75, 1.0)
    },
    "label-skew": BenchmarkScenario({"scenario": "label-skew"}),
    "few-samples": BenchmarkScenario({"scenario": "own-class", "heterogeneity": 0.5, "fraction": 0.33}),
    "many-clients": BenchmarkScenario({"scenario": "label-skew", "clients": 100}),
    "thousand-clients": BenchmarkScenario({"scenario": "label-skew", "clients": 1000}, data="mnist"),
}

SCENARIOS: dict[Family, dict[str, BenchmarkScenario]] = {"clients": CLIENTS, "samples": SAMPLES}


def questions_of(
    family: Family,
    methods: Sequence[str] = ("all",),
    data: str = "digits",
    scenarios: Sequence[str] = ("all",),
    rounds: int = 20,
    module: str = "perceptron",
) -> list[Question]:
    """Return the question of each scenario: those named, or all that require no data set of their own.

    `data` are for all scenarios that do not require a particular data set. Methods that cluster clients train `module`
    for so many communication `rounds`; all else is a method's default. Raises FedkinError if an option is out of range,
    a name is unknown or there is none, or the data have no labels.
    """
    if rounds < 1:
        raise FedkinError(f"{flag('rounds')} is {rounds}; allowed: 1 or more.")
    shared = {"rounds": rounds, "module": module} if family == "clients" else {}
    table, names = SCENARIOS[family], methods_of(family, methods)
    if tuple(scenarios) == ("all",):
        scenarios = [name for name, scenario in table.items() if scenario.data is None]
    if not scenarios:
        raise FedkinError("A benchmark needs at least one scenario.")
    for name in scenarios:
        if name not in table:
            raise unknown_name("scenario", name, ["all", *table])
    classes, questions = len(load_labelled(data).classes), []
    for name in dict.fromkeys(scenarios):
        scenario = table[name]
        settings = dict(scenario.settings)
        if scenario.changes:
            settings["step"] = rounds // 2 + 1  # only scenarios of clients change
        evaluation = {"every": 1_000_000, **({"map": "none"} if family == "samples" else {})}
        tables = {"data": {"source": scenario.data or data}, "simulation": settings, "evaluation": evaluation}
        number = scenario.clusters or (classes if family == "samples" else 1)
        questions.append(Question(family, names, tables, shared, clusters=number, label=name))
    return questions
