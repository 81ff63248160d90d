"""Scenarios of hidden clusters: samples are turned, relabelled, of another domain or class; and clients drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.method import Count, Fraction, Positive
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.data.population import Drift, Population
from fedkin.data.scenarios.partitions import (
    Labelled,
    PartitionScenario,
    SampleTransform,
    allocate,
    apportion,
    dirichlet_split,
    labels_of,
)
from fedkin.data.sources import load

_DOMAINS = ("photo", "art_painting", "cartoon", "sketch")


@dataclass(frozen=True)
class InTurns(PartitionScenario):
    """Base of scenarios in which client i is in cluster i mod the number of clusters (Prigent et al.).

    Sizes and class proportions come from `fedkin.data.scenarios.partitions.dirichlet_split`, capped, of the
    training and the test split independently, as in the authors' code.

    Attributes
    ----------
    clients : int or None
        Number of clients, at least one per cluster. By default 100 with 10,000 training samples or more, else 20.
        Each has at least ten training samples, and at least ten tests, or half of the average if that is less.
    alpha : float
        Concentration of the Dirichlet distribution, above 0.
    """

    clients: Count | None = None
    alpha: Positive = 10.0

    def amounts(self, data: Labelled) -> list[int]:
        """Return by how many quarter turns, or by which shift of labels, each cluster sees samples."""
        raise NotImplementedError

    def change(self, data: Labelled, amounts: Sequence[int]) -> SampleTransform:
        """Return what changes each client's samples by its amount; two, one after another, change by their sum."""
        raise NotImplementedError

    def partition(self, data: Labelled, seed: int) -> Population:
        amounts = self.amounts(data)
        n, count, tests = _clients_of(self.clients, data, 100, len(amounts)), len(amounts), None
        if data.test is not None:
            y = data.test[1]
            # A thousand clients have ten tests each of MNIST on average, so half of the average must do.
            least = max(1, min(10, len(y) // (2 * n)))
            tests = dirichlet_split(y, n, self.alpha, derive_generator(seed, "test"), least=least, capped=True)
        parts = dirichlet_split(data.y, n, self.alpha, derive_generator(seed, "partition"), capped=True)
        change = self.change(data, [amounts[i % count] for i in range(n)])
        return self.populated(data, parts, seed, tests=tests, clusters=torch.arange(n) % count, change=change)


def _clients_of(clients: int | None, data: Labelled, paper: int, clusters: int) -> int:
    """Return how many clients there are, by default the paper's; 20 for data of fewer than 10,000 samples."""
    count = (paper if len(data) >= 10_000 else 20) if clients is None else clients
    if count < clusters:
        raise FedkinError(f"clients is {count}; allowed: {clusters} or more, one for each cluster.")
    return count


@dataclass(frozen=True)
class Rotation(InTurns):
    """Clusters whose images are rotated by different angles (Prigent et al.); data must be square images.

    Attributes
    ----------
    angles : list of int
        Per cluster, degrees counter-clockwise, multiples of 90.
    """

    angles: list[int] = field(default_factory=lambda: [0, 90, 180, 270])

    def amounts(self, data: Labelled) -> list[int]:
        if data.x.ndim != 4 or data.x.shape[2] != data.x.shape[3]:
            raise FedkinError(f"'{data.name}' holds no square images, which the scenario 'rotation' turns.")
        if not self.angles or any(angle % 90 for angle in self.angles):
            raise FedkinError(f"angles is {self.angles}; allowed: one or more multiples of 90.")
        return [angle // 90 % 4 for angle in self.angles]

    def change(self, data: Labelled, amounts: Sequence[int]) -> SampleTransform:
        return lambda client, x, y: (torch.rot90(x, amounts[client], (2, 3)).contiguous(), y)


@dataclass(frozen=True)
class LabelFlip(InTurns):
    """Clusters that number the same classes differently: in cluster s, class c is called c - s (Prigent et al.).

    Attributes
    ----------
    n_clusters : int
        At most the number of classes, beyond which labels would repeat.
    """

    n_clusters: Count = 4

    def amounts(self, data: Labelled) -> list[int]:
        if self.n_clusters > (count := len(data.classes)):
            raise FedkinError(f"n_clusters is {self.n_clusters}; allowed: 1 to {count}, the classes of '{data.name}'.")
        return [*range(self.n_clusters)]

    def change(self, data: Labelled, amounts: Sequence[int]) -> SampleTransform:
        return lambda client, x, y: (x, (y - amounts[client]) % len(data.classes))


@dataclass(frozen=True)
class Domain(PartitionScenario):
    """Clusters whose samples are from different domains, such as the photos and sketches of PACS (Prigent et al.).

    Attributes
    ----------
    column : str
        The data's column or array that names each sample's domain.
    clients_per_domain : int
        Clients are ordered by domain: photo, art_painting, cartoon, sketch, then others by name.
    alpha : float
        Concentration of the Dirichlet distribution by which a domain is allocated to its clients, capped, above 0.
    """

    data: str = "pacs"
    column: str = "domain"
    clients_per_domain: Count = 10
    alpha: Positive = 10.0

    def build(self, seed: int) -> Population:
        data = load(self.data, self.label, cluster=self.column, options=self.table)
        y = labels_of(data)
        return self.partition(Labelled(data.name, data.x, y, data.classes, data.table, data.clusters), seed)

    def partition(self, data: Labelled, seed: int) -> Population:
        assert data.clusters is not None
        of_sample, names = data.clusters
        parts: list[Tensor] = []
        for name in sorted(names, key=lambda name: (name not in _DOMAINS, [*_DOMAINS, name].index(name), name)):
            rows = (of_sample == names.index(name)).nonzero()[:, 0]
            rng = derive_generator(seed, "partition", name)
            shares = dirichlet_split(data.y[rows], self.clients_per_domain, self.alpha, rng, capped=True)
            parts += [rows[share] for share in shares]
        clusters = torch.arange(len(names)).repeat_interleave(self.clients_per_domain)
        return self.populated(data, parts, seed, clusters=clusters)


# Clients that see different classes: the scenarios of OCFL and of gradient-loss clustering.


@dataclass(frozen=True)
class LabelClusters(PartitionScenario):
    """Three clusters of clients with classes of their own (OCFL, its authors' data library); needs ten classes.

    The clusters hold the classes 0-3, 4-6 and 7-9, or, overlapping, 0-3 with 8-9, 4-9 and 0-5. The data's test split is
    left to all clients.

    Attributes
    ----------
    clients : int
        At least 3, ordered by cluster. Balanced clusters are of equal size. Imbalanced ones have 3, 7 and 5 of 15
        clients and 7, 14 and 9 of 30; other numbers are allocated in the proportions 3 : 7 : 5.
    overlap : bool
        Whether clusters have classes in common.
    balanced : bool
        Whether classes are as frequent as in the data, or weighted by one draw per cluster from Dirichlet(1).
    drawing : {"disjoint", "replacement"}
        The authors' draw, by ``"replacement"``: every client draws its fraction of all samples, and keeps
        the distinct ones, so clients of a cluster have some in common. ``"disjoint"`` gives them the same expected
        mixture of classes and no sample to two clients, and fewer samples where there are not enough.
    test_fraction : float
        Fraction of every client's samples that is held out; here in any case.
    """

    clients: Count = 15
    overlap: bool = False
    balanced: bool = True
    drawing: Literal["disjoint", "replacement"] = "disjoint"
    test_fraction: Fraction = 0.3

    def partition(self, data: Labelled, seed: int) -> Population:
        if self.clients < 3:
            raise FedkinError(f"clients is {self.clients}; allowed: 3 or more, one for each cluster.")
        if len(data.classes) != 10:
            raise FedkinError(f"'{data.name}' has {len(data.classes)} classes, but 'label-clusters' needs exactly 10.")
        sizes = apportion(self.clients, [1, 1, 1] if self.balanced else [3, 7, 5])
        if not self.balanced and self.clients == 30:
            sizes = [7, 14, 9]  # as printed, where proportions would give 6, 14 and 10
        classes_of: list[Sequence[int]] = [range(4), range(4, 7), range(7, 10)]
        if self.overlap:
            classes_of = [[0, 1, 2, 3, 8, 9], range(4, 10), range(6)]
        weights = torch.zeros(3, 10, dtype=torch.float64)
        for cluster, classes in enumerate(classes_of):
            draws = np.random.default_rng(draw_seed(derive_generator(seed, "weights", cluster)))
            shares = np.ones(len(classes)) if self.balanced else draws.dirichlet(np.ones(len(classes)))
            weights[cluster, list(classes)] = torch.from_numpy(shares)
        if not (weights @ torch.bincount(data.y, minlength=10).double()).all():
            raise FedkinError(f"'{data.name}' has no sample of any class of one of the clusters of 'label-clusters'.")
        clusters = torch.arange(3).repeat_interleave(torch.tensor(sizes))
        draw = _disjoint if self.drawing == "disjoint" else _with_replacement
        return self.populated(data, draw(data.y, weights[clusters], seed), seed, clusters=clusters)


def _disjoint(y: Tensor, weights: Tensor, seed: int) -> list[Tensor]:
    """Partition samples by each client's mixture of classes in `weights`; clients get fewer where a class is short."""
    sizes = torch.bincount(y, minlength=weights.shape[1])
    mixture = weights * sizes
    targets = len(y) // len(weights) * mixture / mixture.sum(1, keepdim=True)
    available = torch.where(targets > 0, sizes / targets.sum(0), torch.inf)
    counts = (targets * available.amin(1, keepdim=True).clamp(max=1) + 1e-9).floor()  # against rounding
    return allocate(y, counts.long().T, derive_generator(seed, "partition"))


def _with_replacement(y: Tensor, weights: Tensor, seed: int) -> list[Tensor]:
    size, rngs = len(y) // len(weights), [derive_generator(seed, "partition", i) for i in range(len(weights))]
    return [
        torch.multinomial(shares[y], size, replacement=True, generator=rng).unique()
        for shares, rng in zip(weights, rngs, strict=True)
    ]


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
        count, missing = len(data.classes), self.missing or _missing_of_paper(data, seed)
        if any(not set(lacking) < set(range(count)) for lacking in missing):
            raise FedkinError(
                f"missing is {missing}; allowed: for each cluster some classes of 0 to {count - 1}, not of all."
            )
        held = torch.ones(len(missing), count, dtype=torch.bool)
        for cluster, lacking in enumerate(missing):
            held[cluster, list(lacking)] = False
        sizes = apportion(_clients_of(self.clients, data, 200 if count == 47 else 80, len(held)), [1] * len(held))

        def shares(y: Tensor, purpose: str) -> list[Tensor]:
            share = torch.bincount(y, minlength=count) // held.sum(0).clamp(min=1)
            pools = allocate(y, (held * share).T, derive_generator(seed, purpose))
            return [part for pool, size in zip(pools, sizes, strict=True) for part in pool.tensor_split(size)]

        tests = None if data.test is None else shares(data.test[1], "test")
        parts, change = shares(data.y, "partition"), None
        clusters = torch.arange(len(held)).repeat_interleave(torch.tensor(sizes))
        if self.reindex:
            data = replace(data, classes=[str(i) for i in range(int(held.sum(1).max()))])
            new = (held.cumsum(1) - 1)[clusters]

            def change(client: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
                return x, new[client][y]

        return self.populated(data, parts, seed, tests=tests, clusters=clusters, change=change)


def _missing_of_paper(data: Labelled, seed: int) -> list[list[int]]:
    classes, name = len(data.classes), data.name.lower()
    if classes == 47:  # EMNIST
        rng = derive_generator(seed, "missing")
        return [sorted(torch.randperm(classes, generator=rng)[:7].tolist()) for _ in range(8)]
    if classes != 10:
        raise FedkinError(f"'{data.name}' has {classes} classes and not 10 or 47; give 'simulation.missing'.")
    if "fashion" in name:
        return [[5, 7], [3, 9], [5, 9], [7, 8]]
    return [[5, 8], [4, 6], [7, 9], [6, 8]] if "cifar" in name else [[7, 9], [5, 8], [3, 8], [8, 9]]


# Clients that move to another cluster, or join late.


@dataclass(frozen=True)
class _Changing(InTurns):
    """Base of scenarios with hidden clusters that change at one step.

    Attributes
    ----------
    kind : {"rotation", "label-flip"}
        Scenario whose four clusters are used.
    step : int
        The first step that sees the change; steps count from 1.
    changed_fraction : float
        Fraction of the clients that change, in [0, 1].
    """

    kind: Literal["rotation", "label-flip"] = "rotation"
    step: Count = 20
    changed_fraction: Fraction = 0.3

    def amounts(self, data: Labelled) -> list[int]:
        return (Rotation() if self.kind == "rotation" else LabelFlip()).amounts(data)

    def change(self, data: Labelled, amounts: Sequence[int]) -> SampleTransform:
        return (Rotation() if self.kind == "rotation" else LabelFlip()).change(data, amounts)


@dataclass(frozen=True)
class DriftSwap(_Changing):
    """Concept drift: a fraction of every cluster moves to the next one during a run, training and test data alike.

    From the last cluster clients move to the first. Where `changed_fraction` is above 0, at least one client of every
    cluster moves and one stays; a cluster of one client does not change.
    """

    def partition(self, data: Labelled, seed: int) -> Population:
        population, amounts = super().partition(data, seed), self.amounts(data)
        n, count = len(population.clients), len(amounts)
        before, moving = torch.arange(n) % count, []
        for members in (torch.arange(cluster, n, count) for cluster in range(count)):
            drawn = torch.randperm(len(members), generator=derive_generator(seed, "drift", int(members[0])))
            most = min(len(members) - 1, max(1, round(self.changed_fraction * len(members))))
            moving.append(members[drawn[: most if self.changed_fraction > 0 else 0]])
        moved = torch.cat(moving).sort().values
        if self.changed_fraction > 0 and len(moved) == 0:
            raise FedkinError(f"clients is {n}; allowed: {count + 1} or more, so that some of a cluster can drift.")
        # Samples are those of the old cluster when the step comes, so that the change is the difference of two.
        after = before.clone()
        after[moved] = (before[moved] + 1) % count
        change = self.change(data, [amounts[new] - amounts[old] for new, old in zip(after, before, strict=True)])
        early = [y for client in population.clients if (y := client.y) is not None]
        _check_classes(population, early, {i: change(i, *population.samples(i))[1] for i in moved.tolist()})
        return replace(population, drift=Drift(self.step, moved, change, after))


@dataclass(frozen=True)
class Arrivals(_Changing):
    """Late arrivals: the last clients, in order of id, join in the middle of a run.

    Where `changed_fraction` is above 0, at least one client of every cluster joins then, and one takes part from the
    start.
    """

    def partition(self, data: Labelled, seed: int) -> Population:
        population, count = super().partition(data, seed), len(self.amounts(data))
        if self.changed_fraction == 0:
            return population
        n = len(population.clients)
        if n < 2 * count:
            raise FedkinError(f"clients is {n}; allowed: {2 * count} or more, so that some of each cluster join later.")
        # The last are of all clusters in turns, so that as many as there are clusters are one of each.
        late = min(n - count, max(count, round(self.changed_fraction * n)))
        arrivals = torch.zeros(n, dtype=torch.int64)
        arrivals[n - late :] = self.step
        labels = [population.samples(i)[1] for i in range(n)]
        _check_classes(population, labels[: n - late], dict(enumerate(labels[n - late :], n - late)))
        return replace(population, arrivals=arrivals)


def _check_classes(population: Population, early: Sequence[Tensor], later: Mapping[int, Tensor]) -> None:
    """Check that clients that drift or join have no new classes, for which models would lack outputs."""
    highest = max(int(y.max()) for y in early)
    for client, y in later.items():
        if int(y.max()) > highest:
            raise FedkinError(f"Client {client} later has class '{population.classes[int(y.max())]}', new to all.")
