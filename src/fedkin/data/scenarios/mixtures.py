"""Scenarios without hidden clusters of clients: clients differ in their mixture of classes, or by chance alone.

Parameters of Dirichlet, shards and i.i.d. partitions are called as in flwr-datasets, except that ``num_partitions`` is
`clients`, as everywhere in fedkin, and ``partition_by`` is `label`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Interval
from torch import Tensor

from fedkin.core.errors import FedkinError, option, unknown_name
from fedkin.core.method import Count, Fraction
from fedkin.core.seeds import derive_generator
from fedkin.data.dataset import Dataset
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import (
    DataSetScenario,
    Labelled,
    PartitionScenario,
    check_fraction,
    client_of,
    load_labelled,
)
from fedkin.data.scenarios.split import allocate_in_proportion, apportion, dirichlet_split, iid_split, shard_split
from fedkin.data.sources import load


@dataclass(frozen=True)
class Dirichlet(PartitionScenario):
    """Dirichlet partition: each class is allocated in proportions drawn from a Dirichlet distribution.

    See `fedkin.data.scenarios.split.dirichlet_split`. A test split of the data is partitioned in the proportions of
    each client's training samples.

    Attributes
    ----------
    clients : int
        Number of clients, ``num_partitions`` of flwr-datasets.
    alpha : float or list of float
        Concentration, above 0, for all clients or for each.
    min_partition_size : int
        Samples that every client has at least, before anything is held out.
    self_balancing : bool
        Clients with more samples than the average get none of the classes that follow.
    """

    clients: Count = 10
    alpha: float | list[float] = 0.5
    min_partition_size: int = 10
    self_balancing: bool = False

    def partition(self, data: Labelled, seed: int) -> Population:
        parts = dirichlet_split(
            data.y,
            self.clients,
            self.alpha,
            derive_generator(seed, "partition"),
            min_partition_size=self.min_partition_size,
            self_balancing=self.self_balancing,
        )
        return _with_tests_alike(self, data, parts, seed)


@dataclass(frozen=True)
class Shards(PartitionScenario):
    """Partition into shards: blocks of the samples sorted by class, which are allocated at random.

    See `fedkin.data.scenarios.split.shard_split`. A test split of the data is partitioned in the proportions of each
    client's training samples.

    Attributes
    ----------
    clients : int
        Number of clients, ``num_partitions`` of flwr-datasets.
    num_shards_per_partition : int or None
        Shards of each client.
    shard_size : int or None
        Samples of each shard; by default as many as there are.
    keep_incomplete_shard : bool
        Whether what is left over makes a smaller shard.
    """

    clients: Count = 10
    num_shards_per_partition: Count | None = 2
    shard_size: Count | None = None
    keep_incomplete_shard: bool = False

    def partition(self, data: Labelled, seed: int) -> Population:
        parts = shard_split(
            data.y,
            self.clients,
            derive_generator(seed, "partition"),
            num_shards_per_partition=self.num_shards_per_partition,
            shard_size=self.shard_size,
            keep_incomplete_shard=self.keep_incomplete_shard,
        )
        return _with_tests_alike(self, data, parts, seed)


@dataclass(frozen=True)
class Iid(PartitionScenario):
    """I.i.d. partition: samples at random, the same number for every client up to one; they need no labels.

    See `fedkin.data.scenarios.split.iid_split`. A test split of the data is partitioned at random, too, and needs a
    sample for every client.

    Attributes
    ----------
    clients : int
        Number of clients, ``num_partitions`` of flwr-datasets.
    """

    clients: Count = 10

    def build(self, seed: int = 0) -> Population:
        data = load(self.data, self.label, options=self.table)
        if data.y is None:  # there is nothing to test against either
            parts = iid_split(len(data), self.clients, derive_generator(seed, "partition"))
            clients = [client_of(i, data, part[: self.samples_per_client]) for i, part in enumerate(parts)]
            return Population(clients, None, [], data.features)
        return super().build(seed)

    def partition(self, data: Labelled, seed: int) -> Population:
        parts = iid_split(len(data), self.clients, derive_generator(seed, "partition"))
        tests = None
        if data.test is not None:
            tests = iid_split(len(data.test[1]), self.clients, derive_generator(seed, "test"))
        return self.populated(data, parts, seed, tests=tests)


def _with_tests_alike(scenario: PartitionScenario, data: Labelled, parts: list[Tensor], seed: int) -> Population:
    """Populate clients with tests in the class proportions of their training samples.

    Drawing proportions anew for the test split would test a client on other classes than it trains on.
    """
    tests = None
    if data.test is not None:
        tests = allocate_in_proportion(data.test[1], [data.y[part] for part in parts], derive_generator(seed, "test"))
    return scenario.populated(data, parts, seed, tests=tests)


# One client for every class, as of CCFC and SDA-FC.


@dataclass(frozen=True)
class OwnClass(DataSetScenario):
    """One unlabelled client per class, a fraction of whose samples is of that class (CCFC, section 4.1).

    The paper draws a client's other samples from the entire data; here as in the authors' code they are what the
    others leave, so that every sample is at exactly one client. With a `heterogeneity` of 1 client c holds all of class
    c and nothing else. A class too small for its client's fraction goes to it whole. The splits for training
    and test are taken together.

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
        data = self._pooled(seed)
        y = data.y
        classes = len(data.classes)
        if len(y) < classes:
            raise FedkinError(
                f"'{self.data}' has {len(y)} samples for {classes} clients, one per class; simulation.fraction is "
                f"{self.fraction:g}, and a larger one is needed."
            )
        parts = own_class(y, classes, self.heterogeneity, derive_generator(seed, "partition"))
        for held, name in zip(parts, data.classes, strict=True):
            if not len(held):
                raise FedkinError(f"With simulation.fraction = {self.fraction:g} no sample of class '{name}' is left.")
        clients = [client_of(i, data, part) for i, part in enumerate(parts)]
        return Population(clients, [y[part] for part in parts], data.classes, data.features)

    def _pooled(self, seed: int) -> Labelled:
        """Return training and test samples together, or the fraction of them that takes part."""
        data = load_labelled(self.data, self.label, self.table)
        x, y = data.x, data.y
        if data.test is not None:
            x, y = torch.cat([x, data.test[0]]), torch.cat([y, data.test[1]])
        if self.fraction < 1.0:
            count = round(self.fraction * len(y))
            rows = torch.randperm(len(y), generator=derive_generator(seed, "fraction"))[:count].sort().values
            x, y = x[rows], y[rows]
        table = None if data.table is None else replace(data.table, values=x)
        return replace(data, x=x, y=y, table=table, test=None)


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


# Unlabelled clients that have samples of a few classes each, as of FedCRef.


_INITIAL = ("method", "true", "dirty")


@dataclass(frozen=True)
class LabelSkew(DataSetScenario):
    """Label skew: each client has samples of a few classes of one labelled data set (FedCRef, section 5.2).

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
        fraction of `dirtiness` moved at random.
    dirtiness : float
        In [0, 1].
    """

    n_classes: int | None = None
    clients: int = 10
    min_classes: int | None = None
    max_classes: int | None = None
    samples_per_class: int | None = None
    overlap: float = 0.0
    initial: str = "method"
    dirtiness: float = 0.3

    def build(self, seed: int) -> Population:
        """Build the clients; their state holds ``n_clusters`` and, with simulated starting labels, those as ``given``.

        Both are int64: ``n_clusters`` a scalar, the number of classes at the client; ``given`` of shape ``(n,)``, in
        ``0..n_clusters-1`` by order of class. The partition depends on `seed` and not on `initial` or `dirtiness`.
        Raises FedkinError if the data cannot be loaded or have no labels, or an option is out of its range.
        """
        if self.initial not in _INITIAL:
            raise unknown_name("value for initial", self.initial, _INITIAL)
        dataset, y = self._labelled_data()
        bounds = class_range(len(torch.unique(y)), self.min_classes, self.max_classes)
        samples = self.samples_per_class
        if samples is None:
            samples = fitting_samples_per_class(y, self.clients, bounds)
        parts = label_skew(
            y,
            self.clients,
            classes_per_client=bounds,
            samples_per_class=samples,
            overlap=self.overlap,
            rng=derive_generator(seed, "partition"),
        )
        clients = [
            replace(client_of(i, dataset, part), state=self._state(y[part], seed, i)) for i, part in enumerate(parts)
        ]
        return Population(clients, [y[part] for part in parts], dataset.classes, dataset.features)

    def _labelled_data(self) -> tuple[Dataset, Tensor]:
        dataset = load(self.data, self.label, options=self.table)
        if dataset.y is None:
            raise FedkinError(
                f"'{self.data}' has no labels to partition its samples by; name their column with {option('label')}, "
                "or use the scenario 'files' if it holds one file per client."
            )
        if self.n_classes is None:
            return dataset, dataset.y
        return _most_frequent(dataset, dataset.y, self.n_classes)

    def _state(self, truth: Tensor, seed: int, client: int) -> dict[str, Tensor]:
        held, labels = torch.unique(truth, return_inverse=True)
        state = {"n_clusters": torch.tensor(len(held))}
        if self.initial == "true":
            state["given"] = labels
        if self.initial == "dirty":
            state["given"] = dirty(labels, self.dirtiness, derive_generator(seed, "dirty", client))
        return state


def _most_frequent(dataset: Dataset, y: Tensor, n_classes: int) -> tuple[Dataset, Tensor]:
    available = len(torch.unique(y))
    if not 1 <= n_classes <= available:
        raise FedkinError(
            f"n_classes is {n_classes}; allowed: 1 to {available}, the number of classes in '{dataset.name}'."
        )
    sizes = torch.bincount(y, minlength=len(dataset.classes))
    classes = sizes.argsort(descending=True, stable=True)[:n_classes].sort().values
    rows = torch.isin(y, classes)
    chosen = dataset.rows(rows)
    return replace(chosen, classes=[dataset.classes[int(c)] for c in classes]), torch.searchsorted(classes, y[rows])


def label_skew(
    y: Tensor,
    n_clients: int,
    *,
    classes_per_client: tuple[int, int],
    samples_per_class: int,
    rng: torch.Generator,
    overlap: float = 0.0,
) -> list[Tensor]:
    """Partition samples so that each client has a few classes with the same number of samples (FedCRef, section 5.2).

    Client after client, the number of classes K is drawn uniformly from `classes_per_client`, the minimum and the
    maximum (see `class_range`), then K distinct classes. The set of classes must be one that no earlier client has,
    until all sets of that size are taken; from then on sets of that size may be taken once more. Samples of a class are
    allocated without replacement, `samples_per_class` to a client, at most the size of the smallest class. When too few
    are left for a client, that class (and no other) is allocated anew, the remaining samples first; so two clients may
    share a sample, but no client ever holds one twice.

    With an `overlap` of p, in [0, 1], each of the n holders of a class gives its first ``p q / (n + p - n p)`` of q
    samples to a common pot and then holds its remaining ones and the whole pot, so that the pot is a share p of what it
    holds.

    `y` is int64 ``(n,)``, the class of each sample; what is returned are each client's indices into it, int64,
    shuffled. Raises FedkinError if a number is out of its range, such as `n_clients` below 1.
    """
    classes, sizes = torch.unique(y, return_counts=True)
    low, high = class_range(len(classes), *classes_per_client)
    _check_at_least_one("clients", n_clients)
    _check_at_least_one("samples_per_class", samples_per_class)
    check_fraction("overlap", overlap)
    if samples_per_class > int(sizes.min()):
        smallest = int(sizes.min())
        raise FedkinError(
            f"samples_per_class is {samples_per_class}, but the smallest class has only {smallest} samples."
        )
    members = {int(c): (y == c).nonzero()[:, 0] for c in classes}
    remaining = {c: members[c][:0] for c in members}
    used: dict[int, set[tuple[int, ...]]] = {}
    holdings = []
    for _ in range(n_clients):
        size = int(torch.randint(low, high + 1, (), generator=rng))
        held = {}
        for c in _new_set(sorted(members), size, used.setdefault(size, set()), rng):
            held[c], remaining[c] = _allocate(members[c], remaining[c], samples_per_class, rng)
        holdings.append(held)
    if overlap > 0:
        _share(holdings, overlap, samples_per_class)
    together = [torch.cat(list(held.values())) for held in holdings]
    return [index[torch.randperm(len(index), generator=rng)] for index in together]


def class_range(n_classes: int, low: int | None = None, high: int | None = None) -> tuple[int, int]:
    """Return the minimum and maximum number of classes per client; by default 2 and half of all.

    Raises FedkinError unless ``1 <= low <= high <= n_classes``.
    """
    usual = min(n_classes, max(2, n_classes // 2))
    if high is None:
        high = max(usual, low or 0)
    if low is None:
        low = min(2, high)
    if high > n_classes:
        raise FedkinError(f"A client would have up to {max(low, high)} classes, but the data have only {n_classes}.")
    if not 1 <= low <= high:
        raise FedkinError(f"Classes per client are {low} to {high}; allowed: 1 <= minimum <= maximum <= {n_classes}.")
    return low, high


def fitting_samples_per_class(y: Tensor, n_clients: int, classes_per_client: tuple[int, int]) -> int:
    """Return how many samples of a class each client gets so that the smallest class is about used up; at most 500.

    Rounded to tens, where it is ten or more; never more than the smallest class has.
    """
    _check_at_least_one("clients", n_clients)
    sizes = torch.unique(y, return_counts=True)[1]
    holders = max(1.0, n_clients * sum(classes_per_client) / 2 / len(sizes))
    fitting = int(sizes.min()) / holders
    rounded = round(fitting, -1) if fitting >= 10 else max(1, fitting)
    return min(500, int(rounded), int(sizes.min()))


def dirty(labels: Tensor, dirtiness: float, rng: torch.Generator) -> Tensor:
    """Corrupt starting labels: each sample moves to another cluster with probability `dirtiness`.

    `labels` are int64 ``(n,)`` in ``0..K-1``; a sample moves to one of the client's other clusters with equal
    probability. With K = 1 there is no other, and all stay. Raises FedkinError if `dirtiness` is out of range.
    """
    check_fraction("dirtiness", dirtiness)
    n_clusters = int(labels.max()) + 1 if len(labels) else 0
    if n_clusters < 2:
        return labels.clone()
    moves = torch.rand(labels.shape, generator=rng) < dirtiness
    distance = torch.randint(1, n_clusters, labels.shape, generator=rng)
    return torch.where(moves, (labels + distance) % n_clusters, labels)


def _check_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise FedkinError(f"{name} is {value}; allowed: 1 or more.")


def _new_set(classes: list[int], size: int, used: set[tuple[int, ...]], rng: torch.Generator) -> tuple[int, ...]:
    if len(used) == math.comb(len(classes), size):
        used.clear()
    while True:
        order = torch.randperm(len(classes), generator=rng)[:size].tolist()
        chosen = tuple(sorted(classes[position] for position in order))
        if chosen not in used:
            used.add(chosen)
            return chosen


def _allocate(members: Tensor, remaining: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    if len(remaining) < count:
        reused = members[~torch.isin(members, remaining)]
        remaining = torch.cat([remaining, reused[torch.randperm(len(reused), generator=rng)]])
    return remaining[:count], remaining[count:]


def _share(holdings: list[dict[int, Tensor]], overlap: float, count: int) -> None:
    for c in sorted({c for held in holdings for c in held}):
        holders = [held for held in holdings if c in held]
        in_pot = round(overlap * count / (len(holders) + overlap - len(holders) * overlap))
        pot = torch.cat([held[c][:in_pot] for held in holders])
        for held in holders:
            held[c] = torch.unique(torch.cat([held[c][in_pot:], pot]))
