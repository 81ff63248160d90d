"""Candidates of a comparison, and its question: the federation, and whether samples or clients are clustered."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from fedkin.core import FedkinError, Method
from fedkin.core.doors import current_door, flag, option
from fedkin.core.files import read_tables
from fedkin.core.options import options_of
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
    """Return the class of the method `name`, which may have options behind it.

    Raises FedkinError if there is none, and suggests the nearest name.
    """
    return registry.resolve("method", base_name(name))


def _unknown(made: type[Method[Any]]) -> dict[str, Any]:
    """Return the settings by which a method finds the number of clusters instead of being given it."""
    if not (made.traits.finds_k and made.traits.takes_k):
        return {}
    hint = get_type_hints(made)["n_clusters"]
    return {"n_clusters": "auto" if any("auto" in get_args(part) for part in (hint, *get_args(hint))) else None}


@dataclass(frozen=True, order=True)
class Candidate:
    """Candidate of a comparison: a method and the number of clusters it is given, if any.

    The method may have options of its own behind its name, such as ``"ccfc+decorrelation=1"``.
    """

    method: str
    number: int | None = None

    @property
    def name(self) -> str:
        """Name of the method, with the number of clusters it is given."""
        return self.method if self.number is None else f"{self.method}, {self.number} clusters"

    def settings(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Return section ``[method]`` of its runs, with those of the `shared` settings that the method has.

        Raises FedkinError if an option behind the name is not ``OPTION=VALUE``.
        """
        made = method_named(self.method)
        fields = {each.name for each in options_of(made)}
        number = _unknown(made) if self.number is None else {"n_clusters": self.number}
        own: dict[str, Any] = {"method": {}}
        for each in self.method.split("+")[1:]:
            if "=" not in each:
                raise FedkinError(f"'{self.method}' has '+{each}' behind the method; write +OPTION=VALUE.")
            apply_setting(own, f"method.{each}")
        common = {key: shared[key] for key in shared if key in fields}
        return {"name": base_name(self.method), **common, **number, **own["method"]}


@dataclass(frozen=True)
class Selection:
    """Methods that take part in a comparison, the cheapest first."""

    family: Family
    methods: tuple[str, ...]

    @property
    def needy(self) -> list[str]:
        """Cheap methods that must be given the number of clusters."""
        return [name for name in self.methods if not (own := method_named(name).traits).finds_k and own.cost == "cheap"]

    @staticmethod
    def role(method: str) -> Role:
        """Return the role of a method; only methods of no particular role and baselines are recommended."""
        made = method_named(method)
        if made.traits.moves_data:
            return "centralised"
        if made.traits.copies_data:
            return "synthetic"
        return "baseline" if made.traits.baseline else ""

    def first(self, clusters: int | None, needy_only: bool = False) -> list[Candidate]:
        """Return the candidates that run first: all if the number of clusters is known, else methods that find it.

        A known number is given to all that take one or, with `needy_only`, to those that cannot find it.
        """
        found = []
        for name in self.methods:
            traits = method_named(name).traits
            if not traits.takes_k or ((clusters is None or needy_only) and traits.finds_k):
                found.append(Candidate(name))
            elif clusters is not None:
                found.append(Candidate(name, clusters))
        return found

    def with_k(self, numbers: Collection[int], cheap: bool) -> list[Candidate]:
        """Return candidates for each number of clusters and each method that takes one, cheap or costly."""
        cost = "cheap" if cheap else "costly"
        able = [name for name in self.methods if (own := method_named(name).traits).takes_k and own.cost == cost]
        return [Candidate(name, number) for name in able for number in numbers]


def selection_of(family: Family, methods: Sequence[str]) -> Selection:
    """Select the methods that take part: those named, or with ``("all",)`` all of the family.

    Raises FedkinError if a name is unknown or that of a method of the other family, or none is left.
    """
    names = [name for name in registry.METHODS if method_named(name).traits.clusters == family]
    if tuple(methods) != ("all",):
        for name in methods:
            registry.check_known("method", base_name(name))
            other = method_named(name).traits.clusters
            if other != family:
                raise FedkinError(
                    f"Method '{name}' clusters {other or 'nothing that it says'}, but the question is which {family} "
                    f"belong together; leave it out, or ask for the other."
                )
        order = {name: at for at, name in enumerate(names)}
        names = list(dict.fromkeys(sorted(methods, key=lambda name: order.get(base_name(name), len(order)))))
    if not names:
        raise FedkinError(f"{flag('methods')} names no method; give one or more from `fedkin list methods`, or all.")
    return Selection(family, tuple(names))


_SECTIONS = ("data", "scenario", "method", "engine", "evaluation", "tracking")
_NOT_INHERITED = ("method", "target")
"""Sections that are not taken from an experiment."""
_HELD_OUT = 0.2
"""Of every client's samples, where clients come without tests and clients are to be clustered."""


@dataclass(frozen=True)
class Question:
    """Question of a comparison: everything that its runs share, apart from the method.

    `family` is what is to be clustered. `tables` are the experiment of all runs, without its method and seed, and
    `settings` hyper-parameters for all methods that have them. The seed is that of the partition, and of the first run.
    """

    family: Family
    tables: dict[str, Any]
    settings: dict[str, Any]
    seed: int

    @property
    def data(self) -> str:
        """Data set as the user gave it."""
        return str(self.tables["data"].get("source", "digits"))

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.tables["scenario"]["name"])

    @property
    def name(self) -> str:
        """Name for the folder, such as ``digits-own-class``."""
        data = re.sub(r"[^A-Za-z0-9._]+", "-", Path(self.data).name).strip("-.") or "data"
        ending = "-clients" if self.family == "clients" and self.scenario == "files" else ""
        return f"{data}-{self.scenario}{ending}" + (f"-seed{self.seed}" if self.seed else "")

    @property
    def description(self) -> str:
        """Describe in a sentence what is clustered, and how to ask for the other."""
        here = f"{self.data}, scenario {self.scenario}"
        other: Family = "clients" if self.family == "samples" else "samples"
        return f"Which {self.family} belong together? ({here}; --question {other} asks the other question.)"

    def config(self, candidate: Candidate, seed: int) -> Config:
        """Build the configuration of one run.

        Raises FedkinError if a key or value is not allowed.
        """
        data = {"seed": self.seed, **self.tables["data"]}
        method = candidate.settings(self.settings)
        return config_of({**self.tables, "data": data, "method": method, "seed": seed})

    def check(self, population: Population) -> Population:
        """Check that clients can be compared on, and return them.

        Raises FedkinError if there are fewer than two clients, or clients are to be clustered but have no labels or no
        tests.
        """
        if len(population.clients) < 2:
            raise FedkinError(
                f"'{self.data}' makes one client only with scenario '{self.scenario}'; a comparison needs 2 or more."
            )
        if self.family == "clients" and any(client.y is None for client in population.clients):
            raise FedkinError(
                f"Clients of scenario '{self.scenario}' on '{self.data}' have no labels, which methods that cluster "
                f"clients learn from; ask {flag('question')} samples, name the labels with "
                f"{option('label', 'COLUMN')}, or take a scenario with labelled clients such as label-clusters or "
                "rotation."
            )
        if self.family == "clients" and not population.tests:
            raise FedkinError(
                f"Clients of scenario '{self.scenario}' on '{self.data}' have no held-out samples to evaluate models "
                "on; set scenario.test_fraction above 0."
            )
        return population


def question_of(
    what: str,
    *,
    data: str | None = None,
    scenario: str | None = None,
    clients: int | None = None,
    seed: int | None = None,
    settings: Sequence[str] = (),
    asked: str = "auto",
    methods: Sequence[str] = ("all",),
) -> Question:
    """Build the question from what a user gives on the command line or in Python.

    `what` is a path that ends in ``.toml``, of which all but the method and the target is taken; a scenario's name; or
    data: a name, a file or a folder, as `fedkin.data.sources.load` and `load_clients` take them. `data` and
    `scenario` are for what it does not name; `clients` is their number, for scenarios that take one; `seed` is that of
    the data and of the first run, by default the file's, or 0. `settings` are ``"section.key=value"``; those of
    ``method`` are for all methods that have the key.

    `asked` is "samples", "clients" or "auto": what the methods named cluster; without names, clients where the scenario
    gives them labels to learn from, and samples otherwise, files of clients included. Raises FedkinError if something
    is given twice, or is not allowed.
    """
    if asked not in ("auto", "samples", "clients"):
        raise FedkinError(f"{flag('question')} is '{asked}'; it should be samples, clients or auto.")
    tables: dict[str, Any] = {}
    if what.endswith(".toml"):
        tables = {name: table for name, table in read_tables(Path(what)).items() if name not in _NOT_INHERITED}
        _check_sections(tables, f"in {what}")
    elif what in registry.SCENARIOS:
        scenario = _once("scenario", what, scenario)
    else:
        data = _once("data", what, data)
    for path, value in (("data.source", data), ("scenario.name", scenario), ("scenario.clients", clients)):
        if value is not None:
            section, _, key = path.partition(".")
            tables.setdefault(section, {})[key] = value
    for setting in settings:
        apply_setting(tables, setting)
    _check_sections(tables, current_door().place)
    if "target" in tables:
        raise FedkinError(
            f"{flag('set')} target.* cannot be applied to a comparison, whose runs all come to their end."
        )
    first, shared = tables.pop("seed", 0), tables.pop("method", {})
    tables["data"] = dict(tables.get("data", {}))
    tables["evaluation"] = {"every": 1_000_000, "map": "pca"} | tables.get("evaluation", {})
    tables["scenario"], family = _asked(tables, asked, methods)
    return Question(family, tables, _known(shared, methods), first if seed is None else seed)


def _check_sections(tables: dict[str, Any], place: str) -> None:
    for section in _SECTIONS:
        check_section(tables, section, place)


def _asked(tables: dict[str, Any], asked: str, methods: Sequence[str]) -> tuple[dict[str, Any], Family]:
    """Return the scenario, and whether samples or clients are to be clustered."""
    scenario = dict(tables.get("scenario", {}))
    if "name" not in scenario and (
        "column" in scenario or files_of_clients(str(tables["data"].get("source", "digits")))
    ):
        scenario["name"] = "files"
    named = {method_named(name).traits.clusters for name in methods if registry.is_known("method", base_name(name))}
    gives_labels = "name" in scenario and issubclass(
        registry.resolve("scenario", str(scenario["name"])), PartitionScenario
    )
    of_clients = named == {"clients"} or (named != {"samples"} and gives_labels)
    family: Family = "clients" if asked == "clients" or (asked == "auto" and of_clients) else "samples"
    scenario.setdefault("name", "own-class" if family == "samples" else "label-clusters")
    if family == "clients" and scenario["name"] == "files":
        scenario.setdefault("test_fraction", _HELD_OUT)
    return scenario, family


def _once(name: str, what: str, given: str | None) -> str:
    if given is not None:
        raise FedkinError(f"'{what}' names the {name} already; leave {flag(name)} {given} out.")
    return what


def _known(settings: dict[str, Any], methods: Sequence[str]) -> dict[str, Any]:
    """Check that each hyper-parameter belongs to one of the methods, and return them."""
    listed = {*registry.METHODS, *(name for name in methods if registry.is_known("method", base_name(name)))}
    names = {field.name for name in listed for field in options_of(method_named(name))}
    for key in settings:
        if key not in names or key == "n_clusters":
            number = f"{flag('clusters')} says how many clusters there are"
            hint = number if key == "n_clusters" else "no method has this key"
            raise FedkinError(f"{flag('set')} method.{key} cannot be applied to the methods compared; {hint}.")
    return settings
