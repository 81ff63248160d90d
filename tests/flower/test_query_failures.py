"""Nodes that answer fedkin's query wrongly, or not at all."""

import json
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

import app_nodes
import pictures
from fedkin import flower
from fedkin.core.payload import owned, to_bytes
from fedkin.engines.flower_engine.transport import content, read
from query_apps import grid, network, start


def spoilt(where: app_nodes.Fleet, change: Any, partition: int = 2) -> app_nodes.Fleet:
    """Have one partition answer every query otherwise."""
    real = where.app._registered_funcs["query.fedkin"]

    def odd(message: Any, context: Any) -> Any:
        reply = real(message, context)
        if context.node_config["partition-id"] != partition:
            return reply
        answer = change(dict(read(reply.content).tree()))
        return Message(content(to_bytes(owned(answer))), reply_to=message)

    where.app._registered_funcs["query.fedkin"] = odd
    return where


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"classes": 0}, "its samples have no labels"),
        ({"classes": 10**6}, "'classes' is not what it should be"),
        ({"shape": [1, 10**9, 10**9]}, "'shape' is not what it should be"),
        ({"shape": [1, 5, 5]}, "its shape [1, 5, 5] is not the others'"),
    ],
)
def test_a_node_that_lies_at_the_start_is_left_out_and_the_others_get_their_result(lie, reason, caplog):
    where = spoilt(grid(pictures.clients()), lambda answer: answer | (lie if "classes" in answer else {}))
    result = start(flower.EmbeddingStrategy(pretraining_rounds=0, flip=0.05), where, rounds=1)
    assert f"Node {where.node(2)} is left out of the run: {reason}" in caplog.text
    assert all(reason in record["missing"][2] for record in result.records)
    assert sorted(result.clusters) == sorted(where.node(at) for at in range(len(pictures.TURNS)) if at != 2)


def test_a_run_waits_for_the_first_names(monkeypatch):
    """As in a simulation on a busy machine, whose nodes do not answer in time."""
    monkeypatch.setattr("fedkin.flower.rounds.PATIENCE", 0.0)
    where = grid(pictures.clients())
    where.troubles = lambda message, partition: "lost" if len(where.sent) <= 3 * len(pictures.TURNS) else None
    result = flower.OCFLStrategy(names=True).start(
        grid=where, initial_arrays=app_nodes.arrays(network), num_rounds=2, timeout=0.1, train_config=app_nodes.START
    )
    assert result.nodes == list(range(len(pictures.TURNS)))


def test_what_is_no_answer_is_missing():
    where = grid(pictures.clients())
    real = where.app._registered_funcs["query.fedkin"]

    def odd(message: Any, context: Any) -> Any:
        if context.node_config["partition-id"] == 2:
            return Message(RecordDict({"config": ConfigRecord({"payload": "[]"})}), reply_to=message)
        return real(message, context)

    where.app._registered_funcs["query.fedkin"] = odd
    result = start(flower.EmbeddingStrategy(pretraining_rounds=0, flip=0.05), where, rounds=1)
    assert "it is not a reply of fedkin.flower.describes" in result.records[0]["missing"][2]
    assert where.node(2) not in result.clusters


def test_an_answer_nested_too_deep_is_missing():
    where = grid(pictures.clients())
    real = where.app._registered_funcs["query.fedkin"]
    header = json.dumps({"__metadata__": {"tree": 100_000 * "[" + 100_000 * "]"}}).encode()
    deep = content(len(header).to_bytes(8, "little") + header)

    def odd(message: Any, context: Any) -> Any:
        return Message(deep, reply_to=message) if context.node_config["partition-id"] == 2 else real(message, context)

    where.app._registered_funcs["query.fedkin"] = odd
    result = start(flower.EmbeddingStrategy(pretraining_rounds=0, flip=0.05), where, rounds=1)
    assert "it is not a reply of fedkin.flower.describes" in result.records[0]["missing"][2]
