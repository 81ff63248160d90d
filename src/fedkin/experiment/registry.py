"""Registry of the names of methods and scenarios; their modules are imported when first used.

Besides these names, ``package.module:Class`` stands for a user's own method or scenario.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal

from fedkin.core.errors import FedkinError, unknown_name

Kind = Literal["method", "scenario"]


@dataclass(frozen=True)
class RegistryEntry:
    """Entry of the registry: ``module:Class``, and a one-line summary."""

    target: str
    summary: str


def _entries(package: str, entries: Mapping[str, tuple[str, str]]) -> dict[str, RegistryEntry]:
    return {name: RegistryEntry(f"fedkin.{package}.{target}", summary) for name, (target, summary) in entries.items()}


_SAMPLES = {
    "kfed": ("kfed:KFedMethod", "k-means at every client, and again of the centroids; one round; fedkin's form."),
    "mufc": ("mufc:MUFCMethod", "Seeds of every client, clustered once; samples and clients can be forgotten."),
    "feddp-kmeans": ("feddp_kmeans:FedDPKMeansMethod", "Private k-means of noisy sums, from samples of the server."),
    "kmeans": ("centralized:KMeansMethod", "k-means of all samples; a centralised baseline, moves the data."),
    "kin-graph": ("kingraph.kingraph:KinGraphMethod", "A graph of micro-clusters, cut once; finds how many."),
    "fuzzy-cmeans": ("centralized:FuzzyCMeansMethod", "Fuzzy c-means of all samples; a centralised baseline."),
    "ffcm": ("ffcm:FFCMMethod", "Fuzzy c-means at every client from common centroids, in rounds; fedkin's form."),
    "afcl": ("afcl:AFCLMethod", "Seeds that clients' samples pull together; finds how many clusters."),
    "dec": ("dec:DECMethod", "Deep embedded clustering of all samples together; a centralised baseline."),
    "fedcref": (
        "fedcref.fedcref:FedCRefMethod",
        "Refines local clusters by autoencoders; finds how many; fedkin's form.",
    ),
    "uifca": ("uifca:UIFCAMethod", "Samples choose among K flows that clients train together; fedkin's form."),
    "scfc": ("ccfc.ccfc:SCFCMethod", "Trains a SimSiam network together, then k-means of latents; fedkin's form."),
    "sda-fc": ("sda_fc:SDAFCMethod", "Clusters synthetic samples of each client's generative network; fedkin's form."),
    "ppfc-gan": ("ppfc_gan:PPFCGANMethod", "Clusters latents of an autoencoder trained on synthetic samples."),
    "ccfc": ("ccfc.ccfc:CCFCMethod", "Trains a contrastive network by clusters of its own latents; fedkin's form."),
}
_CLIENTS = {
    "local": ("fedavg:LocalMethod", "Every client trains on its own; no federation at all."),
    "fedavg": ("fedavg:FedAvgMethod", "One model for all clients, with FedProx's term if wanted; no clusters."),
    "declared": ("fedavg:DeclaredMethod", "One model for each group that clients declare, such as a region."),
    "fedrep": ("fedrep:FedRepMethod", "One representation for all clients and a head for each; no clusters."),
    "ditto": ("ditto:DittoMethod", "A model for each client, held near a common one; no clusters."),
    "fedopt": ("fedopt:FedOptMethod", "One model for all clients, with momentum, Adam or others at the server."),
    "ocfl": ("ocfl:OCFLMethod", "Clusters clients once, when updates differ enough; finds how many; fedkin's form."),
    "hierarchical": ("hierarchical:HierarchicalMethod", "Cuts a tree of the clients' updates once (Briggs)."),
    "ladd": ("ladd:LADDMethod", "Clusters clients before training, by their images' style; fedkin's form."),
    "pacfl": ("pacfl:PACFLMethod", "Clusters clients before training, by angles between their data; fedkin's form."),
    "feddag": ("feddag:FedDAGMethod", "Clusters clients once, by data and updates; clusters learn from each other."),
    "embedding": (
        "embedding:EmbeddingMethod",
        "Clusters clients by a few private bits each, once; fedkin's form.",
    ),
    "flux": ("flux:FLUXMethod", "Clusters clients once, by moments of their data; finds how many; fedkin's form."),
    "cfl-gp": ("cfl_gp:CFLGPMethod", "Clusters clients by updates accumulated over rounds, spectrally."),
    "fedgroup": ("fedgroup:FedGroupMethod", "Clusters clients once by the directions of their first updates."),
    "fesem": ("fesem:FeSEMMethod", "Clusters clients by the distance of their models from K centres."),
    "sattler": (
        "sattler:SattlerMethod",
        "Cuts clusters in two, again and again, by clients' updates; fedkin's form.",
    ),
    "clove": ("clove:CLoVEMethod", "Clusters clients in every round by their losses under K models."),
    "feddrift": ("feddrift:FedDriftMethod", "Clusters clients again in every time step, as their data drift."),
    "fedrc": ("fedrc:FedRCMethod", "Clients belong to K clusters to a part; parts concept shift only."),
    "ifca": ("ifca:IFCAMethod", "Clients choose among K models by their loss, in every round; fedkin's form."),
    "gradient-loss": ("gradient_loss:GradientLossMethod", "Clients choose among K models by loss and gradient."),
}
METHODS = _entries("methods.samples", _SAMPLES) | _entries("methods.clients", _CLIENTS)
"""Methods that cluster samples, then those that cluster clients; comparisons try each in this order, cheapest first."""

DEFAULT_METHOD = "fedcref"
"""The method of an experiment that names none."""

_SCENARIOS = {
    "label-skew": ("scenarios:LabelSkew", "a labelled data set; each client holds only a few of its classes"),
    "own-class": (
        "scenarios:OwnClass",
        "one client per class, with samples of it mostly or only (CCFC, SDA-FC)",
    ),
    "label-clusters": ("scenarios:LabelClusters", "three clusters of clients, each with classes of its own (OCFL)"),
    "missing-classes": ("scenarios:MissingClasses", "clusters of clients that each lack a few classes (gradient-loss)"),
    "rotation": ("scenarios:Rotation", "clusters of clients whose images are turned by 0, 90, 180 or 270 degrees"),
    "label-flip": ("scenarios:LabelFlip", "clusters of clients that call the same classes by different labels"),
    "domain": ("scenarios:Domain", "clusters of clients from different domains, such as PACS's photos and sketches"),
    "drift-swap": ("scenarios:DriftSwap", "rotation; within a run some clients change their cluster"),
    "arrivals": ("scenarios:Arrivals", "rotation; some clients join within a run"),
    "dirichlet": ("scenarios:Dirichlet", "every class split in random proportions; no hidden clusters"),
    "iid": ("scenarios:Iid", "samples allocated at random; no hidden clusters"),
}
_FILES = {"files": ("inputs:ClientFiles", "a folder with one file per client, taken as they are")}
SCENARIOS = _entries("data", _FILES | _SCENARIOS)

_TABLES: dict[Kind, dict[str, RegistryEntry]] = {"method": METHODS, "scenario": SCENARIOS}


def target_of(kind: Kind, name: str) -> str:
    """Return the ``module:Class`` that `name` stands for; raise FedkinError, with the nearest name, if none has it."""
    if name in _TABLES[kind]:
        return _TABLES[kind][name].target
    module, colon, _ = name.rpartition(":")
    if colon and not module.endswith(".py") and "/" not in module:
        return name
    if colon or "." in name or "/" in name or "=" in name:
        raise FedkinError(
            f"'{name}' is no {kind}; name one first, such as kin-graph, or one of your own by its module, as "
            "'package.module:Class'."
        )
    raise unknown_name(kind, name, _TABLES[kind])


def resolve(kind: Kind, name: str) -> type[Any]:
    """Import the dataclass that `name` stands for, a registered name or ``package.module:Class``.

    Raises FedkinError if no `kind` has this name, or the path does not lead to a `kind`.
    """
    from fedkin.core import Method
    from fedkin.core.tasks import named_object, trusted_packages

    target = target_of(kind, name)
    with trusted_packages(None) if name in _TABLES[kind] else nullcontext():  # the table's own are not in question
        declared_class: type[Any] = named_object(target, kind.capitalize())
    is_class = isinstance(declared_class, type) and is_dataclass(declared_class)
    if not is_class or not (
        issubclass(declared_class, Method) if kind == "method" else hasattr(declared_class, "build")
    ):
        rule = "inherits fedkin.core.Method" if kind == "method" else "has `build(seed)`"
        raise FedkinError(f"'{name}' is not a {kind}; it should be a dataclass that {rule}.")
    if abstract := sorted(getattr(declared_class, "__abstractmethods__", ())):
        raise FedkinError(f"'{name}' lacks {' and '.join(abstract)}, which its base class leaves to it.")
    return declared_class


def summary_of(kind: Kind, name: str) -> str:
    """Return a one-line summary of a method or scenario; for ``package.module:Class`` its docstring's first line."""
    if name in _TABLES[kind]:
        return _TABLES[kind][name].summary
    return (resolve(kind, name).__doc__ or "").strip().partition("\n")[0]


def file_name(name: str) -> str:
    """Return `name` with the colon replaced, for use in a file name."""
    return name.replace(":", ".")
