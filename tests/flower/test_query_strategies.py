"""Strategies that ask nodes about their data find the planted clusters."""

from typing import Any

from flwr.app import ArrayRecord, Context
from torch import nn

import app_nodes
import planted
from fedkin import flower
from fedkin.methods.clients import flux
from fedkin.nn.modules import Classifier
from query_apps import SWAPPED


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
