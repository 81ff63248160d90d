"""kin-graph as the first step of another method: its clusters stay at the clients, under ``kingraph_clusters``."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.core import Client, Federation, FedkinError, Payload, task
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod


def cluster_first(fed: Federation, method: KinGraphMethod) -> int:
    """Cluster the samples of all clients; every client keeps its own as ``kingraph_clusters``, int64 ``(n,)``.

    Returns
    -------
    int
        Number of clusters.

    Raises
    ------
    FedkinError
        If a client cannot be reached.
    """
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    fed.ask_until_all_reply(keep_kingraph_clusters, {})
    return int(state.clusters.max()) + 1


@task(takes={})
def keep_kingraph_clusters(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Move the clusters found by kin-graph to ``kingraph_clusters``; they are not the result."""
    for client in clients:
        if "clusters" in client.state:  # otherwise it was asked before, and its reply was lost
            client.state["kingraph_clusters"] = client.state.pop("clusters")
        if "kingraph_clusters" not in client.state:
            raise FedkinError(f"Client {client.id} did not receive its clusters from kin-graph.")
    return [{} for _ in clients]
