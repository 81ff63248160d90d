"""What a comparison asks: on which data, whether samples or clients are clustered, and by which methods."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from fedkin.core import FedkinError, Method
from fedkin.core.errors import current_door, flag, option
from fedkin.core.files import read_tables
from fedkin.core.method import options_of
from fedkin.data.names import files_of_clients
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import PartitionScenario
from fedkin.experiment import registry
from fedkin.experiment.config import Config, apply_setting, check_section, config_of

Family = Literal["samples", "clients"]
Role = Literal["", "centralised", "synthetic", "baseline"]
"""Methods that move samples to the server, send synthetic ones, or form no clusters; the others have none."""


def base_name(name: str) -> str:
    """Return the name of a method without the options behind it: ``ccfc`` of ``ccfc+decorrelation=1``."""
    return name.partition("+")[0]


def method_named(name: str) -> type[Method[Any]]:
    """Return the class of a method, which may have options behind its name.

    Raises FedkinError if there is none, and suggests the nearest name.
    """
    return registry.resolve("method", base_name(name))


def role_of(name: str) -> Role:
    """Return the role of a method; only those of no particular role and baselines are recommended."""
    traits = method_named(name).traits
    if traits.moves_data:
        return "centralised"
    return "synthetic" if traits.copies_data else "baseline" if traits.baseline else ""


@dataclass(frozen=True, order=True)
class Candidate:
    """Candidate of a comparison: a method, perhaps with options as in ``"ccfc+decorrelation=1"``, and the number of
    clusters it is given, if any.
    """

    method: str
    number: int | None = None

    @property
    def name(self) -> str:
        """Name of the method, with the number of clusters it is given."""
        return self.method if self.number is None else f"{self.method}, {self.number} clusters"

    @property
    def is_cheap(self) -> bool:
        """Whether the method is a quick one."""
        return method_named(self.method).traits.cost == "cheap"

    def settings(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Return section ``[method]`` of its runs, with those of the `shared` settings that the method has.

        Raises FedkinError if an option behind the name is not ``OPTION=VALUE``.
        """
        method = method_named(self.method)
        fields = {option.name for option in options_of(method)}
        behind: dict[str, Any] = {"method": {}}
        for setting in self.method.split("+")[1:]:
            if "=" not in setting:
                raise FedkinError(f"'{self.method}' has '+{setting}' behind the method; write +OPTION=VALUE.")
            apply_setting(behind, f"method.{setting}")
        number: dict[str, Any] = {} if self.number is None else {"n_clusters": self.number}
        if self.number is None and method.traits.finds_k and method.traits.takes_k:
            hint = get_type_hints(method)["n_clusters"]
            finds = any("auto" in get_args(part) for part in (hint, *get_args(hint)))
            number = {"n_clusters": "auto" if finds else None}
        common = {key: value for key, value in shared.items() if key in fields}
        return {"name": base_name(self.method), **common, **number, **behind["method"]}


@dataclass(frozen=True)
class Question:
    """Everything that the runs of a comparison share.

    `family` is what is clustered, and `methods` take part, the cheapest first. `tables` are the experiment of all runs,
    without its method and seed, and `settings` hyper-parameters for all methods that have them. The seed is that of the
    first run. `clusters` is their number, if it is known.
    """

    family: Family
    methods: tuple[str, ...]
    tables: dict[str, Any]
    settings: dict[str, Any]
    seed: int = 0
    clusters: int | None = None

    @property
    def data(self) -> str:
        """Data set as the user gave it."""
        return str(self.tables["data"].get("source", "digits"))

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.tables["simulation"]["scenario"])

    @property
    def name(self) -> str:
        """Name for the folder, such as ``digits-own-class``."""
        data = re.sub(r"[^A-Za-z0-9._]+", "-", Path(self.data).name).strip("-.") or "data"
        ending = "-clients" if self.family == "clients" and self.scenario == "files" else ""
        return f"{data}-{self.scenario}{ending}" + (f"-seed{self.seed}" if self.seed else "")

    def takers(self, cheap: bool) -> list[str]:
        """Return the methods that can be given a number of clusters and are cheap, or costly."""
        return [
            name
            for name in self.methods
            if method_named(name).traits.takes_k and Candidate(name).is_cheap == cheap
        ]  # fmt: skip

    def candidates(self) -> list[Candidate]:
        """Return the candidates that run first: all if the number of clusters is known, else methods that find it."""
        candidates = []
        for name in self.methods:
            traits = method_named(name).traits
            if not traits.takes_k or (self.clusters is None and traits.finds_k):
                candidates.append(Candidate(name))
            elif self.clusters is not None:
                candidates.append(Candidate(name, self.clusters))
        return candidates

    def config(self, candidate: Candidate, seed: int) -> Config:
        """Build the configuration of one run; raises FedkinError if a key or value is not allowed."""
        data = {"seed": self.seed, **self.tables["data"]}
        return config_of({**self.tables, "data": data, "method": candidate.settings(self.settings), "seed": seed})

    def check(self, population: Population) -> Population:
        """Return clients that can be compared on.

        Raises FedkinError if there are fewer than two, or they are to be clustered but have no labels or no tests.
        """
        source = f"scenario '{self.scenario}' on '{self.data}'"
        if len(population.clients) < 2:
            raise FedkinError(f"One client only is made by {source}; a comparison needs 2 or more.")
        if self.family == "clients" and any(client.y is None for client in population.clients):
            raise FedkinError(
                f"Clients of {source} have no labels, which methods that cluster clients learn from; ask "
                f"{flag('question')} samples, name the labels with {option('label', 'COLUMN')}, or take a scenario "
                "with labelled clients such as label-clusters or rotation."
            )
        if self.family == "clients" and not population.tests:
            raise FedkinError(
                f"Clients of {source} have no held-out samples to evaluate models on; set simulation.test_fraction "
                "above 0."
            )
        return population


def methods_of(family: Family, names: Sequence[str]) -> tuple[str, ...]:
    """Return the methods that take part, the cheapest first: those named, or with ``("all",)`` all of the family.

    Raises FedkinError if a name is unknown or that of a method of the other family, or there is none.
    """
    listed = [name for name in registry.METHODS if method_named(name).traits.clusters == family]
    if tuple(names) == ("all",):
        return tuple(listed)
    if not names:
        raise FedkinError(f"{flag('methods')} names no method; give one or more from `fedkin list methods`, or all.")
    for name in names:
        registry.check_known("method", base_name(name))
        clusters = method_named(name).traits.clusters
        if clusters != family:
            raise FedkinError(
                f"Method '{name}' clusters {clusters or 'nothing that it says'}, but the question is which {family} "
                f"belong together; leave it out, or ask for the other."
            )
    order = {name: place for place, name in enumerate(listed)}
    return tuple(dict.fromkeys(sorted(names, key=lambda name: order.get(base_name(name), len(order)))))


_TARGET = ("target", "reach", "stop")
"""Options of ``[evaluation]`` that a comparison does not take."""


def question_of(
    what: str,
    *,
    data: str | None = None,
    scenario: str | None = None,
    clients: int | None = None,
    seed: int | None = None,
    settings: Sequence[str] = (),
    question: str = "auto",
    methods: Sequence[str] = ("all",),
    clusters: int | None = None,
) -> Question:
    """Build the question from what a user gives on the command line or in Python.

    `what` is a path that ends in ``.toml``, of which all but the method and the target is taken; a scenario's name; or
    data, as `fedkin.data.sources.load` and `load_clients` take them. `data` and `scenario` are for what it does not
    name. `seed` is that of the data and of the first run, by default the file's, or 0. Of the `settings`,
    ``"section.key=value"``, those of ``method`` are for all methods that have the key.

    `question` is "samples", "clients" or "auto": what the methods named cluster; without names, clients where the
    scenario gives them labels to learn from, and samples otherwise. Raises FedkinError if something is given twice, or
    is not allowed.
    """
    if question not in ("auto", "samples", "clients"):
        raise FedkinError(f"{flag('question')} is '{question}'; it should be samples, clients or auto.")
    tables: dict[str, Any] = {}
    if what.endswith(".toml"):
        tables = {name: table for name, table in read_tables(Path(what)).items() if name != "method"}
        for section in tables:
            check_section(tables, section, f"in {what}")
        for key in _TARGET:
            tables.get("evaluation", {}).pop(key, None)
    else:
        kind = "scenario" if what in registry.SCENARIOS else "data"
        twice = scenario if kind == "scenario" else data
        if twice is not None:
            raise FedkinError(f"'{what}' names the {kind} already; leave {flag(kind)} {twice} out.")
        data, scenario = (data, what) if kind == "scenario" else (what, scenario)
    for section, values in (("data", {"source": data}), ("simulation", {"scenario": scenario, "clients": clients})):
        chosen = {key: value for key, value in values.items() if value is not None}
        tables[section] = {**tables.get(section, {}), **chosen}
    for setting in settings:
        apply_setting(tables, setting)
    for section in tables:
        check_section(tables, section, current_door().place)
    if aims := [key for key in _TARGET if key in tables.get("evaluation", {})]:
        raise FedkinError(f"'evaluation.{aims[0]}' is not for a comparison, whose runs all come to their end.")
    first_seed, shared = tables.pop("seed", 0), tables.pop("method", {})
    tables["evaluation"] = {"every": 1_000_000, "map": "pca"} | tables.get("evaluation", {})
    registered = [name for name in methods if registry.is_known("method", base_name(name))]
    simulation = tables["simulation"]
    if "scenario" not in simulation and (
        "column" in simulation or files_of_clients(str(tables["data"].get("source", "digits")))
    ):
        simulation["scenario"] = "files"
    clustered = {method_named(name).traits.clusters for name in registered}
    gives_labels = "scenario" in simulation and issubclass(
        registry.resolve("scenario", str(simulation["scenario"])), PartitionScenario
    )
    of_clients = clustered == {"clients"} or (clustered != {"samples"} and gives_labels)
    family: Family = "clients" if question == "clients" or (question == "auto" and of_clients) else "samples"
    simulation.setdefault("scenario", "own-class" if family == "samples" else "label-clusters")
    if family == "clients" and simulation["scenario"] == "files":
        simulation.setdefault("test_fraction", 0.2)  # clients' models are judged on samples of their own
    fields = {field.name for name in {*registry.METHODS, *registered} for field in options_of(method_named(name))}
    for key in shared:
        if key not in fields or key == "n_clusters":
            number = f"{flag('clusters')} says how many clusters there are"
            hint = number if key == "n_clusters" else "no method has this key"
            raise FedkinError(f"{flag('set')} method.{key} cannot be applied to the methods compared; {hint}.")
    names = methods_of(family, methods)
    return Question(family, names, tables, shared, first_seed if seed is None else seed, clusters)
