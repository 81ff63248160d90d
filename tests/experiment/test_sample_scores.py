from typing import Any

import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.experiment.evaluation import evaluate_associations, evaluate_samples, with_oracle
from fedkin.methods.samples.centroid_method import CentroidState
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod, FedCRefState
from fedkin.methods.samples.kfed import KFedMethod
from toy import Toy

METHOD = FedCRefMethod()
TRUTH = [[0, 0, 0, 1, 1, 1], [1, 1, 1, 2, 2, 2], [2, 2, 2, 3, 3, 3]]


def situation(labels: list[list[int]], **state: Any) -> tuple[Population, LocalFederation, FedCRefState]:
    """Three clients with the given partitions; classes 1 and 2 are held by two of them."""
    clients = [
        Client(i, torch.zeros(6, 2), state={"labels": torch.tensor(own), "models": torch.zeros(2, 1, 1)})
        for i, own in enumerate(labels)
    ]
    nodes = [[client, cluster] for client, own in enumerate(labels) for cluster in range(max(own) + 1)]
    defaults = {"nodes": nodes, "edges": [[1, 2], [3, 4]], "clusters": {"0": [0, 1], "1": [1, 2], "2": [2, 3]}}
    people = Population(clients, [torch.tensor(own) for own in TRUTH], ["a", "b", "c", "d"])
    return people, LocalFederation(clients), FedCRefState(**{**defaults, **state})


def perfect(**state: Any) -> tuple[Population, LocalFederation, FedCRefState]:
    return situation([[0, 0, 0, 1, 1, 1]] * 3, **state)


def test_the_right_result_has_full_marks() -> None:
    metrics = evaluate_associations(METHOD, *perfect())
    assert metrics == {
        "accuracy": 1.0, "false_matches": 0.0, "target": 2, "ari": 1.0, "nmi": 1.0, "kappa": 1.0,
        "pooled_accuracy": 1.0,
    }  # fmt: skip


def test_clusters_are_compared_over_all_samples_of_known_clients() -> None:
    one_cluster = {"0": [0, 0], "1": [0, 0], "2": [0, 0]}
    metrics = evaluate_associations(METHOD, *perfect(clusters=one_cluster))
    assert (metrics["ari"], metrics["nmi"], metrics["accuracy"]) == (0.0, 0.0, 1.0)
    metrics = evaluate_associations(METHOD, *perfect(clusters={"1": [0, 1]}))
    assert metrics["ari"] == 1.0
    assert "ari" not in evaluate_associations(METHOD, *perfect(clusters={}))


def test_only_an_upper_bound_knows_the_truth() -> None:
    people, fed, _ = perfect()
    bound = FedCRefMethod(associations="perfect")
    truth = people.truth.__getitem__
    found = with_oracle(bound, truth, fed)
    assert [found.oracle(client) for client in range(3)] == [[0, 1], [1, 2], [2, 3]]
    fed.clients[0].state["labels"] = torch.tensor([1, 1, 1, 0, 0, 0])
    assert found.oracle(0) == [1, 0]
    assert with_oracle(METHOD, truth, fed) is METHOD
    assert with_oracle(Toy(), truth, fed) == Toy()


def two_clients(*labels: list[int] | None) -> tuple[Population, LocalFederation]:
    """Six points on a line at either client, of class 0 below zero and 1 above; clients may differ in clusters."""
    line = torch.tensor([[-3.0], [-2.0], [-1.0], [1.0], [2.0], [3.0]])
    clients = [
        Client(i, line, state={} if own is None else {"clusters": torch.tensor(own)}) for i, own in enumerate(labels)
    ]
    truth = [(line[:, 0] > 0).long() for _ in clients]
    return Population(clients, truth, ["low", "high"]), LocalFederation(clients)


def test_samples_are_judged_by_the_clusters_of_their_client_or_by_the_present_result() -> None:
    state = CentroidState(centroids=torch.tensor([[2.0], [-2.0]]))
    right = evaluate_samples(KFedMethod(), *two_clients(None, [1, 1, 1, 0, 0, 0]), state)
    assert right == {
        "ari": 1.0, "nmi": 1.0, "kappa": 1.0, "pooled_accuracy": 1.0, "accuracy": 1.0, "kappas": [1.0, 1.0],
    }  # fmt: skip
    half = evaluate_samples(KFedMethod(), *two_clients(None, [1, 0, 1, 0, 1, 0]), state)
    assert half["kappas"][0] == 1.0
    assert half["kappas"][1] == pytest.approx(1 / 3)
    assert half["accuracy"] == pytest.approx((1 + 4 / 6) / 2)
    assert half["pooled_accuracy"] == pytest.approx(10 / 12)
