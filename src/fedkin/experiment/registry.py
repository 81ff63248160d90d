"""The names a user may write, and where each one's code is; nothing heavy is imported before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from fedkin.data.reading import names

Kind = Literal["method", "scenario"]


@dataclass(frozen=True)
class RegistryEntry:
    """What a name stands for: ``module:Class``, one line about it, and the scenario that a method is tried on."""

    target: str
    summary: str
    scenario: str = "label-skew"


METHODS = {
    "fedcref": RegistryEntry(
        "fedkin.methods.samples.fedcref.fedcref:FedCRefMethod",
        "Finds the clusters across clients, and how many there are, by exchanging small autoencoders.",
    ),
    **{
        name: RegistryEntry(f"fedkin.methods.samples.{target}", summary, "own-class")
        for name, target, summary in (
            (
                "kin-graph",
                "kingraph.kingraph:KinGraphMethod",
                "Finds the clusters across clients, and how many, in three rounds: a graph of micro-clusters.",
            ),
            ("kfed", "kfed:KFedMethod", "k-means at every client, and again over the clients' centroids; one round."),
            ("ffcm", "ffcm:FFCMMethod", "Fuzzy c-means at every client from common centroids, round after round."),
            ("ccfc", "ccfc.ccfc:CCFCMethod", "Trains a contrastive network together, by clusters of its own latents."),
            (
                "scfc",
                "ccfc.ccfc:SCFCMethod",
                "The same by pairs of views of a sample alone: federated SimSiam, then k-means.",
            ),
            ("sda-fc", "sda_fc:SDAFCMethod", "Clusters synthetic samples from a generative network of each client."),
            ("ppfc-gan", "ppfc_gan:PPFCGANMethod", "Clusters latents of an autoencoder trained on synthetic samples."),
            ("uifca", "uifca:UIFCAMethod", "Samples choose among K normalising flows that clients train together."),
            ("dec", "dec:DECMethod", "Deep embedded clustering of all samples together, or of every client alone."),
            (
                "kmeans",
                "centralized:KMeansMethod",
                "k-means of all samples together; a yardstick, for the data are moved.",
            ),
            (
                "fuzzy-cmeans",
                "centralized:FuzzyCMeansMethod",
                "Fuzzy c-means of all samples together; a yardstick, for the data are moved.",
            ),
        )
    },
    **{
        name: RegistryEntry(f"fedkin.methods.clients.{target}", summary, scenario)
        for name, target, summary, scenario in (
            (
                "embedding",
                "embedding.embedding:EmbeddingMethod",
                "Clusters clients before training, by a few private bits each; finds how many.",
                "rotation",
            ),
            ("ladd", "ladd:LADDMethod", "Clusters clients before training, by the style of their images.", "rotation"),
            (
                "fedavg",
                "fedavg:FedAvgMethod",
                "One model for all clients, with FedProx's term if wanted; no clusters.",
                "label-clusters",
            ),
            (
                "fedopt",
                "fedopt:FedOptMethod",
                "One model for all clients, with momentum, Adam, Yogi or Adagrad at the server.",
                "label-clusters",
            ),
            ("local", "fedavg:LocalMethod", "Every client alone; no federation at all.", "label-clusters"),
            (
                "ifca",
                "ifca:IFCAMethod",
                "Clients choose among K models by their loss, in every round.",
                "label-clusters",
            ),
            (
                "gradient-loss",
                "gradient_loss:GradientLossMethod",
                "Clients choose among K models by loss and gradient together.",
                "label-clusters",
            ),
            (
                "ocfl",
                "ocfl:OCFLMethod",
                "Clusters clients once, by their updates, when these begin to part; finds how many.",
                "label-clusters",
            ),
            (
                "sattler",
                "sattler:SattlerMethod",
                "Cuts clusters of clients in two, again and again, by their updates.",
                "label-clusters",
            ),
            (
                "hierarchical",
                "hierarchical:HierarchicalMethod",
                "Cuts a tree of the clients' updates once (Briggs).",
                "label-clusters",
            ),
        )
    },
}

SCENARIOS = {
    name: RegistryEntry(f"fedkin.data.scenarios.{target}", names.SCENARIOS[name])
    for name, target in {
        "label-skew": "label_skew:LabelSkew",
        "own-class": "own_class:OwnClass",
        "files": "label_skew:ClientFiles",
        "label-clusters": "label_clusters:LabelClusters",
        "missing-classes": "label_clusters:MissingClasses",
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

_TABLES: dict[Kind, dict[str, RegistryEntry]] = {"method": METHODS, "scenario": SCENARIOS}


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
    from fedkin.secure.sums import sums_suffice

    found = []
    for name in METHODS:
        made = resolve("method", name)
        needed = sums_suffice(made)
        if needed is not None:
            settings = [f"{key} = '{value}'" for key, value in needed.items() if getattr(made, key, None) != value]
            found.append(f"{name} with {' and '.join(settings)}" if settings else name)
    return found
