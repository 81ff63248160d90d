"""Strategies do over messages what the methods do on the local engine, with a client app that knows nothing of them."""

from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord
from torch import nn

import app_nodes
import planted
from fedkin import flower
from fedkin.experiment import registry
from fedkin.methods.clients import (
    cfl_gp,
    clove,
    fedavg,
    feddrift,
    fedgroup,
    fedopt,
    fesem,
    hierarchical,
    ifca,
    ocfl,
    sattler,
)
from fedkin.nn.modules import Classifier

CLUSTERS = [0, 1, 1, 0, 1, 0, 0, 1]
ROUNDS = 5
CUTS = {"cooldown": 1, "mean_below": 0.5, "separation": 1.0}
"""With which Sattler's method cuts early."""
NETWORKS = {"linear": planted.linear, "normalised": planted.normalised}


def make_clients(clusters: list[int] = CLUSTERS) -> list[planted.Client]:
    return planted.clients(clusters, planted.OPPOSITE)


def network(kind: str = "linear") -> nn.Module:
    return NETWORKS[kind]((planted.CLASSES,), planted.CLASSES)


def grid(clients: list[planted.Client] | None = None, kind: str = "linear", **more: Any) -> app_nodes.Fleet:
    clients = make_clients() if clients is None else clients
    return app_nodes.Fleet(app_nodes.client_app(clients, lambda: network(kind), **more), len(clients))


def locally(method: Any, kind: str, rounds: int, **options: Any) -> planted.Run:
    settings = planted.LEARNING | {"module": f"planted:{kind}", "rounds": rounds} | options
    return planted.run(method(**settings), make_clients(), seed=1)


def start(strategy: Any, where: app_nodes.Fleet, first: Any = None, rounds: int = ROUNDS, **more: Any) -> Any:
    first = app_nodes.arrays(network) if first is None else first
    return strategy.start(
        grid=where, initial_arrays=first, num_rounds=rounds, timeout=5, train_config=app_nodes.START, **more
    )


def as_records(run: planted.Run, models: torch.Tensor) -> list[ArrayRecord]:
    classifier = Classifier.of(run.states[0].module)
    return [ArrayRecord(classifier.module(model).state_dict()) for model in models]


def test_every_method_that_clusters_clients_has_a_strategy():
    strategies = [getattr(flower, name) for name in flower.__all__ if name.endswith("Strategy")]
    there = {strategy._method for strategy in strategies if strategy is not flower.ClusterStrategy}
    methods = {name: registry.resolve("method", name) for name in registry.METHODS}
    assert [
        name for name, method in methods.items() if method.traits.clusters == "clients" and method not in there
    ] == ["local"]  # which needs no server


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize(
    ("strategy", "method", "options", "finds"),
    [
        (flower.FedAvgStrategy, fedavg.FedAvgMethod, {}, False),
        (flower.FedOptStrategy, fedopt.FedOptMethod, {}, False),
        (flower.OCFLStrategy, ocfl.OCFLMethod, {}, True),
        (flower.SattlerStrategy, sattler.SattlerMethod, CUTS, True),
        (
            flower.HierarchicalStrategy,
            hierarchical.HierarchicalMethod,
            {"clustering_round": 2, "compare": "floats"},
            True,
        ),
        (flower.FeSEMStrategy, fesem.FeSEMMethod, {"n_clusters": 2}, True),
        (flower.FedGroupStrategy, fedgroup.FedGroupMethod, {"n_clusters": 2}, True),
        (flower.CLoVEStrategy, clove.CLoVEMethod, {"n_clusters": 2}, True),
        (flower.CFLGPStrategy, cfl_gp.CFLGPMethod, {"n_clusters": 2, "coordinates": 20}, True),
        (flower.CFLGPStrategy, cfl_gp.CFLGPMethod, {"n_clusters": None, "period": 1}, True),
        (flower.FedDriftStrategy, feddrift.FedDriftMethod, {"period": 2, "threshold": 0.4}, True),
        (flower.IFCAStrategy, ifca.IFCAMethod, {"n_clusters": 2}, True),
        (flower.IFCAStrategy, ifca.IFCAMethod, {"n_clusters": 3, "shared_layers": 1, "empty": "reseed"}, False),
    ],
    ids=[
        "fedavg",
        "fedopt",
        "ocfl",
        "sattler",
        "hierarchical",
        "fesem",
        "fedgroup",
        "clove",
        "cfl-gp",
        "cfl-gp without a number",
        "feddrift",
        "ifca",
        "ifca with a shared layer",
    ],
)
def test_the_same_as_on_the_local_engine(strategy, method, options, finds, kind):
    judged = {"held_out": 0.0} if strategy is flower.FedDriftStrategy else {}  # as the app, which has no others
    done = locally(method, kind, ROUNDS, **options, **judged)
    first = as_records(done, done.states[0].models)
    where = grid(kind=kind)
    alike = strategy in (flower.FeSEMStrategy, flower.CFLGPStrategy)  # which make their models from one
    result = start(strategy(**options, seed=1), where, first if len(first) > 1 and not alike else first[0])
    assert result.clusters == {where.node(client): cluster for client, cluster in enumerate(done.labels)}
    last = as_records(done, done.result["models"])
    assert len(result.arrays_by_cluster) == len(last)
    for got, expected in zip(result.arrays_by_cluster, last, strict=True):
        assert list(got) == list(expected)
        assert torch.allclose(app_nodes.vector(got), app_nodes.vector(expected), atol=2e-5)
    assert [entry["labels"] for entry in result.records] == [values["labels"] for values in done.values]
    assert planted.same_partition(done.labels, CLUSTERS) or not finds


def judged(record: ArrayRecord, client: planted.Client) -> float:
    module = network()
    module.load_state_dict(record.to_torch_state_dict())
    return float(torch.nn.functional.cross_entropy(module(client.x), client.y).detach())


def test_newcomers_find_their_cluster():
    clients = make_clients([*CLUSTERS, 1, 0])
    for strategy in (flower.OCFLStrategy(), flower.IFCAStrategy(n_clusters=2, seed=1)):
        where = grid(clients)
        where.away = {8, 9}

        def arrive(message: Any, partition: int, where: app_nodes.Fleet = where) -> None:
            if message.content["config"]["server-round"] == 4:
                where.away = set()

        where.troubles = arrive
        result = start(strategy, where, rounds=7)
        clusters = {where.partition(node): cluster for node, cluster in result.clusters.items()}
        assert planted.same_partition([clusters[one] for one in range(10)], [*CLUSTERS, 1, 0])
        assert result.nodes == [*sorted(result.nodes[:8]), where.node(8), where.node(9)]
        assert len(result.records[0]["labels"]) == 8
