"""Check whether smoothing has separated clients rather than clusters.

After smoothing, the clusters found may be merely the clients: each point moves towards its nearest points at the same
client. If there are clusters, this widens the gaps between them. If there are none, all points of a client move
together, and away from those of other clients. The means of the same micro-clusters before smoothing distinguish these
cases: clusters of a single client remain in the first case, and not in the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, client_task
from fedkin.core.replies import reals
from fedkin.methods.samples.kingraph.kingraph_space import SPACE, KinGraphState, client_points

Found = tuple[KinGraphState, dict[str, Any]]
"""A state with clusters, and values for the record."""

_SUSPICIOUS = 0.5
"""Largest client's fraction of a cluster from which clusters are also found without smoothing."""
_LOST = 0.5
"""Minimum of that fraction without smoothing, relative to the one with it, for clusters that are more than merely the
clients. On CIFAR-10 it is 0.11 and 0.13, on MNIST and Fashion-MNIST with one class at each client 1.00 and 0.85."""


def is_suspicious(values: Mapping[str, Any]) -> bool:
    """Whether clusters with these values in the record may be merely the clients."""
    return bool(values.get("largest_client_share", 0.0) >= _SUSPICIOUS)


def checked_smoothing(
    fed: Federation, found: Found, find: Callable[[KinGraphState, torch.Generator], Found], automatic: bool
) -> Found:
    """Return clusters without smoothing if smoothing has separated clients and is `automatic`; add a warning.

    Parameters
    ----------
    fed : Federation
    found : tuple
        Clusters with smoothing.
    find : callable
        Finds clusters of a state's nodes, with a random generator.
    automatic : bool
        Whether smoothing may be given up.
    """
    state, values = found
    means = unsmoothed_nodes(fed, state.space, state.own)
    if means is None:
        return found
    other, without = find(replace(state, centroids=means, smoothing=0), fed.rng("communities"))
    share, plain = values["largest_client_share"], without["largest_client_share"]
    values = {**values, "share_without_smoothing": plain}
    if not are_clients(share, plain):
        return state, values
    why = f"Smoothing made clients stand out: of a cluster {share:.0%} is at one client, without it {plain:.0%}"
    if automatic:
        return other, {**without, "warning": f"{why}. Clusters are those without smoothing."}
    return state, {**values, "warning": f'{why}; set method.smoothing to 0 or "auto".'}


@client_task(takes={"space": SPACE}, holds={"means": reals("nodes", None)})
def send_unsmoothed(client: Client, payload: Payload) -> Payload:
    """Send the means of a client's micro-clusters, computed from its points before smoothing."""
    labels = client.state.get("micro_clusters")
    if labels is None:
        raise FedkinError("The client has no micro-clusters.")
    points = client_points(client, payload["space"])
    counts = labels.bincount()
    sums = torch.zeros(len(counts), points.shape[1]).index_add_(0, labels, points)
    return {"means": sums / counts.clamp_min(1)[:, None]}


def unsmoothed_nodes(fed: Federation, space: Payload, own: Tensor) -> Tensor | None:
    """Return the means of the nodes, computed from points before smoothing.

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
        float32 ``(m, d)``; ``None`` if a client that has sent micro-clusters does not reply.
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
    """Whether clusters are merely clients, by the largest client's fraction of a cluster with and without smoothing."""
    return share >= _SUSPICIOUS and without < _LOST * share
