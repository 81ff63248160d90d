"""Candidates of a comparison: methods, with the number of clusters that they are given."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from fedkin.core import FedkinError, Method
from fedkin.core.options import options_of
from fedkin.experiment import registry

Family = Literal["samples", "clients"]
Role = Literal["", "centralised", "synthetic", "baseline"]
"""Methods that move samples to the server, send synthetic ones, or form no clusters; the others have none."""


def method_named(name: str) -> type[Method[Any]]:
    """Return the class of the method `name`.

    Raises FedkinError if there is none, and suggests the nearest name, or if the method says that it finds the number
    of clusters, and can only be given one.
    """
    made = registry.resolve("method", name)
    if made.finds_k and any(option.name == "n_clusters" for option in options_of(made)):
        hint = get_type_hints(made)["n_clusters"]
        if hint is int:
            raise FedkinError(
                f"Method '{name}' has the class attribute finds_k = True, perhaps from its base, but its n_clusters is "
                "always given; set finds_k = False and takes_k = True in its class."
            )
    return made


def _unknown(made: type[Method[Any]]) -> dict[str, Any]:
    """Return the settings by which a method finds the number of clusters instead of being given it."""
    if not (made.finds_k and made.takes_k):
        return {}
    hint = get_type_hints(made)["n_clusters"]
    return {"n_clusters": "auto" if any("auto" in get_args(part) for part in (hint, *get_args(hint))) else None}


@dataclass(frozen=True, order=True)
class Candidate:
    """Candidate of a comparison: a method and the number of clusters it is given, if any."""

    method: str
    number: int | None = None

    @property
    def name(self) -> str:
        """Name of the method, with the number of clusters it is given."""
        return self.method if self.number is None else f"{self.method}, {self.number} clusters"

    @property
    def folder(self) -> str:
        """Name of the folder of its runs."""
        name = registry.file_name(self.method)
        return name if self.number is None else f"{name}-{self.number}"

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return section ``[method]`` of its runs, with those of the settings `given` that the method has."""
        made = method_named(self.method)
        fields = {each.name for each in options_of(made)}
        number = _unknown(made) if self.number is None else {"n_clusters": self.number}
        return {"name": self.method, **{key: given[key] for key in given if key in fields}, **number}


@dataclass(frozen=True)
class Selection:
    """Methods that take part in a comparison, the cheapest first."""

    family: Family
    methods: tuple[str, ...]

    @property
    def needy(self) -> list[str]:
        """Cheap methods that must be given the number of clusters."""
        return [name for name in self.methods if not (own := method_named(name)).finds_k and own.cost == "cheap"]

    @staticmethod
    def role(method: str) -> Role:
        """Return the role of a method; only methods of no particular role and baselines are recommended."""
        made = method_named(method)
        if made.moves_data:
            return "centralised"
        if made.copies_data:
            return "synthetic"
        return "baseline" if made.baseline else ""

    def first(self, clusters: int | None) -> list[Candidate]:
        """Return the candidates that run first: all if the number of clusters is known, else methods that find it."""
        found = []
        for name in self.methods:
            made = method_named(name)
            if not made.takes_k or (clusters is None and made.finds_k):
                found.append(Candidate(name))
            elif clusters is not None:
                found.append(Candidate(name, clusters))
        return found

    def with_k(self, numbers: Collection[int], cheap: bool) -> list[Candidate]:
        """Return candidates for each number of clusters and each method that takes one, cheap or costly."""
        cost = "cheap" if cheap else "costly"
        able = [name for name in self.methods if (own := method_named(name)).takes_k and own.cost == cost]
        return [Candidate(name, number) for name in able for number in numbers]


def selection_of(family: Family, methods: Sequence[str]) -> Selection:
    """Select the methods that take part: those named, or with ``("all",)`` all of the family.

    Raises FedkinError if a name is unknown or that of a method of the other family, or none is left.
    """
    names = [name for name in registry.METHODS if method_named(name).clusters == family]
    if tuple(methods) != ("all",):
        for name in methods:
            if not registry.is_known("method", name):
                if "+" in name:
                    raise FedkinError(
                        f"'{name}' sets an option of a method, as `fedkin benchmark` takes it; a comparison has each "
                        "method once, with --set method.OPTION=VALUE for all that have the option."
                    )
                registry.check_known("method", name)
            other = method_named(name).clusters
            if other is None:
                raise FedkinError(
                    f"Method '{name}' has no class attribute `clusters`, which says what it clusters, so it "
                    "cannot be compared."
                )
            if other != family:
                raise FedkinError(
                    f"Method '{name}' clusters {other}, but the question is which {family} belong together; leave it "
                    f"out, or ask for {other}: `compare --question {other}` or `benchmark {other}`."
                )
        own = [name for name in methods if name not in names]
        names = [*(name for name in names if name in methods), *dict.fromkeys(own)]
    if not names:
        raise FedkinError("--methods names no method; give one or more from `fedkin list methods`, or all.")
    return Selection(family, tuple(names))
