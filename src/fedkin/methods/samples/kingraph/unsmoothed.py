"""Whether clusters of smoothed points are there without smoothing, or are only clients.

Each point moves towards its nearest ones at the same client. Where there are clusters, this widens the gaps between
them. Where there are none, all points of a client move together, and away from those of other clients. The means of the
same micro-clusters before smoothing tell one from the other: clusters that each client has to itself stay in one case,
and not in the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, task
from fedkin.core.replies import reals
from fedkin.methods.samples.kingraph.kingraph_tasks import SPACE, client_points

SUSPICIOUS = 0.5
"""Largest client's share from which clusters of smoothed points are looked at without smoothing."""
_LOST = 0.5
"""Part of that share that clusters without smoothing must have, if those with it are more than clients. On CIFAR-10 it
is 0.11 and 0.13, on MNIST and Fashion-MNIST with one class at each client 1.00 and 0.85."""


@task(takes={"space": SPACE}, holds={"means": reals("nodes", None)})
def send_unsmoothed(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Send the means of a client's micro-clusters, of its points as they were before smoothing."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        labels = client.state.get("micro_clusters")
        if labels is None:
            raise FedkinError("It has no micro-clusters.")
        points = client_points(client, payload["space"])
        counts = labels.bincount()
        sums = torch.zeros(len(counts), points.shape[1]).index_add_(0, labels, points)
        replies.append({"means": sums / counts.clamp_min(1)[:, None]})
    return replies


def unsmoothed_nodes(fed: Federation, space: Payload, own: Tensor) -> Tensor | None:
    """Means of the nodes before smoothing.

    Parameters
    ----------
    fed : Federation
    space : dict
        Parameters of `points_of`.
    own : Tensor
        int64 ``(p, 3)``, client, node and samples of each micro-cluster, in order of clients.

    Returns
    -------
    Tensor or None
        float32 ``(m, d)``; ``None`` if a client that has sent micro-clusters does not answer.
    """
    clients, sizes = (part.tolist() for part in own[:, 0].unique_consecutive(return_counts=True))
    width = space["directions"].shape[1]
    replies = fed.ask(send_unsmoothed, {client: {"space": space} for client in clients}, {"means": ("nodes", width)})
    if any(
        client not in replies or len(replies[client]["means"]) != size
        for client, size in zip(clients, sizes, strict=True)
    ):
        return None
    means = torch.cat([replies[client]["means"] for client in clients])
    nodes, counts = own[:, 1], own[:, 2].float()
    weights = torch.zeros(int(nodes.max()) + 1).index_add_(0, nodes, counts)
    return torch.zeros(len(weights), width).index_add_(0, nodes, means * counts[:, None]) / weights[:, None]


def are_clients(share: float, without: float) -> bool:
    """Whether clusters are only clients, by the largest client's share with smoothing and without."""
    return share >= SUSPICIOUS and without < _LOST * share
