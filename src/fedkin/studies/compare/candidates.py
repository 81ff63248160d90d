"""What is compared: methods that answer the question, with the numbers of clusters they are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.experiment import registry
from fedkin.methods.clients.client_method import ClientMethodState
from fedkin.methods.samples.sample_method import SampleMethod

Family = Literal["samples", "clients"]
ClusterCount = Literal["found", "given", "either"]
"""Whether a method finds the number of clusters, must be told it, or can be told."""
Role = Literal["", "yardstick", "copies", "bound"]
"""Methods that move samples to the server, that send synthetic ones, and that form no clusters; the others have none."""

_CHEAPEST_FIRST = (
    *("kfed", "kmeans", "kin-graph", "fuzzy-cmeans", "ffcm", "dec", "fedcref"),
    *("uifca", "scfc", "sda-fc", "ppfc-gan", "ccfc"),
    *("local", "fedavg", "fedopt", "ocfl", "hierarchical", "ladd", "embedding", "sattler", "ifca", "gradient-loss"),
)
_CHEAP = {"kfed", "kmeans", "fuzzy-cmeans", "ffcm", "kin-graph", "ifca", "gradient-loss", "ladd"}
"""Methods that are tried with every number of clusters in question; others with the likeliest alone."""
_COPIES = {"sda-fc", "ppfc-gan"}
"""Their generative networks may give back the samples they were trained on."""
_BOUNDS = {"fedavg", "fedopt", "local"}
_FINDS_THOUGH = {"fedcref", "ocfl"}
"""Their `n_clusters` is that of a client, or of a way to cluster that is not the default."""


@dataclass(frozen=True)
class Traits:
    """What a comparison needs to know of a method.

    Attributes
    ----------
    family : {"samples", "clients"}
        What it clusters.
    number : {"found", "given", "either"}
        Whether it finds the number of clusters, must be told it, or either.
    unknown : dict
        Settings by which it finds the number, where it can be told.
    cost : int
        Its place in the order of expected cost, the cheapest first.
    cheap : bool
        Whether it may be tried with several numbers of clusters.
    bound : bool
        Whether it forms no clusters but one, or one of each client.
    """

    family: Family
    number: ClusterCount
    unknown: Mapping[str, Any]
    cost: int
    cheap: bool
    bound: bool


def traits_of(name: str) -> Traits:
    """What is to be known of the method of this name.

    Raises
    ------
    FedkinError
        If there is none; the nearest is offered.
    """
    made = registry.resolve("method", name)
    fields = {each.name: each for each in dataclasses.fields(made)}
    number: ClusterCount = "found"
    unknown: dict[str, Any] = {}
    if "n_clusters" in fields and name not in _FINDS_THOUGH:
        allowed = _allowed(get_type_hints(made)["n_clusters"])
        number = "either" if allowed & {"auto", None} else "given"
        if number == "either":
            unknown = {"n_clusters": "auto" if "auto" in allowed else None}
    order = _CHEAPEST_FIRST.index(name) if name in _CHEAPEST_FIRST else len(_CHEAPEST_FIRST)
    family: Family = "clients" if issubclass(made.state_type, ClientMethodState) else "samples"
    return Traits(family, number, unknown, order, name in _CHEAP, name in _BOUNDS)


def _allowed(hint: Any) -> set[Any]:
    """Values other than numbers that a type allows."""
    values: set[Any] = set()
    for part in (hint, *get_args(hint)):
        values |= {None} if part is NoneType else set()
        values |= {value for value in get_args(part) if isinstance(value, str)}
    return values


@dataclass(frozen=True, order=True)
class Candidate:
    """A method with the number of clusters that it is told, if any.

    Attributes
    ----------
    method : str
        Name.
    number : int or None
        Of clusters.
    """

    method: str
    number: int | None = None

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        return self.method if self.number is None else f"{self.method}-{self.number}"

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The section ``[method]`` of its runs; of the settings `given` those that it has."""
        made = registry.resolve("method", self.method)
        fields = {each.name for each in dataclasses.fields(made)}
        told = traits_of(self.method).unknown if self.number is None else {"n_clusters": self.number}
        return {"name": self.method, **{key: given[key] for key in given if key in fields}, **told}


@dataclass(frozen=True)
class Selection:
    """Who takes part in a comparison.

    Attributes
    ----------
    family : {"samples", "clients"}
    methods : tuple of str
        Names, the cheapest first.
    """

    family: Family
    methods: tuple[str, ...]

    @property
    def needy(self) -> list[str]:
        """Methods that must be told the number of clusters, as far as they are cheap enough to try several."""
        return [name for name in self.methods if (own := traits_of(name)).number == "given" and own.cheap]

    @staticmethod
    def role(method: str) -> Role:
        """What a method is to a comparison; only those with none and bounds are recommended."""
        if _moves_data(method):
            return "yardstick"
        if method in _COPIES:
            return "copies"
        return "bound" if traits_of(method).bound else ""

    def first(self, clusters: int | None) -> list[Candidate]:
        """Candidates that need no other's result: all if the number of clusters is known, else those that find it."""
        found = []
        for name in self.methods:
            number = traits_of(name).number
            if number == "found" or (clusters is None and number == "either"):
                found.append(Candidate(name))
            elif clusters is not None:
                found.append(Candidate(name, clusters))
        return found

    def told(self, numbers: Collection[int], cheap: bool) -> list[Candidate]:
        """Candidates that are told one of `numbers` of clusters, of those methods that are cheap or are not."""
        able = [name for name in self.methods if (own := traits_of(name)).number != "found" and own.cheap == cheap]
        return [Candidate(name, number) for name in able for number in numbers]


def selection_of(family: Family, methods: Sequence[str]) -> Selection:
    """The methods that take part: those named, or with ``("all",)`` all of the family.

    Raises
    ------
    FedkinError
        If a name is unknown or that of a method of the other family, or none is left.
    """
    names = [name for name in registry.METHODS if traits_of(name).family == family]
    if tuple(methods) != ("all",):
        for name in methods:
            if name not in registry.METHODS:
                raise unknown_name("method", name, ["all", *registry.METHODS])
            if name not in names:
                other = traits_of(name).family
                raise FedkinError(
                    f"Method '{name}' clusters {other}, but the question is which {family} belong together; leave it "
                    f"out, or ask --question {other}."
                )
        names = list(dict.fromkeys(methods))
    if not names:
        raise FedkinError("--methods names no method; give one or more from `fedkin list methods`, or all.")
    names.sort(key=lambda name: traits_of(name).cost)
    return Selection(family, tuple(names))


def _moves_data(name: str) -> bool:
    """Whether samples leave their client with a method's defaults."""
    made = registry.resolve("method", name)
    return issubclass(made, SampleMethod) and bool(made().moves_data)
