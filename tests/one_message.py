"""A method that clusters clients by one plain message each, and a federation to watch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import planted
from fedkin.clustering.tree_cuts import cluster
from fedkin.core import Client, task
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.one_shot import OneShotMethod

CLUSTERS = [0, 1, 2, 1, 0, 2, 2, 0, 1, 0, 2, 1]
DIRECTIONS = torch.randn(planted.CLASSES**2, 80, generator=torch.Generator().manual_seed(1))
SWAPS = {0: [], 1: [(0, 1)], 2: [(2, 3)], 3: [(4, 5)]}
"""Cluster 3 is one that nobody is in at first."""
SETTINGS = planted.FULL_BATCH | {"rounds": 4}


@task
def report_means(clients, payloads):
    """The mean sample of every class, seen from many sides."""
    means = [torch.cat([one.x[one.y == label].mean(0) for label in range(planted.CLASSES)]) for one in clients]
    return [{"message": mean @ DIRECTIONS} for mean in means]


@dataclass(frozen=True)
class OneMessage(OneShotMethod):
    """Clients report the mean sample of each class."""

    def messages(self, fed, state, clients):
        replies = fed.ask(report_means, {client: {} for client in clients}, {"message": (80,)})
        return replies.map(lambda reply: reply["message"])

    def clustered(self, fed, state, messages):
        found = cluster(messages, "exact", self.smallest(len(messages)), fed.rng("grouping"))
        return found, {"separable": found.separable}


class Watched(LocalFederation):
    """Keeps who was asked what."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, workers=1, **options)
        self.asked: list[tuple[str, list[int]]] = []

    def deliver(self, task, payloads):
        self.asked.append((task.name.split(".")[-1], sorted(payloads)))
        return super().deliver(task, payloads)


def make_clients(clusters: Sequence[int] = CLUSTERS, samples: int = 24) -> list[Client]:
    return planted.clients(clusters, SWAPS, samples)


def steps(method: Any, fed: LocalFederation, state: Any, count: int) -> list[tuple[Any, Any]]:
    """So many (state, record) from `state` on."""
    made = []
    for _ in range(count):
        state, record = method.step(fed, state)
        made.append((state, record))
    return made


def clustered(method: Any, fed: LocalFederation) -> Any:
    """The state once clusters are formed."""
    return method.step(fed, method.init(fed))[0]
