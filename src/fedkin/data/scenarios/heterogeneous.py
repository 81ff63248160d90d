"""Scenarios without hidden clusters: Dirichlet, shards and i.i.d. partitions.

Parameters are called as in flwr-datasets, except that ``num_partitions`` is `clients`, as everywhere in fedkin, and
``partition_by`` is `label`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedkin.core.method import Count
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import Labelled, PartitionScenario, client_of
from fedkin.data.scenarios.split import allocate_in_proportion, dirichlet_split, iid_split, shard_split
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
