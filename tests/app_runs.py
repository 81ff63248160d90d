"""Runs of strategies on nodes of a client app, in two planted clusters."""

from typing import Any

from torch import nn

import app_nodes
import planted

CLUSTERS = [0, 1, 1, 0, 1, 0]


def network() -> nn.Module:
    return planted.linear((planted.CLASSES,), planted.CLASSES)


def sites(clusters: list[int] = CLUSTERS) -> list[planted.Client]:
    """Clients of 12, 24 and 36 samples in turn."""
    sizes = [12 + 12 * (at % 3) for at in range(len(clusters))]
    return [planted.client(at, planted.OPPOSITE[clusters[at]], samples=size) for at, size in enumerate(sizes)]


def grid(clusters: list[int] = CLUSTERS, **more: Any) -> app_nodes.Fleet:
    return app_nodes.Fleet(app_nodes.client_app(sites(clusters), network, **more), len(clusters))


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
