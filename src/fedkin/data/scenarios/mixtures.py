"""Scenarios without hidden clusters of clients: clients differ in their mixture of classes, or by chance alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from annotated_types import Interval
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.method import Count, Fraction
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import (
    DataSetScenario,
    Labelled,
    PartitionScenario,
    allocate_in_proportion,
    apportion,
    client_of,
    dirichlet_split,
    labels_of,
    load_labelled,
    unlabelled,
)
from fedkin.data.sources import load


@dataclass(frozen=True)
class Dirichlet(PartitionScenario):
    """Dirichlet partition: each class is allocated in proportions drawn from a Dirichlet distribution.

    A test split of the data is partitioned in the proportions of each client's training samples; drawn anew, they would
    test a client on other classes than it trains on.

    Attributes
    ----------
    clients : int
        Number of clients, ``num_partitions`` of flwr-datasets.
    alpha : float or list of float
        Concentration, above 0, for all clients or for each.
    min_partition_size : int
        Samples that every client has at least, before anything is held out.
    """

    clients: Count = 10
    alpha: float | list[float] = 0.5
    min_partition_size: int = 10

    def partition(self, data: Labelled, seed: int) -> Population:
        rng, tests = derive_generator(seed, "partition"), None
        parts = dirichlet_split(data.y, self.clients, self.alpha, rng, least=self.min_partition_size)
        if data.test is not None:
            held = [data.y[part] for part in parts]
            tests = allocate_in_proportion(data.test[1], held, derive_generator(seed, "test"))
        return self.populated(data, parts, seed, tests=tests)


@dataclass(frozen=True)
class Iid(PartitionScenario):
    """I.i.d. partition: samples at random, the same number for every client up to one; they need no labels.

    A test split of the data is partitioned at random, too, and needs a sample for every client.

    Attributes
    ----------
    clients : int
        Number of clients, ``num_partitions`` of flwr-datasets.
    """

    clients: Count = 10

    def build(self, seed: int = 0) -> Population:
        data = load(self.data, self.label, options=self.table)
        if data.y is not None:
            return super().build(seed)
        parts = self._parts(len(data), seed, "partition")  # there is nothing to test against either
        clients = [client_of(i, data, part[: self.samples_per_client]) for i, part in enumerate(parts)]
        return Population(clients, None, [], data.features)

    def partition(self, data: Labelled, seed: int) -> Population:
        parts = self._parts(len(data), seed, "partition")
        tests = None if data.test is None else self._parts(len(data.test[1]), seed, "test")
        return self.populated(data, parts, seed, tests=tests)

    def _parts(self, samples: int, seed: int, purpose: str) -> list[Tensor]:
        if self.clients > samples:
            raise FedkinError(f"clients is {self.clients}; allowed: 1 to {samples}, the number of samples.")
        return list(torch.randperm(samples, generator=derive_generator(seed, purpose)).tensor_split(self.clients))


@dataclass(frozen=True)
class OwnClass(DataSetScenario):
    """One unlabelled client per class, a fraction of whose samples is of that class (CCFC, section 4.1).

    The paper draws a client's other samples from the entire data; here as in the authors' code they are what the
    others leave, so that every sample is at exactly one client. A class too small for its client's fraction goes to it
    whole. The splits for training and test are taken together.

    Attributes
    ----------
    heterogeneity : float
        The paper's p: from 0, all samples allocated at random, to 1, each client a class.
    fraction : float
        Fraction of the data that is used, chosen at random; in (0, 1].
    """

    heterogeneity: Fraction = 0.5
    fraction: Annotated[float, Interval(gt=0, le=1)] = 1.0

    def build(self, seed: int) -> Population:
        """Build the clients, without labels, and the truth; see `DataSetScenario.build`."""
        data = load_labelled(self.data, self.label, self.table)
        if data.test is not None:
            x, y = torch.cat([data.x, data.test[0]]), torch.cat([data.y, data.test[1]])
            data = replace(data, x=x, y=y, test=None)
        if self.fraction < 1.0:
            order = torch.randperm(len(data), generator=derive_generator(seed, "fraction"))
            data = data.rows(order[: round(self.fraction * len(data))].sort().values)
        parts = own_class(data.y, len(data.classes), self.heterogeneity, derive_generator(seed, "partition"))
        if not all(map(len, parts)):
            raise FedkinError(
                f"'{self.data}' leaves one of {len(parts)} clients, one per class, without a sample; a larger "
                f"simulation.fraction than {self.fraction:g} is needed."
            )
        return unlabelled(data, parts)


def own_class(y: Tensor, clients: int, heterogeneity: float, rng: torch.Generator) -> list[Tensor]:
    """Partition samples so that a fraction `heterogeneity`, in [0, 1], of client c's samples is of class c.

    `y` is int64 ``(n,)``, classes in ``0..clients-1``. Every row is in exactly one of the clients' rows, int64. Below a
    heterogeneity of 1 all have ``n / clients`` samples, or one more: the first of the client's class in the order of
    `y`, then others at random.
    """
    members = [(y == label).nonzero()[:, 0] for label in range(clients)]
    if heterogeneity == 1.0:
        return members
    sizes = apportion(len(y), [1] * clients)
    first = [rows[: round(heterogeneity * size)] for rows, size in zip(members, sizes, strict=True)]
    free = torch.ones(len(y), dtype=torch.bool)
    free[torch.cat(first)] = False
    rest = free.nonzero()[:, 0]
    rest = rest[torch.randperm(len(rest), generator=rng)]
    rests = rest.split([size - len(rows) for rows, size in zip(first, sizes, strict=True)])
    return [torch.cat(pair) for pair in zip(first, rests, strict=True)]


@dataclass(frozen=True)
class LabelSkew(DataSetScenario):
    """Label skew: each unlabelled client has samples of a few classes of one data set (FedCRef, section 5.2).

    Attributes
    ----------
    n_classes : int or None
        Keep only so many classes, the most frequent ones.
    clients : int
        Number of clients, at least 1.
    min_classes, max_classes : int or None
        Range of the number of classes per client; by default 2 to half of all.
    samples_per_class : int or None
        Samples of each class a client holds; by default as many as the data allow, at most 500.
    overlap : float
        Fraction of a client's samples of a class that all its holders have, in [0, 1].
    initial : {"method", "true", "dirty"}
        Starting labels of each client's samples: whatever the method makes of them; the true classes; or those with a
        fraction of `dirtiness` moved at random to the client's other clusters.
    dirtiness : float
        In [0, 1].
    """

    n_classes: Count | None = None
    clients: Count = 10
    min_classes: Count | None = None
    max_classes: Count | None = None
    samples_per_class: Count | None = None
    overlap: Fraction = 0.0
    initial: Literal["method", "true", "dirty"] = "method"
    dirtiness: Fraction = 0.3

    def build(self, seed: int) -> Population:
        """Build the clients; their state holds ``n_clusters`` and, with simulated starting labels, those as ``given``.

        Both are int64: ``n_clusters`` a scalar, the number of classes at the client; ``given`` of shape ``(n,)``, in
        ``0..n_clusters-1`` by order of class. The partition depends on `seed` and not on `initial` or `dirtiness`.
        """
        data = load(self.data, self.label, options=self.table)
        y = labels_of(data)
        if self.n_classes is not None:
            if self.n_classes > (most := len(y.unique())):
                raise FedkinError(f"n_classes is {self.n_classes}; allowed: 1 to {most}, the classes of '{data.name}'.")
            frequent = torch.bincount(y).argsort(descending=True, stable=True)[: self.n_classes].sort().values
            chosen = torch.isin(y, frequent)
            y = torch.searchsorted(frequent, y[chosen])
            data = replace(data.rows(chosen), y=y, classes=[data.classes[i] for i in frequent.tolist()])
        sizes = torch.unique(y, return_counts=True)[1]
        most = self.max_classes or max(min(len(sizes), max(2, len(sizes) // 2)), self.min_classes or 0)
        fewest = self.min_classes or min(2, most)
        if not fewest <= most <= len(sizes):
            raise FedkinError(
                f"Classes per client are {fewest} to {most}; allowed: 1 <= minimum <= maximum <= {len(sizes)}."
            )
        # As many that the smallest class is about used up, in tens where they are ten or more.
        fitting = int(sizes.min()) / max(1.0, self.clients * (fewest + most) / 2 / len(sizes))
        fitting = min(500, int(round(fitting, -1) if fitting >= 10 else max(1, fitting)), int(sizes.min()))
        rng, each = derive_generator(seed, "partition"), self.samples_per_class or fitting
        parts = label_skew(y, self.clients, (fewest, most), each, rng, self.overlap)
        population = unlabelled(data, parts)
        for client in population.clients:
            classes, labels = torch.unique(y[parts[client.id]], return_inverse=True)
            client.state = {"n_clusters": torch.tensor(len(classes))}
            if self.initial == "dirty" and len(classes) > 1:
                rng = derive_generator(seed, "dirty", client.id)
                moves = torch.rand(labels.shape, generator=rng) < self.dirtiness
                distance = torch.randint(1, len(classes), labels.shape, generator=rng)
                labels = torch.where(moves, (labels + distance) % len(classes), labels)
            if self.initial != "method":
                client.state["given"] = labels
        return population


def label_skew(
    y: Tensor, n_clients: int, classes_per_client: tuple[int, int], samples_per_class: int, rng: torch.Generator,
    overlap: float = 0.0,
) -> list[Tensor]:  # fmt: skip
    """Partition samples so that each client has a few classes with the same number of samples (FedCRef, section 5.2).

    Client after client, the number of classes K is drawn uniformly from `classes_per_client`, the minimum and the
    maximum, then K distinct classes. The set of classes must be one that no earlier client has, until all sets of that
    size are taken. Samples of a class are allocated without replacement. When too few are left for a client, that class
    (and no other) is allocated anew, the remaining samples first; so two clients may share a sample, but no client ever
    holds one twice.

    With an `overlap` of p, in [0, 1], each of the n holders of a class gives its first ``p q / (n + p - n p)`` of q
    samples to a common pot and then holds its remaining ones and the whole pot, so that the pot is a share p of what it
    holds.

    `y` is int64 ``(n,)``, the class of each sample; what is returned are each client's indices into it, int64,
    shuffled. Raises FedkinError if a class has too few samples.
    """
    members = {int(c): (y == c).nonzero()[:, 0] for c in y.unique()}
    if samples_per_class > (smallest := min(map(len, members.values()))):
        raise FedkinError(
            f"samples_per_class is {samples_per_class}, but the smallest class has only {smallest} samples."
        )
    remaining = {c: members[c][:0] for c in members}
    taken: dict[int, set[tuple[int, ...]]] = {}
    holdings = []
    for _ in range(n_clients):
        size = int(torch.randint(classes_per_client[0], classes_per_client[1] + 1, (), generator=rng))
        held = {}
        for c in _new_set(sorted(members), size, taken.setdefault(size, set()), rng):
            if len(remaining[c]) < samples_per_class:
                used = members[c][~torch.isin(members[c], remaining[c])]
                remaining[c] = torch.cat([remaining[c], used[torch.randperm(len(used), generator=rng)]])
            held[c], remaining[c] = remaining[c][:samples_per_class], remaining[c][samples_per_class:]
        holdings.append(held)
    for c in members if overlap > 0 else ():
        holders = [held for held in holdings if c in held]
        in_pot = round(overlap * samples_per_class / (len(holders) + overlap - len(holders) * overlap))
        pot = torch.cat([held[c][:in_pot] for held in holders] or [members[c][:0]])
        for held in holders:
            held[c] = torch.unique(torch.cat([held[c][in_pot:], pot]))
    parts = [torch.cat(list(held.values())) for held in holdings]
    return [part[torch.randperm(len(part), generator=rng)] for part in parts]


def _new_set(classes: list[int], size: int, taken: set[tuple[int, ...]], rng: torch.Generator) -> tuple[int, ...]:
    if len(taken) == math.comb(len(classes), size):
        taken.clear()
    while True:
        order = torch.randperm(len(classes), generator=rng)[:size].tolist()
        drawn = tuple(sorted(classes[position] for position in order))
        if drawn not in taken:
            taken.add(drawn)
            return drawn
