"""What a strategy is given, and what its rounds do besides the method."""

import inspect
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Error, MessageType, MetricRecord
from flwr.serverapp.strategy import FedAvg as FlowersFedAvg
from flwr.serverapp.strategy import Result, Strategy
from torch import nn

import app_nodes
import planted
from fedkin import flower
from fedkin.core import FedkinError

CLUSTERS = [0, 1, 1, 0, 1, 0]


def network() -> nn.Module:
    return planted.linear((planted.CLASSES,), planted.CLASSES)


def grid(clusters: list[int] = CLUSTERS, **more: Any) -> app_nodes.Fleet:
    sites = [
        planted.client(at, planted.OPPOSITE[cluster], samples=12 + 12 * (at % 3)) for at, cluster in enumerate(clusters)
    ]
    return app_nodes.Fleet(app_nodes.client_app(sites, network, **more), len(sites))


def start(strategy: Any, where: app_nodes.Fleet, **more: Any) -> Any:
    settings = {
        "initial_arrays": app_nodes.arrays(network),
        "num_rounds": 3,
        "timeout": 0.3,
        "train_config": app_nodes.START,
    }
    return strategy.start(grid=where, **(settings | more))


def sent(where: app_nodes.Fleet, kind: str, number: int) -> list[int]:
    """Partitions that were sent messages of a kind in a round."""
    messages = [m for m in where.sent if m.metadata.message_type == kind]
    return [where.partition(m.metadata.dst_node_id) for m in messages if m.content["config"]["server-round"] == number]


def test_it_is_one_of_flowers_strategies():
    assert isinstance(flower.OCFLStrategy(), Strategy)
    result = start(flower.OCFLStrategy(), grid())
    assert isinstance(result, Result)
    assert {"fraction_train", "clusterer", "seed"} <= set(inspect.signature(flower.OCFLStrategy).parameters)
    assert not {"local_epochs", "rounds", "module"} & set(inspect.signature(flower.OCFLStrategy).parameters)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: flower.OCFLStrategy(learning_rate=0.1),
            "OCFLStrategy has no parameter 'learning_rate': it is the client app's own, which train_config of start() "
            "can "
            "set.",
        ),
        (
            lambda: flower.OCFLStrategy(rounds=3),
            "OCFLStrategy has no parameter 'rounds': it is given to start() as num_rounds.",
        ),
        (
            lambda: flower.IFCAStrategy(averaging="gradients"),
            "IFCAStrategy has no parameter 'averaging': it is always 'models' with a client app that is not fedkin's "
            "own.",
        ),
        (
            lambda: flower.IFCAStrategy(n_clusters=0),
            "'n_clusters' is 0 in IFCA; it should be greater than or equal to 1.",
        ),
        (
            lambda: flower.OCFLStrategy(trigger="now"),
            "'trigger' is 'now' in OCFL; it should be 'first-rise' or 'printed'.",
        ),
        (
            lambda: flower.OCFLStrategy(fraction_train=0.0),
            "fraction_train is 0.0 in OCFLStrategy; allowed: above 0, at most 1.",
        ),
        (lambda: flower.OCFLStrategy(fraction_evaluate=2), "fraction_evaluate is 2 in OCFLStrategy; allowed: 0 to 1."),
        (
            lambda: flower.HierarchicalStrategy(linkage="ward"),
            "linkage 'ward' needs distance 'euclidean', not 'cosine'.",
        ),
        (
            lambda: start(flower.HierarchicalStrategy(), grid(), num_rounds=4),
            "clustering_round is 5, but the number of rounds is 4, so clients would never be clustered; set it no "
            "higher "
            "than that.",
        ),
        (lambda: start(flower.OCFLStrategy(), grid(), num_rounds=0), "num_rounds is 0; allowed: whole numbers from 1."),
        (
            lambda: start(flower.OCFLStrategy(), grid(), num_rounds="3"),
            "num_rounds is '3'; allowed: whole numbers from 1.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), timeout=0),
            "timeout is 0; allowed: above 0, in seconds, or None.",
        ),
        (
            lambda: flower.OCFLStrategy(min_train_nodes=-1),
            "min_train_nodes is -1 in OCFLStrategy; allowed: whole numbers from 0.",
        ),
        (
            lambda: flower.OCFLStrategy(weighted_by_key=None),
            "weighted_by_key is None in OCFLStrategy; allowed: names.",
        ),
        (
            lambda: flower.OCFLStrategy(evaluate_metrics_aggr_fn="mean"),
            "evaluate_metrics_aggr_fn is 'mean' in OCFLStrategy; allowed: functions, and None.",
        ),
        (
            lambda: flower.OCFLStrategy(fraction_fit=0.5),
            "OCFLStrategy has no parameter 'fraction_fit': it is called fraction_train here.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), initial_arrays=network().state_dict()),
            "initial_arrays is of type OrderedDict; give an ArrayRecord, as in ArrayRecord(model.state_dict()), or a "
            "list of them.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), initial_arrays=[]),
            "initial_arrays is of type list, which is empty; give an ArrayRecord, as in "
            "ArrayRecord(model.state_dict()), or a list of them.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), train_config=0.1),
            "train_config is of type float; give a ConfigRecord, or a function that returns one for a round.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), evaluate_fn=lambda number, arrays: 0.5),
            "evaluate_fn returned float, which is no MetricRecord ('float' object is not iterable).",
        ),
        (
            lambda: flower.OCFLStrategy().configure_train(1, ArrayRecord(), ConfigRecord(), grid()),
            "OCFLStrategy has a model for every cluster, so no other strategy can wrap it; call its start(). Flower's "
            "differential privacy at the server protects the mean of one model, but neither the choice of clusters nor "
            "means of a few nodes; add LocalDpMod to the client app instead.",
        ),
    ],
)
def test_what_is_not_allowed_gets_a_sentence(make, sentence):
    with pytest.raises(FedkinError) as refused:
        make()
    assert str(refused.value) == sentence


def test_unknown_parameters_are_no_parameters():
    with pytest.raises(TypeError, match=r"OCFLStrategy has no parameter 'fraction_trian'; did you mean 'fraction_t"):
        flower.OCFLStrategy(fraction_trian=0.5)
    with pytest.raises(TypeError, match=r"OCFLStrategy has no parameter 'zzz'; it has aggregation, arrayrecord_key, "):
        flower.OCFLStrategy(zzz=0.5)
    with pytest.raises(TypeError, match=r"takes parameters by name, as in OCFLStrategy\(fraction_train=0.5\)"):
        flower.OCFLStrategy(0.5)


def test_parameters_can_be_read_and_shown():
    strategy = flower.IFCAStrategy(n_clusters=4, fraction_train=0.5)
    assert (strategy.n_clusters, strategy.fraction_train, strategy.empty) == (4, 0.5, "keep")
    assert repr(strategy) == "IFCAStrategy(fraction_train=0.5, n_clusters=4)"
    assert not hasattr(strategy, "clusters")


def test_a_strategy_of_ones_own_inherits_its_method():
    class Quiet(flower.OCFLStrategy):
        def summary(self) -> None:
            pass

    assert "clusterer" in inspect.signature(Quiet).parameters
    assert start(Quiet(clusterer="meanshift"), grid()).method == "OCFL"
    with pytest.raises(FedkinError, match=r"^Mine.configure_train would never be called: .* function of the round"):
        type("Mine", (flower.OCFLStrategy,), {"configure_train": None})


def test_configurations_can_be_functions_of_the_round():
    where = grid()
    start(
        flower.OCFLStrategy(),
        where,
        train_config=lambda number: ConfigRecord({"steps": 5, "rate": 0.5 / number}),
        timeout=None,
    )
    rates = {m.content["config"]["rate"] for m in where.sent if m.metadata.message_type == MessageType.TRAIN}
    assert rates == {0.5, 0.25, 0.5 / 3}
    with pytest.raises(FedkinError, match="train_config of round 1 is no configuration that Flower can send"):
        start(flower.OCFLStrategy(), grid(), train_config=lambda number: {"rate": None})
    with pytest.raises(FedkinError, match="train_config of round 1 is no configuration that Flower can send"):
        start(flower.OCFLStrategy(), grid(), train_config=lambda number: None)


def test_a_round_waits_for_a_node_that_takes_part(monkeypatch, caplog):
    """The only nodes that are connected have no seat, until those that have one are back."""
    caplog.set_level("INFO", "flwr")
    monkeypatch.setattr("fedkin.flower.rounds.PATIENCE", 0.0)
    monkeypatch.setattr("fedkin.flower.message_federation._LATECOMERS", 0)
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


def test_so_many_nodes_train_and_evaluate():
    where = grid()
    start(flower.OCFLStrategy(fraction_train=0.5, fraction_evaluate=0.4, seed=4), where, num_rounds=4)
    rounds = [sent(where, MessageType.TRAIN, number) for number in range(1, 5)]
    assert [len(set(one)) for one in rounds] == [3] * 4
    assert len({tuple(sorted(one)) for one in rounds}) > 1
    assert [len(sent(where, MessageType.EVALUATE, number)) for number in range(1, 5)] == [2] * 4


def test_at_least_so_many_do():
    where = grid()
    start(
        flower.OCFLStrategy(fraction_train=0.1, fraction_evaluate=0.1, min_train_nodes=4, min_evaluate_nodes=5), where
    )
    assert len(sent(where, MessageType.TRAIN, 1)) == 4
    assert len(sent(where, MessageType.EVALUATE, 1)) == 5


@pytest.mark.parametrize(("nodes", "fraction"), [(7, 0.5), (6, 0.45), (3, 0.99), (6, 0.4), (5, 1.0), (7, 0.01)])
def test_as_many_train_as_with_flowers_fedavg(nodes, fraction):
    counts = []
    for strategy in (
        flower.FedAvgStrategy(fraction_train=fraction, min_train_nodes=1, min_available_nodes=1),
        FlowersFedAvg(fraction_train=fraction, min_train_nodes=1, min_available_nodes=1),
    ):
        where = grid([0] * nodes)
        if isinstance(strategy, FlowersFedAvg):
            messages = strategy.configure_train(1, app_nodes.arrays(network), ConfigRecord(), where)
            counts.append(len(list(messages)))
        else:
            start(strategy, where, num_rounds=1)
            counts.append(len(sent(where, MessageType.TRAIN, 1)))
    assert counts[0] == counts[1]


def test_it_waits_for_nodes(monkeypatch):
    where = grid()
    where.away = {4, 5}

    def arrive(seconds: float) -> None:
        where.away.pop()

    monkeypatch.setattr("fedkin.flower.strategy.time.sleep", arrive)
    start(flower.OCFLStrategy(min_available_nodes=6), where)
    assert sorted(sent(where, MessageType.TRAIN, 1)) == [0, 1, 2, 3, 4, 5]


def test_the_app_gets_what_flower_would_send_it():
    where = grid()
    settings = ConfigRecord({"batch": 7})
    start(flower.OCFLStrategy(), where, num_rounds=2, evaluate_config=settings)
    train, evaluate = where.sent[0].content["config"], where.sent[-1].content["config"]
    assert dict(train) == {**app_nodes.START, "server-round": 1}
    assert dict(evaluate) == {"batch": 7, "server-round": 2}
    assert dict(settings) == {"batch": 7}


def test_metrics_are_means_weighted_by_examples():
    where = grid(more=lambda client: {"number": client.id, "pair": [1.0 * client.id, 1.0]})
    result = start(flower.FedAvgStrategy(), where, num_rounds=2)
    weights = [12, 24, 36, 12, 24, 36]
    expected = sum(at * weight for at, weight in enumerate(weights)) / sum(weights)
    assert result.train_metrics_clientapp[2]["number"] == pytest.approx(expected)
    assert result.train_metrics_clientapp[2]["pair"] == pytest.approx([expected, 1.0])
    assert {node: metrics["number"] for node, metrics in result.train_metrics_by_node.items()} == {
        where.node(at): at for at in range(6)
    }
    assert set(result.evaluate_metrics_clientapp) == {1, 2}
    assert result.evaluate_metrics_by_cluster[2][0] == result.evaluate_metrics_clientapp[2]


def test_each_cluster_has_metrics_of_its_own():
    where = grid()
    result = start(flower.HierarchicalStrategy(clustering_round=1), where, num_rounds=2)
    parts = result.evaluate_metrics_by_cluster[2]
    shares = {0: (12 + 12 + 36) / 144, 1: (24 + 36 + 24) / 144}
    mean = sum(parts[cluster]["eval_loss"] * share for cluster, share in shares.items())
    assert result.evaluate_metrics_clientapp[2]["eval_loss"] == pytest.approx(mean)
    assert parts[0]["eval_loss"] != parts[1]["eval_loss"]


def test_each_node_has_its_evaluation_of_its_clusters_model():
    where = grid()
    result = start(flower.HierarchicalStrategy(clustering_round=1), where, num_rounds=2)
    by_node = result.evaluate_metrics_by_node[2]
    assert set(by_node) == set(result.clusters)
    asked = {
        m.metadata.dst_node_id: m.content["arrays"]
        for m in where.sent
        if m.metadata.message_type == MessageType.EVALUATE and m.content["config"]["server-round"] == 2
    }
    for node in by_node:
        assert torch.equal(app_nodes.vector(asked[node]), app_nodes.vector(result.arrays_of(node)))
    assert len({metrics["eval_loss"] for metrics in by_node.values()}) == 6


def test_ones_own_aggregation_is_called():
    def count(records: list[Any], key: str) -> MetricRecord:
        return MetricRecord({"nodes": len(records), "sum": sum(r["metrics"][key] for r in records)})

    result = start(flower.OCFLStrategy(train_metrics_aggr_fn=count, evaluate_metrics_aggr_fn=count), grid())
    assert dict(result.train_metrics_clientapp[1]) == {"nodes": 6, "sum": 144}
    assert dict(result.evaluate_metrics_clientapp[1]) == {"nodes": 6, "sum": 144}


def test_different_metrics_are_not_averaged(caplog):
    result = start(flower.FedAvgStrategy(), grid(more=lambda client: {"odd": 1} if client.id == 2 else {}))
    assert result.train_metrics_clientapp == {}
    assert "Nodes replied with different metrics, which are not averaged." in caplog.text


def test_the_server_evaluates_the_largest_cluster():
    seen: dict[int, ArrayRecord] = {}

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        seen[number] = arrays
        return MetricRecord({"round": number}) if number != 1 else None

    result = start(flower.HierarchicalStrategy(clustering_round=1), grid([0, 1, 1, 0, 1, 1]), evaluate_fn=evaluate)
    assert list(seen) == [0, 1, 2, 3]
    assert torch.equal(app_nodes.vector(seen[0]), app_nodes.vector(app_nodes.arrays(network)))
    assert torch.equal(app_nodes.vector(seen[3]), app_nodes.vector(result.arrays))
    assert result.arrays is result.arrays_by_cluster[result.clusters[1007]]
    assert set(result.evaluate_metrics_serverapp) == {0, 2, 3}


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
    assert result.records[0]["missing"] == {3: "no reply in 0.3 seconds"}
    assert result.records[1]["missing"] == {4: "error 5: gone"}
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
    assert reason in result.records[0]["missing"][2]
    assert bool(app_nodes.vector(result.arrays).isfinite().all())
    assert 2 not in result.records[0]["answered"]


def test_a_node_that_explodes_the_model_is_left_out_and_the_others_go_on(caplog):
    where = grid()
    huge = lambda c: c.update({"arrays": ArrayRecord({k: torch.full(v.shape, 1e9) for k, v in c["arrays"].items()})})  # noqa: E731
    spoils(where, huge, {2})
    result = start(flower.OCFLStrategy(), where)
    assert "Node 1014 is left out of the run: its update has length" in caplog.text
    assert "its update has length" in result.records[0]["missing"][2]
    assert float(app_nodes.vector(result.arrays).abs().max()) < 100


@pytest.mark.parametrize("strategy", [flower.OCFLStrategy, lambda: flower.IFCAStrategy(n_clusters=2)])
def test_weights_need_not_be_whole_numbers(strategy):
    plain, where = grid(), grid()
    spoils(where, lambda c: c["metrics"].update({"num-examples": c["metrics"]["num-examples"] / 8}), set(range(6)))
    expected, found = (app_nodes.vector(start(strategy(), nodes).arrays) for nodes in (plain, where))
    torch.testing.assert_close(found, expected)


def test_an_app_that_is_none_is_refused_at_once():
    where = grid()
    spoils(where, lambda c: c["metrics"].pop("num-examples"), set(range(6)))
    with pytest.raises(FedkinError) as refused:
        start(flower.OCFLStrategy(), where)
    assert str(refused.value) == (
        "No reply of the client app can be used: 'num-examples' is absent in its metrics; it should be a number "
        "above 0."
    )


@pytest.mark.parametrize("given", [1, 3])
def test_ifca_needs_a_loss(given):
    first = [app_nodes.arrays(network, k) for k in range(given)]
    with pytest.raises(FedkinError, match="its evaluation has no number 'test_loss'"):
        start(flower.IFCAStrategy(eval_loss_key="test_loss"), grid(), initial_arrays=first)


def test_sattler_ends_without_a_loss(caplog):
    strategy = flower.SattlerStrategy(cooldown=1, mean_below=0.5, separation=1.0, eval_loss_key="test_loss")
    result = start(strategy, grid(), num_rounds=5)
    assert planted.same_partition(list(result.clusters.values()), CLUSTERS)
    assert result.own_arrays == {}
    assert "No reply of the client app can be used: its evaluation has no number 'test_loss'." in caplog.text


def spoils(where: app_nodes.Fleet, spoil: Any, partitions: set[int]) -> None:
    """Have some partitions' training reply otherwise."""
    train = where.app._registered_funcs["train.default"]

    def spoilt(message: Any, context: Any) -> Any:
        reply = train(message, context)
        if context.node_config["partition-id"] in partitions:
            spoil(reply.content)
        return reply

    where.app._registered_funcs["train.default"] = spoilt


def test_traffic_is_counted():
    result = start(flower.IFCAStrategy(n_clusters=1, fraction_evaluate=0.0), grid(), num_rounds=1)
    size = 4 * 42
    record = result.records[-1]
    assert 6 * 2 * size < record["sent"] - 2 * size < 6 * (2 * size + 400)
    assert 6 * size < record["received"] - size < 6 * (size + 200)


def test_a_cluster_of_nobody_keeps_its_model():
    where = grid([0] * 6)
    rng = torch.Generator().manual_seed(0)
    first = [app_nodes.arrays(network)] * 2
    first[1] = ArrayRecord({name: 99 * torch.randn(array.shape, generator=rng) for name, array in first[0].items()})
    result = flower.IFCAStrategy(n_clusters=2).start(
        grid=where, initial_arrays=first, num_rounds=2, train_config=app_nodes.START
    )
    assert set(result.clusters.values()) == {0}
    assert torch.equal(app_nodes.vector(result.arrays_by_cluster[1]), app_nodes.vector(first[1]))
