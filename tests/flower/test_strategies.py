"""Strategies do over messages what the methods do on the local engine, with a client app that knows nothing of them."""

from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Error, MessageType, MetricRecord
from torch import nn

import app_nodes
import planted
from fedkin import flower
from fedkin.core import FedkinError
from fedkin.experiment import registry
from fedkin.methods.clients import (
    cfl_gp,
    clove,
    fedavg,
    feddrift,
    fedgroup,
    fedopt,
    fesem,
    gradient_loss,
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


@pytest.mark.parametrize(
    ("strategy", "exchanges", "messages"),
    [
        (flower.OCFLStrategy(), 2, {MessageType.TRAIN: 8, MessageType.EVALUATE: 8}),
        (flower.OCFLStrategy(fraction_evaluate=0.0), 1, {MessageType.TRAIN: 8}),
        (flower.IFCAStrategy(n_clusters=3, fraction_evaluate=0.0), 2, {MessageType.TRAIN: 8, MessageType.EVALUATE: 24}),
    ],
    ids=["updates", "without evaluation", "ifca"],
)
def test_a_round_takes_so_many_messages(strategy, exchanges, messages):
    where = grid()
    first = [app_nodes.arrays(network, k) for k in range(3)] if isinstance(strategy, flower.IFCAStrategy) else None
    start(strategy, where, first, rounds=2)
    assert where.exchanges == 2 * exchanges
    kinds = [message.metadata.message_type for message in where.sent]
    assert {kind: kinds.count(kind) / 2 for kind in set(kinds)} == messages


@pytest.mark.parametrize("balance", [0.0, 0.6])
def test_gradient_loss_is_the_same_where_the_app_takes_one_step(balance):
    options = {"n_clusters": 2, "balance": balance}
    done = locally(gradient_loss.GradientLossMethod, "linear", ROUNDS, **options)
    where = grid()
    strategy = flower.GradientLossStrategy(**options, seed=1, fraction_evaluate=0.0)
    result = strategy.start(
        grid=where,
        initial_arrays=as_records(done, done.states[0].models),
        num_rounds=ROUNDS,
        timeout=5,
        train_config=ConfigRecord({"steps": 1, "rate": 0.5}),
    )
    assert list(result.clusters.values()) == done.labels
    assert [entry["labels"] for entry in result.records] == [values["labels"] for values in done.values]
    for got, expected in zip(result.arrays_by_cluster, as_records(done, done.result["models"]), strict=True):
        assert torch.allclose(app_nodes.vector(got), app_nodes.vector(expected), atol=2e-5)
    kinds = [message.metadata.message_type for message in where.sent]
    assert kinds.count(MessageType.TRAIN) == kinds.count(MessageType.EVALUATE) == 2 * 8 * ROUNDS


def test_gradient_loss_goes_on_without_nodes_that_fail_in_one_training():
    where, seen = grid(), []

    def trouble(message: Any, partition: int) -> Any:
        seen.append(partition)
        return Error(code=2, reason="no") if partition == 3 and message.metadata.message_type == "train" else None

    where.troubles = trouble
    first = [app_nodes.arrays(network, k) for k in range(2)]
    result = start(flower.GradientLossStrategy(n_clusters=2, fraction_evaluate=0.0), where, first, rounds=2)
    assert [record["missing"] for record in result.records] == [{3: "error 2: no"}] * 2
    assert 3 not in result.records[0]["answered"]


def test_ifca_seeds_its_models_from_one():
    where = grid()
    result = start(flower.IFCAStrategy(n_clusters=2, seed=1), where)
    assert planted.same_partition(list(result.clusters.values()), CLUSTERS)
    assert result.evaluate_metrics_clientapp[ROUNDS]["eval_acc"] == 1.0
    seeding = [message for message in where.sent if message.content["config"]["server-round"] == 0]
    kinds = [message.metadata.message_type for message in seeding]
    assert kinds.count(MessageType.TRAIN) == 2
    assert kinds.count(MessageType.EVALUATE) == len(CLUSTERS)


def test_a_model_that_has_diverged_is_nobodys_choice():
    first = [app_nodes.arrays(network)] * 2
    first[0] = ArrayRecord({name: torch.full(array.shape, torch.nan) for name, array in first[1].items()})
    result = start(flower.IFCAStrategy(n_clusters=2), grid(), first, rounds=2)
    assert [record["missing"] for record in result.records] == [{}, {}]
    assert set(result.clusters.values()) == {1}


def test_training_counts_of_nodes_that_are_lost_when_asked_for_cached_models():
    where, counts = grid(), []

    def counted(records: Any, weighted_by: str) -> MetricRecord:
        counts.append(len(records))
        return MetricRecord()

    def trouble(message: Any, partition: int) -> Any:
        fails = partition == 1 and message.metadata.message_type == MessageType.EVALUATE
        return Error(code=1, reason="out of memory") if fails else None

    where.troubles = trouble
    result = start(flower.SattlerStrategy(**CUTS, fraction_evaluate=0.0, train_metrics_aggr_fn=counted), where)
    assert list(result.records[-1]["missing"]) == [1]
    assert 1 not in result.records[-1]["answered"]
    assert counts == [8] * ROUNDS


@pytest.mark.parametrize("reported", [True, False])
def test_a_cluster_that_is_lost_is_seeded_by_the_worst(reported):
    """All begin in one cluster, as the other is far off; the greatest loss is known even if training reports none."""
    clients = make_clients()
    where = grid(clients)
    if not reported:
        where.app = silent(clients)
    first = [app_nodes.arrays(network)] * 2
    rng = torch.Generator().manual_seed(0)
    first[1] = ArrayRecord({name: 9 * torch.randn(array.shape, generator=rng) for name, array in first[0].items()})
    result = start(flower.IFCAStrategy(n_clusters=2, empty="reseed"), where, first, rounds=6)
    assert result.records[0]["clusters"] == 1
    assert planted.same_partition(list(result.clusters.values()), CLUSTERS)
    assert ("losses" in result.records[0]) is reported


def silent(clients: list[planted.Client]) -> Any:
    """The app, but its training tells no loss."""
    app = app_nodes.client_app(clients, network)
    train = app._registered_funcs["train.default"]

    def quiet(message: Any, context: Any) -> Any:
        reply = train(message, context)
        del reply.content["metrics"]["train_loss"]
        return reply

    app._registered_funcs["train.default"] = quiet
    return app


def test_a_node_of_sattlers_may_keep_a_model_of_the_past():
    clients = make_clients()
    where = grid(clients)
    train = where.app._registered_funcs["train.default"]
    spoilt = [1, 2, 4, 7]

    def spoil(message: Any, context: Any) -> Any:
        reply = train(message, context)
        if message.content["config"]["server-round"] == ROUNDS and context.node_config["partition-id"] in spoilt:
            state = reply.content["arrays"].to_torch_state_dict()
            reply.content["arrays"] = ArrayRecord({name: -9 * part for name, part in state.items()})
        return reply

    where.app._registered_funcs["train.default"] = spoil
    result = start(flower.SattlerStrategy(**CUTS), where)
    assert sorted(result.own_arrays) == [where.node(one) for one in spoilt]
    own = result.arrays_of(where.node(1))
    assert own is result.own_arrays[where.node(1)]
    assert result.arrays_of(where.node(0)) is result.arrays_by_cluster[result.clusters[where.node(0)]]
    spoilt_model = result.arrays_by_cluster[result.clusters[where.node(1)]]
    assert judged(own, clients[1]) < judged(spoilt_model, clients[1])


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


def test_more_newcomers_than_there_is_room_for_are_ignored(monkeypatch, caplog):
    monkeypatch.setattr("fedkin.flower.grid_federation._LATECOMERS", 1)
    where = grid(make_clients([*CLUSTERS, 1, 0]))
    where.away = {8, 9}

    def arrive(message: Any, partition: int) -> None:
        where.away = set()

    where.troubles = arrive
    result = start(flower.OCFLStrategy(), where, rounds=4)
    assert set(result.clusters) == {where.node(partition) for partition in range(9)}
    assert "1 nodes are ignored: 1 came after the first round, the maximum." in caplog.text


@pytest.mark.parametrize(
    ("strategy", "first", "sentence"),
    [
        (flower.OCFLStrategy(), 2, "OCFLStrategy begins with one model, but initial_arrays holds 2."),
        (
            flower.IFCAStrategy(n_clusters=3),
            2,
            "initial_arrays holds 2 models; n_clusters is 3, so give as many, or one.",
        ),
        (
            flower.GradientLossStrategy(n_clusters=3),
            1,
            "initial_arrays holds 1 model; n_clusters is 3, so give as many.",
        ),
    ],
)
def test_so_many_models_to_begin_with(strategy, first, sentence):
    with pytest.raises(FedkinError) as refused:
        start(strategy, grid(), [app_nodes.arrays(network, k) for k in range(first)])
    assert str(refused.value).startswith(sentence)


def test_models_to_begin_with_must_be_alike():
    first = [app_nodes.arrays(network), app_nodes.arrays(lambda: network("normalised"))]
    with pytest.raises(FedkinError, match=r"^initial_arrays holds models that differ: in that at 1, array '"):
        start(flower.IFCAStrategy(n_clusters=2), grid(), first)
