"""k-FED: one-shot federated clustering (Dennis, Li, Smith 2021).

Every client clusters its own samples with the algorithm of Awasthi and Sheffet (2012) and sends the centres. The server
runs k-means on all centres, starting from those of one client and others far away from them. There is one exchange.

In the paper the server runs one iteration of Lloyd's algorithm (``server="one-round"``); in the authors' code it runs
until convergence, which is the default. In the paper a sample takes the cluster of its local cluster
(``assign="induced"``); by default it takes the nearest centroid, as in CCFC's comparison with methods of global
centroids.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedkin.clustering.k_means import awasthi_sheffet, farthest_points, k_means
from fedkin.clustering.nearest import nearest_centroids
from fedkin.core import Client, Federation, Payload, Record, State, client_task
from fedkin.core.federation import Replies
from fedkin.core.method import Count
from fedkin.core.replies import counts_to, int64, is_count, is_name, reals
from fedkin.features.kept_features import cached_features
from fedkin.methods.samples.centroid_method import (
    CENTROIDS,
    CentroidMethod,
    CentroidState,
    RoundOutcome,
    centroid_margin,
    cluster_again,
    one_round,
    points_of,
    predict_nearest,
    scaled_like_features,
    without_points,
)
from fedkin.methods.samples.sample_method import broadcast, checked_result
from fedkin.nn.network_forms import MANY


@client_task(
    takes={"features": is_name, "local_clusters": counts_to(MANY)},
    holds={"centres": reals("points", None), "sizes": int64("points"), "iterations": is_count},
)
def cluster_locally(client: Client, payload: Payload) -> Payload:
    """Send centres and sizes of a client's local clusters; the client keeps the local cluster of each sample."""
    points = cached_features(payload["features"], client.x)
    found = awasthi_sheffet(points, payload["local_clusters"], client.rng)
    client.state["local_clusters"] = found.labels
    sizes = found.labels.bincount(minlength=len(found.centres))
    return {"centres": found.centres, "sizes": sizes, "iterations": found.iterations}


@client_task(takes={"result": CENTROIDS, "clusters": int64(None)})
def assign_by_local_cluster(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the cluster of its local cluster if the server knows it, else to the nearest centroid."""
    clusters: Tensor = payload["clusters"]
    cached_features(payload["result"]["features"], client.x)  # once for both
    known = len(clusters) > 0 and "local_clusters" in client.state
    found = clusters[client.state["local_clusters"]] if known else predict_nearest(payload["result"], client.x)
    client.state["clusters"] = found
    client.state["confidence"] = centroid_margin(payload["result"], client.x, found)
    return {}


@dataclass(frozen=True)
class KFedState(CentroidState):
    """State of k-FED: by client id as text, the centres, their sizes, and the cluster of each local cluster, int64."""

    points: dict[str, Tensor] = field(default_factory=dict)
    sizes: dict[str, Tensor] = field(default_factory=dict)
    clusters: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class KFedMethod(CentroidMethod):
    """k-FED: one-shot federated k-means of the clients' local centres.

    Attributes
    ----------
    local_clusters : int or None
        Local clusters per client, the paper's k'; by default `n_clusters`. A client with fewer samples finds fewer.
    start : {"first", "largest"}
        Client whose centres the server starts from: the first that replied, by id, or the one with most samples. The
        server adds the centre furthest from those chosen so far, until there are `n_clusters`.
    server : {"until-stable", "one-round"}
        Iterations of Lloyd's algorithm on the centres.
    assign : {"nearest", "induced"}
        Cluster of a sample: that of the nearest centroid, or that of its local cluster. New samples, and clients that
        did not answer, always take the nearest centroid.
    """

    local_clusters: Count | None = None
    start: Literal["first", "largest"] = "first"
    server: Literal["until-stable", "one-round"] = "until-stable"
    assign: Literal["nearest", "induced"] = "nearest"

    traits = CentroidMethod.traits.replace(
        sends="the centroids of its own clusters, and how many there are", cost="cheap"
    )
    state_type: ClassVar[type[State]] = KFedState

    def step(self, fed: Federation, state: KFedState) -> tuple[KFedState, Record]:
        """Ask clients for the centres of their own clusters, cluster these, and send all clients the centroids."""
        if state.points:  # some were left out
            return cluster_again(self, fed, state, self.clustered(fed, state, state.points, state.sizes))

        def cluster(replies: Replies) -> RoundOutcome:
            kept = points_of(replies)
            changes, values = self.clustered(fed, state, **kept)
            iterations = {str(client): reply["iterations"] for client, reply in replies.items()}
            return {**changes, **kept}, {**values, "iterations": iterations}

        payload = {"features": state.features, "local_clusters": self.local_clusters or self.n_clusters}
        return one_round(self, fed, state, cluster_locally, payload, cluster)

    def clustered(
        self, fed: Federation, state: KFedState, points: Mapping[str, Tensor], sizes: Mapping[str, Tensor]
    ) -> RoundOutcome:
        """Run k-means on all centres, from those of one client and others far away from them."""
        samples = {client: int(own.sum()) for client, own in sizes.items()}
        first = max(samples, key=lambda client: samples[client]) if self.start == "largest" else min(samples, key=int)
        pooled = torch.cat(list(points.values()))
        start = farthest_points(points[first], pooled, self.n_clusters)
        if self.server == "one-round":
            labels = nearest_centroids(pooled, start)
            centroids = torch.stack([pooled[labels == cluster].mean(0) for cluster in labels.unique()])
            labels = labels.unique(return_inverse=True)[1]
        else:
            centroids, labels, _ = k_means(pooled.double(), start, fed.rng("centroids"))
        counts = [len(own) for own in points.values()]
        clusters = dict(zip(points, labels.split(counts), strict=True))
        changes = {"centroids": scaled_like_features(state.features, centroids), "clusters": clusters}
        return changes, {"start": int(first), "local_clusters": counts}

    def conclude(self, fed: Federation, state: KFedState) -> None:
        """Have every client assign its samples."""
        if self.assign == "nearest":
            return super().conclude(fed, state)
        result, unknown = checked_result(self, state, assign_by_local_cluster), torch.zeros(0, dtype=torch.int64)
        payloads = {i: {"result": result, "clusters": state.clusters.get(str(i), unknown)} for i in fed.present}
        return broadcast(fed, assign_by_local_cluster, payloads)

    def without(self, state: KFedState, clients: Collection[int]) -> KFedState:
        """Return the finished `state` reset to before its step, without the centres of `clients`."""
        left: KFedState = without_points(state, clients)
        return left

    def remains(self) -> str:
        """Return nothing: centres are all that a client sends."""
        return ""
