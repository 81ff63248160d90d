"""What a node says of its data, and what it does not."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

import app_nodes
import pictures
import planted
from fedkin import flower
from fedkin.core import Client, FedkinError
from fedkin.core.task import Task
from fedkin.core.trees import owned, to_bytes
from fedkin.engines.flower.wire import content, read
from fedkin.flower import query
from fedkin.methods.clients import client_tasks, fedrc, flux, ladd
from fedkin.methods.clients.embedding import embedding_tasks
from fedkin.nn.classifier import Classifier
from fedkin.nn.encoder import Encoder
from fedkin.privacy.randomised_response import unpacked

SHAPE = (1, pictures.SIDE, pictures.SIDE)


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(pictures.SIDE**2, pictures.CLASSES))


def grid(clients: list[Client], labelled: bool = True, seed: int | None = 5) -> app_nodes.Fleet:
    app = app_nodes.client_app(clients, network)

    def load(context: Context) -> Any:
        client = clients[int(context.node_config["partition-id"])]
        return client.x.numpy(), client.y.numpy() if labelled else None

    app.query("fedkin")(flower.describes(load, seed))
    return app_nodes.Fleet(app, len(clients))


def start(strategy: Any, where: app_nodes.Fleet, rounds: int = 3) -> Any:
    return strategy.start(
        grid=where, initial_arrays=app_nodes.arrays(network), num_rounds=rounds, timeout=5, train_config=app_nodes.START
    )


@pytest.mark.parametrize("form", ["classes", "prototypes"])
def test_embedding_finds_planted_clusters(form):
    where = grid(pictures.clients(), labelled=form == "classes")
    result = start(flower.EmbeddingStrategy(form=form, prototypes=5, pretraining_rounds=1, flip=0.05), where, rounds=2)
    assert planted.same_partition(list(result.clusters.values()), pictures.TURNS)
    assert [entry["round"] for entry in result.records] == [0, 0, 1, 2]
    assert [entry["phase"] for entry in result.records] == ["pre-training", "embedding", "training", "training"]
    assert len(result.arrays_by_cluster) == 3
    assert set(result.evaluate_metrics_clientapp) == {1, 2}


def test_ladd_finds_planted_clusters():
    styles = [0, 1, 0, 1, 1, 0, 0, 1]
    stripes = torch.cos(torch.arange(8) * torch.pi / 4).expand(8, 8)
    clients = []
    for number, style in enumerate(styles):
        client = pictures.client(number)
        client.x += 3 * (stripes if style else stripes.T)
        clients.append(client)
    result = start(flower.LADDStrategy(n_clusters=2, window=0.2), grid(clients))
    assert planted.same_partition(list(result.clusters.values()), styles)


@pytest.mark.parametrize("bases", ["class", "client"])
def test_pacfl_finds_planted_clusters(bases):
    where = grid(pictures.clients(), labelled=bases == "class")
    result = start(flower.PACFLStrategy(bases=bases, threshold=None), where)
    assert planted.same_partition(list(result.clusters.values()), pictures.TURNS)
    assert [entry["phase"] for entry in result.records] == ["embedding", *["training"] * 3]


FEDRC = {"n_clusters": 2, "local_steps": 5, "batch_size": 1000, "learning_rate": 0.5}
SWAPPED = [0, 1, 1, 0, 1, 0]


def weighing(kind: Any = planted.normalised, given: Any = None) -> app_nodes.Fleet:
    """Nodes that call classes differently, whose network fedkin trains; their own training must not be asked for."""
    clients = planted.clients(SWAPPED, planted.OPPOSITE)

    def make() -> nn.Module:
        return kind((planted.CLASSES,), planted.CLASSES)

    def load(context: Context) -> Any:
        client = clients[int(context.node_config["partition-id"])]
        return client.x, client.y

    app = app_nodes.client_app(clients, make)
    del app._registered_funcs["train.default"]
    app.query("fedkin")(flower.describes(load, 5, make if given is None else given))
    return app_nodes.Fleet(app, len(clients))


def weigh(where: app_nodes.Fleet, first: Any, rounds: int = 6) -> Any:
    strategy = flower.FedRCStrategy(**FEDRC, seed=1)
    return strategy.start(grid=where, initial_arrays=first, num_rounds=rounds, timeout=5)


@pytest.mark.parametrize("kind", [planted.linear, planted.normalised])
def test_fedrc_is_the_same_as_on_the_local_engine(kind):
    settings = planted.LEARNING | FEDRC | {"module": f"planted:{kind.__name__}", "rounds": 6}
    done = planted.run(fedrc.FedRCMethod(**settings), planted.clients(SWAPPED, planted.OPPOSITE), seed=1)
    classifier = Classifier.of(done.states[0].module)
    result = weigh(weighing(kind), [
        ArrayRecord(classifier.module(model).state_dict()) for model in done.states[0].models
    ])  # fmt: skip
    assert list(result.clusters.values()) == done.labels
    assert planted.same_partition(done.labels, SWAPPED)
    for got, model in zip(result.arrays_by_cluster, done.result["models"], strict=True):
        expected = ArrayRecord(classifier.module(model).state_dict())
        assert torch.allclose(app_nodes.vector(got), app_nodes.vector(expected), atol=2e-5)
    assert np.allclose(list(result.memberships.values()), done.result["memberships"], atol=1e-5)
    assert len(result.records[-1]["memberships"]) == len(SWAPPED)
    assert result.evaluate_metrics_clientapp[6]["eval_acc"] == pytest.approx(1.0)
    assert set(result.train_metrics_clientapp[6]) == {"train_loss"}


def test_flux_is_the_same_as_on_the_local_engine():
    clients = planted.clients(SWAPPED, planted.OPPOSITE)
    settings: dict[str, Any] = {"warm_up": 1, "dimensions": 3}
    done = planted.run(flux.FLUXMethod(**planted.LEARNING, **settings, rounds=3), clients, seed=1)

    def load(context: Context) -> Any:
        client = clients[int(context.node_config["partition-id"])]
        return client.x, client.y

    def make() -> nn.Module:
        return planted.linear((planted.CLASSES,), planted.CLASSES)

    app = app_nodes.client_app(clients, make)
    app.query("fedkin")(flower.describes(load, 5, make))
    first = ArrayRecord(Classifier.of(done.states[0].module).module(done.states[0].models[0]).state_dict())
    result = flower.FLUXStrategy(**settings, seed=1).start(
        grid=app_nodes.Fleet(app, 6), initial_arrays=first, num_rounds=3, timeout=5, train_config=app_nodes.START
    )
    assert list(result.clusters.values()) == done.labels
    assert planted.same_partition(done.labels, SWAPPED)
    assert [entry["round"] for entry in result.records] == [1, 0, 2, 3]


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
        reason(task, sent, answer) for task, sent in ((client_tasks.describe, {}), (fedrc.weigh_and_train, payload))
    ]
    assert sentence in refused[0] or sentence in refused[1]


def reason(task: Task, payload: dict[str, Any], answer: Any) -> str:
    """Why a node does not do a task; empty if it does."""
    try:
        asked(task, payload, context(), answer)
    except FedkinError as error:
        return str(error)
    return ""


def test_fedrc_says_which_query_it_needs():
    where = weighing()
    del where.app._registered_funcs["query.fedkin"]
    with pytest.raises(FedkinError, match=r"app.query\('fedkin'\)\(fedkin.flower.describes\(load, network=Net\)\)"):
        weigh(where, [app_nodes.arrays(network)] * 2)


def test_requests_are_checked_before_they_are_done():
    client = pictures.client(0)
    with pytest.raises(FedkinError, match="is not done with this request: 'window'"):
        asked(ladd.describe_style, {"style": "client", "window": 3.0, "segments": 1}, context(), flower.describes(
            lambda _: (client.x, client.y)
        ))  # fmt: skip


def test_a_simulation_can_pickle_it_and_train_with_many_copies():
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    clients = planted.clients(SWAPPED, planted.OPPOSITE)
    app = app_nodes.client_app(clients, lambda: planted.linear((6,), 6))
    app.query("fedkin")(flower.describes(lambda _: (clients[0].x, clients[0].y), 5, lambda: planted.linear((6,), 6)))
    packed = cloudpickle.dumps(app)
    assert b"weigh_and_train" not in packed
    copies = [cloudpickle.loads(packed)._registered_funcs["query.fedkin"] for _ in range(2)]
    assert copies[0].network.name == copies[1].network.name
    replies = [asked(client_tasks.describe, {}, context(), copy) for copy in copies]
    assert replies == [{"shape": [6], "classes": 6}] * 2


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
    assert asked(client_tasks.describe, {}, context(), answer) == {"shape": list(SHAPE), "classes": pictures.CLASSES}
    found = asked(embedding_tasks.extent, {}, context(), answer)
    assert found == {"least": float(client.x.min()), "greatest": float(client.x.max())}
    payload = {"style": "client", "window": 0.2, "segments": 1}
    style = asked(ladd.describe_style, payload, context(), answer)["style"]
    assert torch.equal(style, ladd.style_of(client, payload)[0])


def test_bits_that_were_flipped_stay_flipped_in_a_run():
    client = pictures.client(0)
    answer, place = flower.describes(lambda _: (client.x, client.y)), context()
    said = [asked(embedding_tasks.embed, how(0.3), place, answer, exchange)["bits"] for exchange in range(3)]
    assert torch.equal(said[0], said[1])
    assert torch.equal(said[0], said[2])
    true, _ = embedding_tasks.true_bits(client, how(0.3))
    wrong = (unpacked(said[0], true.numel()) != true.flatten()).float().mean()
    assert 0.1 < float(wrong) < 0.5


def test_flips_are_nobodys_to_know_unless_a_seed_is_given():
    client = pictures.client(0)

    def said(seed: int | None, partition: int = 0) -> torch.Tensor:
        answer = flower.describes(lambda _: (client.x, client.y), seed)
        return asked(embedding_tasks.embed, how(0.5), context(partition), answer)["bits"]

    assert not torch.equal(said(None), said(None))
    assert torch.equal(said(3), said(3))
    assert not torch.equal(said(3), said(4))
    assert not torch.equal(said(3), said(3, partition=1))


def test_a_node_does_nothing_else():
    client = pictures.client(0)
    with pytest.raises(FedkinError) as refused:
        asked(client_tasks.train, {}, context(), flower.describes(lambda _: (client.x, client.y)))
    assert str(refused.value).startswith(
        "This node was asked for 'fedkin.methods.clients.client_tasks.train'; it answers only fedkin.methods."
    )


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
        asked(client_tasks.describe, {}, context(4), flower.describes(lambda _: loaded))
    assert str(refused.value).startswith(sentence)


def test_an_app_without_the_query_learns_what_it_needs():
    clients = pictures.clients()
    where = app_nodes.Fleet(app_nodes.client_app(clients, network), len(clients))
    with pytest.raises(FedkinError) as refused:
        start(flower.EmbeddingStrategy(), where)
    assert "No query function registered with name 'fedkin'" in str(refused.value)
    assert "it needs app.query('fedkin')(fedkin.flower.describes(load))" in str(refused.value)


def test_classes_need_labels():
    with pytest.raises(FedkinError, match="its samples have no labels, which this strategy needs"):
        start(flower.EmbeddingStrategy(), grid(pictures.clients(), labelled=False))


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


def test_a_node_that_is_silent_at_first_does_not_keep_the_others():
    where = grid(pictures.clients())
    where.troubles = lambda message, partition: "lost" if partition == 3 and len(where.sent) < 40 else None
    result = flower.EmbeddingStrategy(pretraining_rounds=0, flip=0.05).start(
        grid=where, initial_arrays=app_nodes.arrays(network), num_rounds=1, timeout=0.2, train_config=app_nodes.START
    )
    assert planted.same_partition(list(result.clusters.values()), pictures.TURNS)
    assert result.records[0]["missing"] != {}


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
    assert "it is no answer of fedkin.flower.describes" in result.records[0]["missing"][2]
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
    assert "it is no answer of fedkin.flower.describes" in result.records[0]["missing"][2]
