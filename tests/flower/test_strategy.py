"""What a strategy is given, and what its rounds ask of nodes."""

import json
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, Error, MessageType, MetricRecord
from safetensors.torch import load_file

import app_nodes
import planted
from app_runs import CLUSTERS, grid, network, start
from fedkin import flower
from fedkin.core import FedkinError
from fedkin.flower import ClusterResult
from fedkin.flower.grid_federation import NodeAssignment
from fedkin.nn.modules import Classifier


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: flower.OCFLStrategy(learning_rate=0.1),
            "OCFLStrategy has no parameter 'learning_rate'; the client app",
        ),
        (lambda: flower.IFCAStrategy(n_clusters=0), "'n_clusters' is 0 in IFCA; it should be"),
        (lambda: flower.OCFLStrategy(fraction_evaluate=2), "'fraction_evaluate' is 2 in StrategyOptions; it should be"),
        (
            lambda: start(flower.OCFLStrategy(), grid(), evaluate_fn=lambda number, arrays: 0.5),
            "evaluate_fn returned float, which is no MetricRecord.",
        ),
    ],
)
def test_what_is_not_allowed_gets_a_sentence(make, sentence):
    with pytest.raises((FedkinError, TypeError)) as refused:
        make()
    assert str(refused.value).startswith(sentence)


def spoils(where: app_nodes.Fleet, spoil: Any, partitions: set[int]) -> None:
    """Have some partitions' training reply otherwise."""
    train = where.app._registered_funcs["train.default"]

    def spoilt(message: Any, context: Any) -> Any:
        reply = train(message, context)
        if context.node_config["partition-id"] in partitions:
            spoil(reply.content)
        return reply

    where.app._registered_funcs["train.default"] = spoilt


def test_a_round_waits_for_a_node_that_takes_part(monkeypatch, caplog):
    """The only nodes that are connected have no seat, until those that have one are back."""
    caplog.set_level("INFO", "flwr")
    monkeypatch.setattr("fedkin.flower.strategies.PATIENCE", 0.0)
    monkeypatch.setattr("fedkin.flower.grid_federation._LATECOMERS", 0)
    where = grid([*CLUSTERS, 0, 1])
    where.away = {6, 7}
    there = type(where).get_node_ids
    looks: list[int] = []

    def node_ids(self: app_nodes.Fleet) -> Any:
        if any(m.content["config"]["server-round"] == 1 and "evaluate" in m.metadata.message_type for m in where.sent):
            looks.append(1)
            where.away = set(range(6)) if len(looks) < 5 else set()
        return there(self)

    monkeypatch.setattr(app_nodes.Fleet, "get_node_ids", node_ids)
    result = start(flower.OCFLStrategy(), where)
    assert "Waiting for nodes that take part: none of those connected does." in caplog.text
    assert [entry["answered"] for entry in result.records] == [list(range(6))] * 3


def test_nodes_that_fail_are_missing_and_the_others_go_on(caplog):
    where = grid()

    def trouble(message: Any, partition: int) -> Any:
        if message.metadata.message_type == MessageType.TRAIN:
            return {(1, 3): "lost", (2, 4): Error(5, "gone")}.get(
                (message.content["config"]["server-round"], partition)
            )
        return Error(2, "no evaluation today") if partition == 0 else None

    where.troubles = trouble
    result = start(flower.OCFLStrategy(), where, num_rounds=5)
    assert result.records[0]["missing"] == {"3": "no reply in 0.3 seconds"}
    assert result.records[1]["missing"] == {"4": "error 5: gone"}
    assert result.records[0]["answered"] == [0, 1, 2, 4, 5]
    assert planted.same_partition(list(result.clusters.values()), CLUSTERS)
    assert "Node 1000 is left out of the evaluation: error 2: no evaluation today" in caplog.text
    assert "Node 1028: error 5: gone" in caplog.text


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda c: c["metrics"].pop("num-examples"), "'num-examples' is absent in its metrics"),
        (lambda c: c["metrics"].update({"num-examples": 0}), "'num-examples' is 0 in its metrics"),
        (lambda c: c.pop("metrics"), "its reply has 0 MetricRecords instead of one"),
        (lambda c: c.update({"more": MetricRecord({"a": 1})}), "its reply has 2 MetricRecords instead of one"),
        (lambda c: c.pop("arrays"), "its training replied with 0 ArrayRecords instead of one"),
        (lambda c: c["arrays"].pop("1.bias"), "in its training's reply, array '1.bias' is absent"),
        (
            lambda c: c.update(
                {"arrays": ArrayRecord({k: torch.full(v.shape, torch.nan) for k, v in c["arrays"].items()})}
            ),
            "'update' is not finite",
        ),
    ],
)
def test_a_reply_that_cannot_be_used_counts_as_missing(spoil, reason):
    where = grid()
    spoils(where, spoil, {2})
    result = start(flower.OCFLStrategy(), where)
    assert reason in result.records[0]["missing"]["2"]
    assert bool(app_nodes.vector(result.arrays).isfinite().all())
    assert 2 not in result.records[0]["answered"]


def test_a_node_that_explodes_the_model_is_left_out_and_the_others_go_on(caplog):
    where = grid()
    huge = lambda c: c.update({"arrays": ArrayRecord({k: torch.full(v.shape, 1e9) for k, v in c["arrays"].items()})})  # noqa: E731
    spoils(where, huge, {2})
    result = start(flower.OCFLStrategy(), where)
    assert "Node 1014 is left out of the run: its update has length" in caplog.text
    assert "its update has length" in result.records[0]["missing"]["2"]
    assert float(app_nodes.vector(result.arrays).abs().max()) < 100


def test_an_app_that_is_none_is_refused_at_once():
    where = grid()
    spoils(where, lambda c: c["metrics"].pop("num-examples"), set(range(6)))
    with pytest.raises(FedkinError) as refused:
        start(flower.OCFLStrategy(), where)
    assert str(refused.value) == (
        "No reply of the client app can be used: 'num-examples' is absent in its metrics; it should be a number "
        "above 0."
    )


def test_metrics_are_means_weighted_by_examples():
    where = grid(more=lambda client: {"number": client.id, "pair": [1.0 * client.id, 1.0]})
    result = start(flower.FedAvgStrategy(), where, num_rounds=2)
    weights = [12, 24, 36, 12, 24, 36]
    expected = sum(at * weight for at, weight in enumerate(weights)) / sum(weights)
    assert result.train_metrics_clientapp[2]["number"] == pytest.approx(expected)
    assert result.train_metrics_clientapp[2]["pair"] == pytest.approx([expected, 1.0])
    assert set(result.evaluate_metrics_clientapp) == {1, 2}


def test_a_folder_holds_a_model_for_each_cluster(tmp_path):
    models = [app_nodes.arrays(network, seed) for seed in range(3)]
    result = ClusterResult(arrays=models[1], arrays_by_cluster=models, clusters={9: 0, 5: 1, 7: 1}, nodes=[5, 7, 9, 11])
    result.save(tmp_path)
    result.arrays_by_cluster = models[:2]
    result.save(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [f"cluster-{k}.safetensors" for k in (0, 1)]
    assert json.loads((tmp_path / "clusters.json").read_text())["clusters"] == [
        {"model": "cluster-0.safetensors", "nodes": [9]},
        {"model": "cluster-1.safetensors", "nodes": [5, 7]},
    ]
    for arrays, name in zip(models[:2], ["cluster-0", "cluster-1"], strict=True):
        saved = load_file(tmp_path / f"{name}.safetensors")
        assert all(torch.equal(saved[key], torch.from_numpy(array.numpy())) for key, array in arrays.items())
    assert result.arrays_of(5) is result.arrays_of(11) is models[1]


def asking(names: dict[int, object]):
    asked: list[list[int]] = []

    def ask(nodes):
        asked.append(list(nodes))
        answers = {node: names[node] for node in nodes if node in names}
        nameless = {node: str(name) for node, name in answers.items() if isinstance(name, FedkinError)}
        return {node: name for node, name in answers.items() if node not in nameless}, nameless

    ask.asked = asked
    return ask


def test_a_node_gets_its_seat_back_under_another_id(caplog):
    caplog.set_level("INFO", "flwr")
    ask = asking({1: "a", 2: "b", 3: "a"})
    seats = NodeAssignment(5, ask)
    seats.update([1, 2])
    assert seats.update([2, 3]) == {0, 1}
    assert seats.nodes == [3, 2]
    assert ask.asked == [[1, 2], [3]]
    assert "Node a is back." in caplog.text


def test_silent_nodes_are_asked_again_and_nameless_ones_are_not(caplog):
    names: dict[int, object] = {1: "a", 3: FedkinError("it has none")}
    ask = asking(names)
    seats = NodeAssignment(5, ask)
    assert seats.update([1, 2, 3]) == {0}
    names[2] = "b"
    assert seats.update([1, 2, 3]) == {0, 1}
    assert ask.asked == [[1, 2, 3], [2]]
    assert "Node 3 is ignored: it has none." in caplog.text


def test_those_of_an_earlier_process_are_away_until_they_come():
    seats = NodeAssignment(5, asking({8: "b", 9: "c"}), ["a", "b"])
    assert seats.update([8, 9]) == {1, 2}
    assert seats.names == ["a", "b", "c"]
    assert NodeAssignment(5, None, [10, 20]).update([20]) == {1}


EIGHT = [0, 1, 1, 0, 1, 0, 0, 1]
"""The cluster of each of eight clients."""
CUTS = {"cooldown": 1, "mean_below": 0.5, "separation": 1.0}
"""With which Sattler's method cuts early."""
NETWORKS = {"linear": planted.linear, "normalised": planted.normalised}


def fleet(clusters: list[int], kind: str = "linear") -> app_nodes.Fleet:
    clients = planted.clients(clusters, planted.OPPOSITE)
    make = NETWORKS[kind]
    app = app_nodes.client_app(clients, lambda: make((planted.CLASSES,), planted.CLASSES))
    return app_nodes.Fleet(app, len(clients))


def as_records(run: planted.Run, models: torch.Tensor) -> list[ArrayRecord]:
    classifier = Classifier.of(run.states[0].module)
    return [ArrayRecord(classifier.module(model).state_dict()) for model in models]


def test_a_task_that_no_app_of_fedavg_can_do_is_refused():
    class Odd(flower.ClusterStrategy, method="pacfl"):
        pass

    with pytest.raises(FedkinError, match="fedkin's own client app"):
        start(Odd(), grid())


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize(
    ("name", "options", "finds"),
    [
        ("FedAvg", {}, False),
        ("FedOpt", {}, False),
        ("OCFL", {}, True),
        ("Sattler", CUTS, True),
        ("Hierarchical", {"clustering_round": 2}, False),
        ("FeSEM", {"n_clusters": 2}, True),
        ("FedGroup", {"n_clusters": 2}, True),
        ("CLoVE", {"n_clusters": 2}, True),
        ("IFCA", {"n_clusters": 2}, True),
        ("IFCA", {"n_clusters": 3, "shared_layers": 1}, False),
    ],
)
def test_the_same_as_on_the_local_engine(name, options, finds, kind):
    strategy = getattr(flower, f"{name}Strategy")
    settings = planted.LEARNING | {"module": f"planted:{kind}", "rounds": 5} | options
    done = planted.run(strategy._method(**settings), planted.clients(EIGHT, planted.OPPOSITE), seed=1)
    first = as_records(done, done.states[0].models)
    where = fleet(EIGHT, kind)
    arrays = first if len(first) > 1 and name != "FeSEM" else first[0]  # which makes its models from one
    result = start(strategy(**options, seed=1), where, initial_arrays=arrays, num_rounds=5, timeout=5)
    assert result.clusters == {where.node(client): cluster for client, cluster in enumerate(done.labels)}
    last = as_records(done, done.result["models"])
    assert len(result.arrays_by_cluster) == len(last)
    for got, expected in zip(result.arrays_by_cluster, last, strict=True):
        assert list(got) == list(expected)
        assert torch.allclose(app_nodes.vector(got), app_nodes.vector(expected), atol=2e-5)
    assert [entry["values"]["labels"] for entry in result.records] == [values["labels"] for values in done.values]
    assert planted.same_partition(done.labels, EIGHT) or not finds


def test_newcomers_find_their_cluster():
    for strategy in (flower.OCFLStrategy(), flower.IFCAStrategy(n_clusters=2, seed=1)):
        where = fleet([*EIGHT, 1, 0])
        where.away = {8, 9}

        def arrive(message: Any, partition: int, where: app_nodes.Fleet = where) -> None:
            if message.content["config"]["server-round"] == 4:
                where.away = set()

        where.troubles = arrive
        result = start(strategy, where, num_rounds=7, timeout=5)
        clusters = {where.partition(node): cluster for node, cluster in result.clusters.items()}
        assert planted.same_partition([clusters[one] for one in range(10)], [*EIGHT, 1, 0])
        assert result.nodes == [*sorted(result.nodes[:8]), where.node(8), where.node(9)]
        assert result.records[0]["values"]["labels"][8:] == [-1, -1]
