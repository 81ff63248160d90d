"""Apps of nodes that answer fedkin's query about pictures, and a strategy started on them."""

from typing import Any

from flwr.app import Context
from torch import nn

import app_nodes
import pictures
from fedkin import flower
from fedkin.core import Client

FEDRC = {"n_clusters": 2, "local_steps": 5, "batch_size": 1000, "learning_rate": 0.5}
SWAPPED = [0, 1, 1, 0, 1, 0]
"""The cluster of each client in a federation of two planted clusters, and how FedRC finds them."""


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
