"""Scenarios of a benchmark, and its cells: combinations of scenario, method and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.experiment import registry
from fedkin.experiment.config import Config, load_config
from fedkin.studies.compare.candidates import Candidate, Family, method_named, selection_of

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


@dataclass(frozen=True, order=True)
class Cell:
    """Cell of a benchmark, which is one run: scenario, method, and the seed of the partition and of the run."""

    seed: int
    scenario: str
    method: str

    @property
    def folder(self) -> str:
        """Name of the run's folder."""
        return f"{self.scenario} {self.method} {self.seed}".replace(" ", "_").replace(":", ".").replace("=", "")


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
        return self.clusters(cell.scenario) if made.takes_k and not made.finds_k else None

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


def about(family: Family, scenario: str) -> str:
    """Return a short description of a scenario."""
    return _TABLES[family][scenario].about


def cells_of(scenarios: Sequence[str], methods: Sequence[str], seeds: int) -> list[Cell]:
    """Return all cells, sorted so that every scenario and method gets one seed before any gets a second.

    Raises FedkinError if there is no cell.
    """
    if not scenarios or not methods:
        raise FedkinError("A benchmark needs at least one scenario and one method.")
    return [Cell(seed, scenario, method) for seed in range(seeds) for scenario in scenarios for method in methods]


def _toml(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
