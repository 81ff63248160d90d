"""What clients do for every method that clusters samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from fedkin.core import Client, Payload, task
from fedkin.core.replies import is_count, is_number, is_shape

PredictClusters = Callable[[Mapping[str, Any], Tensor], Tensor]
"""``(result, x) -> clusters``: the cluster of any samples, int64 ``(n,)``, by what a method found."""


@task(holds={"shape": is_shape, "samples": is_count, "lowest": is_number, "highest": is_number})
def describe(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Shape of a sample, how many there are, and the range of their values."""
    return [
        {
            "shape": list(client.x.shape[1:]),
            "samples": len(client),
            "lowest": float(client.x.min()),
            "highest": float(client.x.max()),
        }
        for client in clients
    ]


def keep_clusters(clients: Sequence[Client], payloads: Sequence[Payload], predict: PredictClusters) -> list[Payload]:
    """Write down the cluster of every sample, at the client, by the ``result`` that came; what most last tasks do."""
    for client, payload in zip(clients, payloads, strict=True):
        client.state["clusters"] = predict(payload["result"], client.x)
    return [{} for _ in clients]
