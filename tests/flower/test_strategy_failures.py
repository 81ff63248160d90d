"""Nodes that fail, and replies that cannot be used."""

from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, Error, MessageType, MetricRecord

import app_nodes
import planted
from app_runs import CLUSTERS, grid, start
from fedkin import flower
from fedkin.core import FedkinError


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
    monkeypatch.setattr("fedkin.flower.rounds.PATIENCE", 0.0)
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


def test_an_app_that_is_none_is_refused_at_once():
    where = grid()
    spoils(where, lambda c: c["metrics"].pop("num-examples"), set(range(6)))
    with pytest.raises(FedkinError) as refused:
        start(flower.OCFLStrategy(), where)
    assert str(refused.value) == (
        "No reply of the client app can be used: 'num-examples' is absent in its metrics; it should be a number "
        "above 0."
    )
