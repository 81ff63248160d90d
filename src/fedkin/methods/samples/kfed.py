"""k-FED: one-shot federated clustering (Dennis, Li, Smith 2021).

Every client clusters its own samples with the algorithm of Awasthi and Sheffet (2012) and sends the centres. The server
runs k-means on all centres, starting from those of one client and others far away from them. There is one exchange.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedkin.clustering.k_means import awasthi_sheffet_of_sets, farthest_points, k_means, nearest_centroids
from fedkin.core import Client, Federation, Payload, Record, State, block_task, client_task
from fedkin.core.client_array import Block, PerClient
from fedkin.core.federation import Replies
from fedkin.core.method import Count
from fedkin.core.payload import MANY, counts_to, int64, is_name, reals
from fedkin.features.extractors import cached_features
from fedkin.methods.samples.centroid_method import (
    CENTROIDS,
    CentroidMethod,
    KeepsPoints,
    PointsState,
    features_of,
    scaled_like_features,
)
from fedkin.methods.samples.sample_method import broadcast


@dataclass(frozen=True)
class KFedState(PointsState):
    """State of k-FED: the clients' centres, and the cluster of each, int64 ``(m,)``."""

    clusters: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


@dataclass(frozen=True)
class KFedMethod(KeepsPoints, CentroidMethod):
    """k-FED: one-shot federated k-means of the clients' local centres.

    Attributes
    ----------
    local_clusters : int or None
        Local clusters per client, the paper's k'; by default `n_clusters`. A client with fewer samples finds fewer.
    max_iter : {1} or None
        Iterations of Lloyd's algorithm on the centres, the paper's 1; by default until they are stable, as in the
        authors' code.
    assign : {"nearest", "induced"}
        Cluster of a sample: that of the nearest centroid, or that of its local cluster. New samples, and clients that
        did not answer, always take the nearest centroid.
    """

    local_clusters: Count | None = None
    max_iter: Literal[1] | None = None
    assign: Literal["nearest", "induced"] = "nearest"

    traits = CentroidMethod.traits.replace(cost="cheap", paper={"assign": "induced", "max_iter": 1})
    state_type: ClassVar[type[State]] = KFedState

    def step(self, fed: Federation, state: KFedState) -> tuple[KFedState, Record]:
        """Ask clients for the centres of their own clusters, cluster these, and send all clients the centroids."""

        def cluster(state: PointsState) -> dict[str, Any]:
            # The first by id and not by arrival, which differs from run to run on a real federation.
            points = state.points
            start = farthest_points(points[state.owners == state.owners[0]], points, self.n_clusters)
            if self.max_iter == 1:
                clusters, labels = nearest_centroids(points, start).unique(return_inverse=True)
                centroids = torch.stack([points[labels == cluster].mean(0) for cluster in range(len(clusters))])
            else:
                centroids, labels = k_means(points, start, fed.rng("centroids"), exact=True)
            return {"centroids": scaled_like_features(state.features, centroids), "clusters": labels}

        payload = {"features": state.features, "local_clusters": self.local_clusters or self.n_clusters}
        return self.round_of_points(fed, state, cluster_locally, payload, cluster)

    def conclude(self, fed: Federation, state: KFedState) -> Replies[Payload]:
        if self.assign == "nearest":
            return super().conclude(fed, state)
        result, unknown = self.result(state), torch.zeros(0, dtype=torch.int64)
        clients, sizes = state.owners.unique_consecutive(return_counts=True)
        clusters = dict(zip(clients.tolist(), state.clusters.split(sizes.tolist()), strict=True))
        payloads = {i: {"result": result, "clusters": clusters.get(i, unknown)} for i in fed.present}
        return broadcast(fed, assign_by_local_cluster, payloads)


@block_task(
    takes={"features": is_name, "local_clusters": counts_to(MANY)},
    holds={"centres": reals("points", None), "sizes": int64("points")},
    sends="Groups of rows: their middle, and how many rows each has",
)
def cluster_locally(block: Block, payload: Payload) -> Payload:
    """Send centres and sizes of a client's local clusters; the client keeps the local cluster of each sample."""
    points = features_of(block, payload["features"])
    local = awasthi_sheffet_of_sets(points, payload["local_clusters"], block.rngs())
    block.keep("local_clusters", local.packed_labels)
    filled = local.sizes > 0
    return {"centres": PerClient.where(local.centres, filled), "sizes": PerClient.where(local.sizes, filled)}


@client_task(takes={"result": CENTROIDS, "clusters": int64(None)})
def assign_by_local_cluster(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the cluster of its local cluster if the server knows it, else to the nearest centroid."""
    result, clusters = payload["result"], payload["clusters"]
    cached_features(result["features"], client.x)  # once for both
    induced = len(clusters) > 0 and "local_clusters" in client.state
    assigned = clusters[client.state["local_clusters"]] if induced else KFedMethod.predict(result, client.x)
    client.state["clusters"] = assigned
    client.state["confidence"] = KFedMethod.confidence(result, client.x, assigned)
    return {}
