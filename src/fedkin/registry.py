"""The names a user may write, and where each one's code is; nothing heavy is imported before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from fedkin.data import catalogue

Kind = Literal["method", "scenario"]


@dataclass(frozen=True)
class Entry:
    """What a name stands for: ``module:Class``, one line about it, and the scenario that a method is tried on."""

    target: str
    summary: str
    scenario: str = "label-skew"


METHODS = {
    "fedcref": Entry(
        "fedkin.methods.federated_clustering.fedcref:FedCRef",
        "Finds the groups across sites, and how many there are, by exchanging small autoencoders.",
    ),
    **{
        name: Entry(f"fedkin.methods.federated_clustering.{target}", summary, "own-class")
        for name, target, summary in (
            (
                "kin-graph",
                "kingraph:KinGraph",
                "Finds the groups across sites, and how many, in three exchanges: a graph of small local clusters.",
            ),
            ("kfed", "kfed:KFed", "k-means at every site, and again over the sites' centroids; one round."),
            ("ffcm", "ffcm:FFCM", "Fuzzy c-means at every site from common centroids, round after round."),
            ("ccfc", "ccfc:CCFC", "Trains a contrastive network together, by clusters of its own latents."),
            ("scfc", "ccfc:SCFC", "The same by pairs of views of a sample alone: federated SimSiam, then k-means."),
            ("sda-fc", "sda_fc:SDAFC", "Groups synthetic samples from a generative network of each site."),
            ("ppfc-gan", "ppfc_gan:PPFCGAN", "Groups latents of an autoencoder trained on synthetic samples."),
            ("uifca", "uifca:UIFCA", "Samples choose among K normalising flows that sites train together."),
            ("dec", "dec:DEC", "Deep embedded clustering of all samples together, or of every site alone."),
            ("kmeans", "centralized:KMeans", "k-means of all samples together; a yardstick, for the data are moved."),
            (
                "fuzzy-cmeans",
                "centralized:FuzzyCMeans",
                "Fuzzy c-means of all samples together; a yardstick, for the data are moved.",
            ),
        )
    },
    **{
        name: Entry(f"fedkin.methods.clustered_fl.{target}", summary, scenario)
        for name, target, summary, scenario in (
            (
                "embedding",
                "embedding:Embedding",
                "Groups clients before training, by a few private bits each; finds how many.",
                "rotation",
            ),
            ("ladd", "ladd:LADD", "Groups clients before training, by the style of their images.", "rotation"),
            (
                "fedavg",
                "fedavg:FedAvg",
                "One model for all clients, with FedProx's term if wanted; no groups.",
                "label-groups",
            ),
            (
                "fedopt",
                "fedopt:FedOpt",
                "One model for all clients, with momentum, Adam, Yogi or Adagrad at the server.",
                "label-groups",
            ),
            ("local", "fedavg:Local", "Every client alone; no federation at all.", "label-groups"),
            ("ifca", "ifca:IFCA", "Clients choose among K models by their loss, in every round.", "label-groups"),
            (
                "gradient-loss",
                "gradient_loss:GradientLoss",
                "Clients choose among K models by loss and gradient together.",
                "label-groups",
            ),
            (
                "ocfl",
                "ocfl:OCFL",
                "Groups clients once, by their updates, when these begin to part; finds how many.",
                "label-groups",
            ),
            (
                "sattler",
                "sattler:Sattler",
                "Cuts groups of clients in two, again and again, by their updates.",
                "label-groups",
            ),
            (
                "hierarchical",
                "hierarchical:Hierarchical",
                "Cuts a tree of the clients' updates once (Briggs).",
                "label-groups",
            ),
        )
    },
}

SCENARIOS = {
    name: Entry(f"fedkin.data.{target}", catalogue.SCENARIOS[name])
    for name, target in {
        "label-skew": "scenario:LabelSkew",
        "own-class": "own_class:OwnClass",
        "sites": "scenario:Sites",
        "label-groups": "groups:LabelGroups",
        "missing-classes": "groups:MissingClasses",
        "rotation": "planted:Rotation",
        "label-flip": "planted:LabelFlip",
        "domain": "planted:Domain",
        "drift-swap": "drift:DriftSwap",
        "arrivals": "drift:Arrivals",
        "dirichlet": "heterogeneous:Dirichlet",
        "shards": "heterogeneous:Shards",
        "iid": "heterogeneous:Iid",
    }.items()
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


def methods_of_sums() -> list[str]:
    """Names of methods that can do with sums over clients, and what to set besides the defaults; imports them all."""
    from fedkin.core.sums import sums_suffice

    found = []
    for name in METHODS:
        made = resolve("method", name)
        needed = sums_suffice(made)
        if needed is not None:
            settings = [f"{key} = '{value}'" for key, value in needed.items() if getattr(made, key, None) != value]
            found.append(f"{name} with {' and '.join(settings)}" if settings else name)
    return found
