"""Clusters found at once: training, drift, and cuts of a tree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

import planted
from fedkin.clustering.tree_cuts import cluster
from fedkin.core import Client, FedkinError, task
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

    @staticmethod
    def unseen_message(client, result):
        return report_means.run([client], [{}])[0]["message"]

    def clustered(self, fed, state, messages):
        return cluster(messages, "exact", 2, fed.rng("grouping")), {"mode": "tree"}


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


def test_everybody_sends_one_message_and_then_every_cluster_trains_a_model_of_its_own():
    fed = Watched(make_clients())
    method = OneMessage(**SETTINGS)
    made = steps(method, fed, method.init(fed), 5)
    everyone = list(range(12))
    assert fed.asked == [("describe", everyone), ("report_means", everyone), *[("train", everyone)] * 4]
    records = [record for _, record in made]
    assert [record.values["phase"] for record in records] == ["embedding", *["training"] * 4]
    assert all(record.answered == everyone and not record.missing for record in records)
    assert all(planted.same_partition(record.values["labels"], CLUSTERS) for record in records)
    assert all(record.values["sizes"] == [4, 4, 4] for record in records)
    assert [state.finished for state, _ in made] == [False] * 4 + [True]
    assert "newcomers" not in records[-1].values


def test_messages_are_asked_for_again_but_not_for_ever():
    exchanges = [(1 + attempt, client) for attempt in range(1, 30) for client in range(12)]
    fed = Watched(make_clients(), failures=exchanges)
    method = OneMessage(**SETTINGS)
    state = method.init(fed)
    for _ in range(19):
        state, record = method.step(fed, state)
        assert record.values["labels"] == [-1] * 12
    with pytest.raises(FedkinError, match=r"messages of 1 or more clients .* attempt 20 of 20 \(lost on purpose\)"):
        method.step(fed, state)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tree_cuts_planted(sizes: list[int], bits: int = 200, flips: float = 0.1, seed: int = 0) -> tuple[Tensor, list[int]]:
    """Bits of clusters with random centres, flipped, in a shuffled order; and the clusters."""
    draws = rng(seed)
    truth = torch.tensor([number for number, size in enumerate(sizes) for _ in range(size)])
    truth = truth[torch.randperm(len(truth), generator=draws)]
    centres = torch.rand(len(sizes), bits, generator=draws) < 0.5
    noise = torch.rand(len(truth), bits, generator=draws) < flips
    return (centres[truth] ^ noise).to(torch.uint8), truth.tolist()


@pytest.mark.parametrize("n", [40, 100])
@pytest.mark.parametrize("flips", [0.0, 0.1, 0.5])
def test_one_population_is_nearly_always_one_cluster(n, flips):
    divisions = [
        cluster(tree_cuts_planted([n], flips=flips, seed=seed)[0], "exact", 3, rng(seed)).any() for seed in range(6)
    ]
    assert sum(divisions) <= 1


@pytest.mark.parametrize("mode", ["bayes", "exact"])
def test_planted_clusters_are_found(mode):
    points, truth = tree_cuts_planted([60, 50, 40], flips=0.1)
    assert adjusted_rand_score(truth, cluster(points, mode, 10, rng()).tolist()) == 1.0
