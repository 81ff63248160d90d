"""What a node says of its data, and what it does not."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

import app_nodes
import pictures
import planted
from fedkin import flower
from fedkin.core import FedkinError
from fedkin.core.payload import owned, to_bytes
from fedkin.core.tasks import Task
from fedkin.engines.flower_engine.messages import content, read
from fedkin.flower import query
from fedkin.methods.clients import client_method, fedrc, ladd
from fedkin.methods.clients.embedding import embedding
from fedkin.nn.encoder import Encoder
from fedkin.privacy.randomised_response import unpacked
from query_apps import FEDRC, SWAPPED, grid, start

SHAPE = (1, pictures.SIDE, pictures.SIDE)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "describes() was given no network"),
        (lambda: nn.Linear(7, 6), "The network given to describes() cannot be used: RuntimeError"),
        (lambda: nn.LSTM(6, 6), "turns two samples into type tuple, not rows of logits"),
        (lambda: nn.Linear(6, 3), "The network given to describes() has 3 logits, but labels go up to 5"),
        (lambda: nn.Linear(6, 6), "has 42 numbers, and the models of the server are of shape"),
    ],
)
def test_a_network_that_cannot_be_trained_is_reported(given, sentence):
    clients = planted.clients(SWAPPED, planted.OPPOSITE)
    answer = flower.describes(lambda _: (clients[0].x, clients[0].y), network=given)
    training = {name: value for name, value in FEDRC.items() if name != "n_clusters"}
    payload = {"module": {"name": "a", "shape": [6], "classes": 6}, "models": torch.zeros(2, 9), "training": training}
    refused = [
        reason(task, sent, answer) for task, sent in ((client_method.describe, {}), (fedrc.weigh_and_train, payload))
    ]
    assert sentence in refused[0] or sentence in refused[1]


def reason(task: Task, payload: dict[str, Any], answer: Any) -> str:
    """Why a node does not do a task; empty if it does."""
    try:
        asked(task, payload, context(), answer)
    except FedkinError as error:
        return str(error)
    return ""


def test_requests_are_checked_before_they_are_done():
    client = pictures.client(0)
    with pytest.raises(FedkinError, match="is not done with this request: 'window'"):
        asked(ladd.describe_style, {"style": "client", "window": 3.0, "segments": 1}, context(), flower.describes(
            lambda _: (client.x, client.y)
        ))  # fmt: skip


def asked(task: Task, payload: dict[str, Any], context: Context, answer: Any, exchange: int = 1) -> Any:
    app_nodes.Fleet(ClientApp(), 1)
    message = Message(query.request(task, payload, exchange), 1, "query.fedkin")
    return read(answer(message, context).content).tree()


def context(partition: int = 0) -> Context:
    return Context(run_id=1, node_id=9, node_config={"partition-id": partition}, state=RecordDict(), run_config={})


def how(flip: float) -> dict[str, Any]:
    encoder = Encoder.of({"name": "dense-autoencoder", "shape": SHAPE, "output": "linear"})
    spec = {"encoder": encoder.spec(), "vector": encoder.initial(torch.Generator().manual_seed(0))}
    return spec | {
        "form": "classes",
        "segments": pictures.CLASSES,
        "normalise": "segment",
        "batch_statistics": False,
        "flip": flip,
    }


def test_a_node_says_what_the_task_says():
    client = pictures.client(0)
    answer = flower.describes(lambda _: (client.x, client.y))
    assert asked(client_method.describe, {}, context(), answer) == {"shape": list(SHAPE), "classes": pictures.CLASSES}
    found = asked(embedding.extent, {}, context(), answer)
    assert found == {"least": float(client.x.min()), "greatest": float(client.x.max())}
    payload = {"style": "client", "window": 0.2, "segments": 1}
    style = asked(ladd.describe_style, payload, context(), answer)["style"]
    assert torch.equal(style, ladd.style_of(client, payload)[0])


def test_bits_that_were_flipped_stay_flipped_in_a_run():
    client = pictures.client(0)
    answer, place = flower.describes(lambda _: (client.x, client.y)), context()
    said = [asked(embedding.embed, how(0.3), place, answer, exchange)["bits"] for exchange in range(3)]
    assert torch.equal(said[0], said[1])
    assert torch.equal(said[0], said[2])
    true, _ = embedding.true_bits(client, how(0.3))
    wrong = (unpacked(said[0], true.numel()) != true.flatten()).float().mean()
    assert 0.1 < float(wrong) < 0.5


@pytest.mark.parametrize(
    ("loaded", "sentence"),
    [
        (np.zeros((3, 2)), "Node 4: the function given to describes() must return (x, y), not ndarray."),
        ((np.zeros((3, 2)), [0, 1]), "Node 4 has labels of type int64 and shape (2,) for 3 samples; they should be"),
        ((np.zeros((3, 2)), [0, 1, -1]), "Node 4 has labels of type int64 and shape (3,) for 3 samples; "),
        ((np.zeros((3, 2)), [0.0, 1, 2]), "Node 4 has labels of type float64 and shape (3,) for 3 samples; "),
        ((np.full((3, 2), np.nan), [0, 1, 2]), "Node 4 has missing or infinite values in 3 of 3 samples; "),
    ],
)
def test_data_that_cannot_be_used_are_reported(loaded, sentence):
    with pytest.raises(FedkinError) as refused:
        asked(client_method.describe, {}, context(4), flower.describes(lambda _: loaded))
    assert str(refused.value).startswith(sentence)


def spoilt(where: app_nodes.Fleet, change: Any) -> app_nodes.Fleet:
    """Have one partition answer every query otherwise: `change` makes the content of the reply from its payload."""
    real = where.app._registered_funcs["query.fedkin"]

    def odd(message: Any, context: Any) -> Any:
        reply = real(message, context)
        if context.node_config["partition-id"] != 2:
            return reply
        return Message(change(dict(read(reply.content).tree())), reply_to=message)

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
    where = spoilt(
        grid(pictures.clients()), lambda answer: content(to_bytes(owned(answer | (lie if "classes" in answer else {}))))
    )
    result = start(flower.EmbeddingStrategy(pretraining_rounds=0, flip=0.05), where, rounds=1)
    assert f"Node {where.node(2)} is left out of the run: {reason}" in caplog.text
    assert all(reason in record["missing"][2] for record in result.records)
    assert sorted(result.clusters) == sorted(where.node(at) for at in range(len(pictures.TURNS)) if at != 2)


_DEEP = json.dumps({"__metadata__": {"tree": 100_000 * "[" + 100_000 * "]"}}).encode()


@pytest.mark.parametrize(
    "answer",
    [RecordDict({"config": ConfigRecord({"payload": "[]"})}), content(len(_DEEP).to_bytes(8, "little") + _DEEP)],
    ids=["another record", "nested too deep"],
)
def test_what_is_no_answer_is_missing(answer):
    where = spoilt(grid(pictures.clients()), lambda _: answer)
    result = start(flower.EmbeddingStrategy(pretraining_rounds=0, flip=0.05), where, rounds=1)
    assert "it is not a reply of fedkin.flower.describes" in result.records[0]["missing"][2]
    assert where.node(2) not in result.clusters


def test_flips_are_nobodys_to_know_unless_a_seed_is_given():
    client = pictures.client(0)

    def said(seed: int | None, partition: int = 0) -> torch.Tensor:
        answer = flower.describes(lambda _: (client.x, client.y), seed)
        return asked(embedding.embed, how(0.5), context(partition), answer)["bits"]

    assert not torch.equal(said(None), said(None))
    assert torch.equal(said(3), said(3))
    assert not torch.equal(said(3), said(4))
    assert not torch.equal(said(3), said(3, partition=1))


def test_a_node_does_nothing_else():
    client = pictures.client(0)
    with pytest.raises(FedkinError) as refused:
        asked(client_method.train, {}, context(), flower.describes(lambda _: (client.x, client.y)))
    assert str(refused.value).startswith(
        "This node was asked for 'fedkin.methods.clients.client_method.train'; it answers only fedkin.methods."
    )
