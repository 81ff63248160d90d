"""Strategies that ask nodes about their data find the planted clusters."""

from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Context
from torch import nn

import app_nodes
import planted
from fedkin import flower
from fedkin.methods.clients import fedrc, flux
from fedkin.nn.modules import Classifier
from query_apps import FEDRC, SWAPPED


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
