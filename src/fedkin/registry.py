"""The names a user may write, and where each one's code is; nothing heavy is imported before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from fedkin.data import catalogue

Kind = Literal["method", "scenario"]


@dataclass(frozen=True)
class Entry:
    """What a name stands for: ``module:Class`` and one line about it."""

    target: str
    summary: str


METHODS = {
    "fedcref": Entry(
        "fedkin.methods.federated_clustering.fedcref:FedCRef",
        "Finds the groups across sites, and how many there are, by exchanging small autoencoders.",
    ),
}

SCENARIOS = {
    "label-skew": Entry("fedkin.data.scenario:LabelSkew", catalogue.SCENARIOS["label-skew"]),
    "sites": Entry("fedkin.data.scenario:Sites", catalogue.SCENARIOS["sites"]),
}

_TABLES: dict[Kind, dict[str, Entry]] = {"method": METHODS, "scenario": SCENARIOS}


def resolve(kind: Kind, name: str) -> type[Any]:
    """The dataclass that `name` stands for.

    Raises
    ------
    FedkinError
        If no `kind` has this name; the nearest one that exists is offered.
    """
    table = _TABLES[kind]
    if name not in table:
        from fedkin.core.errors import unknown_name

        raise unknown_name(kind, name, table)
    module, _, attribute = table[name].target.partition(":")
    made: type[Any] = getattr(import_module(module), attribute)
    return made
