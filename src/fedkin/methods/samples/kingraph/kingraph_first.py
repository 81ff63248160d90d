"""kin-graph as the first step of another method: its clusters stay at the clients, as ``kingraph_clusters``."""

from __future__ import annotations

from fedkin.core import Client, Federation, FedkinError, Payload, client_task
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod


def cluster_first(fed: Federation, method: KinGraphMethod) -> int:
    """Cluster the samples of all clients by kin-graph; clients keep the clusters as ``kingraph_clusters``.

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


@client_task(takes={})
def keep_kingraph_clusters(client: Client, payload: Payload) -> Payload:
    """Move the clusters found by kin-graph to ``kingraph_clusters``, as they are not the final result."""
    if "clusters" in client.state:  # otherwise the client was asked before, and its reply was lost
        client.state["kingraph_clusters"] = client.state.pop("clusters")
    if "kingraph_clusters" not in client.state:
        raise FedkinError(f"Client {client.id} did not receive its clusters from kin-graph.")
    return {}
