"""Scenarios of hidden clusters of clients that see different classes: those of OCFL and of gradient-loss clustering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.method import Count, Fraction
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import Labelled, PartitionScenario, SampleTransform, clients_or_default
from fedkin.data.scenarios.split import allocate, apportion

_DISJOINT = (range(4), range(4, 7), range(7, 10))
_OVERLAPPING = ((0, 1, 2, 3, 8, 9), range(4, 10), range(6))
_IMBALANCED = {15: [3, 7, 5], 30: [7, 14, 9]}
_DRAWINGS = ("disjoint", "replacement")

_MISSING = {
    "mnist": [[7, 9], [5, 8], [3, 8], [8, 9]],
    "fashion": [[5, 7], [3, 9], [5, 9], [7, 8]],
    "cifar": [[5, 8], [4, 6], [7, 9], [6, 8]],
}
_EMNIST_CLASSES, _EMNIST_CLUSTERS, _EMNIST_MISSING = 47, 8, 7


@dataclass(frozen=True)
class LabelClusters(PartitionScenario):
    """Three clusters of clients with classes of their own (OCFL, its authors' data library); needs ten classes.

    The clusters hold the classes 0-3, 4-6 and 7-9, or, overlapping, 0-3 with 8-9, 4-9 and 0-5. The data's test split is
    left to all clients in common.

    Attributes
    ----------
    test_fraction : float
        Fraction of every client's samples that is held out; here in any case.
    clients : int
        At least 3, ordered by cluster. Balanced clusters are of equal size. Imbalanced ones have 3, 7 and 5 of 15
        clients and 7, 14 and 9 of 30; other numbers are allocated in the proportions 3 : 7 : 5.
    overlap : bool
        Whether clusters have classes in common: they hold classes 0-3 with 8-9, 4-9, and 0-5.
    balanced : bool
        Whether classes are as frequent as in the data, or weighted by one draw per cluster from Dirichlet(1).
    drawing : {"disjoint", "replacement"}
        The authors' draw, by ``"replacement"``: every client draws its fraction of all samples, and keeps
        the distinct ones, so clients of a cluster have some in common. ``"disjoint"`` gives them the same expected
        mixture of classes and no sample to two clients, and fewer samples where there are not enough.
    """

    clients: Count = 15
    overlap: bool = False
    balanced: bool = True
    drawing: Literal["disjoint", "replacement"] = "disjoint"
    test_fraction: Fraction = 0.3

    def partition(self, data: Labelled, seed: int) -> Population:
        if self.drawing not in _DRAWINGS:
            raise unknown_name("value for drawing", self.drawing, _DRAWINGS)
        if len(data.classes) != 10:
            raise FedkinError(
                f"'{data.name}' has {len(data.classes)} classes, but the clusters of 'label-clusters' are made of "
                "exactly 10."
            )
        clusters = self.hidden_clusters()
        weights = self._weights(seed)
        if not (weights @ torch.bincount(data.y, minlength=10).double()).all():
            raise FedkinError(f"'{data.name}' has no sample of any class of one of the clusters of 'label-clusters'.")
        draw = _disjoint if self.drawing == "disjoint" else _with_replacement
        parts = draw(data.y, weights[clusters], seed)
        return self.populated(data, parts, seed, clusters=clusters)

    def hidden_clusters(self) -> Tensor:
        """Return the hidden cluster of each client, int64 ``(clients,)``; it does not depend on data.

        Raises FedkinError if there are fewer than 3 clients.
        """
        return torch.arange(3).repeat_interleave(torch.tensor(self._sizes()))

    def _sizes(self) -> list[int]:
        if self.clients < 3:
            raise FedkinError(f"clients is {self.clients}; allowed: 3 or more, one for each cluster.")
        if self.balanced:
            return apportion(self.clients, [1, 1, 1])
        return _IMBALANCED.get(self.clients) or apportion(self.clients, [3, 7, 5])

    def _weights(self, seed: int) -> Tensor:
        """Return the weight of a sample by cluster and class, float64 ``(3, 10)``."""
        weights = torch.zeros(3, 10, dtype=torch.float64)
        for cluster, classes in enumerate(_OVERLAPPING if self.overlap else _DISJOINT):
            draws = np.random.default_rng(draw_seed(derive_generator(seed, "weights", cluster)))
            own = np.ones(len(classes)) if self.balanced else draws.dirichlet(np.ones(len(classes)))
            weights[cluster, list(classes)] = torch.from_numpy(own)
        return weights


@dataclass(frozen=True)
class MissingClasses(PartitionScenario):
    """Clusters of clients that each lack a few classes (gradient-loss clustering, Fig. 2).

    Every class is split equally among the clusters that have it, and a cluster's samples at random and equally among
    its clients; the data's test split alike.

    Attributes
    ----------
    clients : int or None
        At least one per cluster, ordered by cluster. By default, with 10,000 training samples or more, 80, or 200 for
        47 classes; with fewer samples 20.
    missing : list of list of int or None
        Per cluster, the indices of the classes it lacks. By default, for ten classes, the four clusters of the
        paper: those for Fashion-MNIST or CIFAR-10 if the data have such a name, else those for MNIST. For 47 classes,
        as in EMNIST, eight clusters that lack seven each, drawn from the seed.
    reindex : bool
        Whether each cluster numbers its classes ``0, 1, ...`` anew, as the paper's eight outputs for ten classes imply.
    """

    clients: Count | None = None
    missing: list[list[int]] | None = None
    reindex: bool = False

    def partition(self, data: Labelled, seed: int) -> Population:
        missing = _missing_of_paper(data, seed) if self.missing is None else self.missing
        held = _held(missing, len(data.classes))
        paper = 200 if len(data.classes) == _EMNIST_CLASSES else 80
        clients = clients_or_default(self.clients, len(data), paper)
        if clients < len(held):
            raise FedkinError(f"clients is {clients}; allowed: {len(held)} or more, one for each cluster.")
        sizes = apportion(clients, [1] * len(held))
        tests = None
        if data.test is not None:
            tests = _equal_shares(data.test[1], held, sizes, derive_generator(seed, "test"))
        clusters = torch.arange(len(held)).repeat_interleave(torch.tensor(sizes))
        parts = _equal_shares(data.y, held, sizes, derive_generator(seed, "partition"))
        if not self.reindex:
            return self.populated(data, parts, seed, tests=tests, clusters=clusters)
        data = replace(data, classes=[str(i) for i in range(int(held.sum(1).max()))])
        renumbered = _renumbering(held[clusters])
        return self.populated(data, parts, seed, tests=tests, clusters=clusters, change=renumbered)


def _disjoint(y: Tensor, weights: Tensor, seed: int) -> list[Tensor]:
    """Partition samples by each client's mixture of classes in `weights`; clients get fewer where a class is short."""
    sizes = torch.bincount(y, minlength=weights.shape[1])
    mixture = weights * sizes
    wanted = len(y) // len(weights) * mixture / mixture.sum(1, keepdim=True)
    available = torch.where(wanted > 0, sizes / wanted.sum(0), torch.inf)
    scale = available.amin(1, keepdim=True).clamp(max=1)
    counts = (wanted * scale + 1e-9).floor().long()  # what rounding took from a whole number is given back
    return allocate(y, counts.T, derive_generator(seed, "partition"))


def _with_replacement(y: Tensor, weights: Tensor, seed: int) -> list[Tensor]:
    size, rngs = len(y) // len(weights), [derive_generator(seed, "partition", i) for i in range(len(weights))]
    return [
        torch.multinomial(own[y], size, replacement=True, generator=rng).unique()
        for own, rng in zip(weights, rngs, strict=True)
    ]


def _missing_of_paper(data: Labelled, seed: int) -> list[list[int]]:
    classes, name = len(data.classes), data.name.lower()
    if classes == _EMNIST_CLASSES:
        rng = derive_generator(seed, "missing")
        draws = [torch.randperm(classes, generator=rng)[:_EMNIST_MISSING] for _ in range(_EMNIST_CLUSTERS)]
        return [sorted(draw.tolist()) for draw in draws]
    if classes != 10:
        raise FedkinError(
            f"'{data.name}' has {classes} classes, but 'missing-classes' knows clusters for 10 and for 47; give others "
            "with 'scenario.missing'."
        )
    return next((table for key, table in _MISSING.items() if key != "mnist" and key in name), _MISSING["mnist"])


def _held(missing: Sequence[Sequence[int]], classes: int) -> Tensor:
    """Return which cluster has which class, bool ``(clusters, classes)``."""
    if not missing:
        raise FedkinError("missing names no cluster; give at least one list of classes, which may be empty.")
    held = torch.ones(len(missing), classes, dtype=torch.bool)
    for cluster, lacking in enumerate(missing):
        wrong = [c for c in lacking if not 0 <= c < classes]
        if wrong:
            raise FedkinError(f"missing names class {wrong[0]} for cluster {cluster}; allowed: 0 to {classes - 1}.")
        held[cluster, list(lacking)] = False
        if not held[cluster].any():
            raise FedkinError(f"missing names all {classes} classes for cluster {cluster}; it must keep at least one.")
    return held


def _equal_shares(y: Tensor, held: Tensor, sizes: Sequence[int], rng: torch.Generator) -> list[Tensor]:
    share = torch.bincount(y, minlength=held.shape[1]) // held.sum(0).clamp(min=1)
    pools = allocate(y, (held * share).T, rng)
    return [part for pool, size in zip(pools, sizes, strict=True) for part in pool.tensor_split(size)]


def _renumbering(held: Tensor) -> SampleTransform:
    """Return the transform that renumbers each client's classes, given in `held`, bool ``(clients, classes)``."""
    new = held.cumsum(1) - 1
    return lambda client, x, y: (x, new[client][y])
