"""What a comparison asks: on which data, and by which methods that cluster samples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedkin.core import FedkinError, Method
from fedkin.core.files import read_tables
from fedkin.core.method import options_of
from fedkin.data.names import files_of_clients
from fedkin.experiment import registry
from fedkin.experiment.config import SETTINGS, Config, apply_setting, check_section, config_of

Role = Literal["", "centralised", "synthetic"]
"""Methods that move samples to the server, or send synthetic ones; the others have none."""


def method_named(name: str) -> type[Method[Any]]:
    """Return the class of a method; raises FedkinError if there is none."""
    return registry.resolve("method", name)


@dataclass(frozen=True, order=True)
class Candidate:
    """Candidate of a comparison: a method, and the number of clusters it is given, if any."""

    method: str
    number: int | None = None

    @property
    def name(self) -> str:
        """Name of the method, with the number of clusters it is given."""
        return self.method if self.number is None else f"{self.method}, {self.number} clusters"

    @property
    def role(self) -> Role:
        """Role of the method; only those of no particular role are recommended."""
        traits = method_named(self.method).traits
        return "centralised" if traits.moves_data else "synthetic" if traits.copies_data else ""

    @property
    def is_cheap(self) -> bool:
        """Whether the method is a quick one."""
        return method_named(self.method).traits.cost == "cheap"

    def settings(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Return section ``[method]`` of its runs, with those of the `shared` settings that the method has."""
        method = method_named(self.method)
        defaults = {option.name: option.default for option in options_of(method)}
        chosen = {"name": self.method, **{key: value for key, value in shared.items() if key in defaults}}
        if self.number is not None:
            return chosen | {"n_clusters": self.number}
        if method.traits.finds_k and method.traits.takes_k:
            return chosen | {"n_clusters": "auto" if defaults["n_clusters"] == "auto" else None}
        return chosen


@dataclass(frozen=True)
class Question:
    """Everything that the runs of a comparison share.

    `methods` take part, the cheapest first. `tables` are the experiment of all runs,
    without its method and seed, and `settings` hyper-parameters for all methods that have them. The seed is that of the
    first run. `clusters` is their number, if it is known.
    """

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
        return f"{data}-{self.scenario}" + (f"-seed{self.seed}" if self.seed else "")

    def takers(self, cheap: bool) -> list[str]:
        """Return the methods that can be given a number of clusters and are cheap, or costly."""
        takers = [name for name in self.methods if method_named(name).traits.takes_k]
        return [name for name in takers if Candidate(name).is_cheap == cheap]

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
