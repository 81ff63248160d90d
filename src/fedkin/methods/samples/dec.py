"""Deep embedded clustering (DEC; Xie, Girshick, Farhadi 2016) as a baseline: of all samples, or of each client's.

With ``scope="all"`` **the data are moved**: every client sends its samples to the server. It is the centralised
baseline of FedCRef's paper (section 6.1). With ``scope="client"`` each client clusters its own samples; neither samples
nor models leave it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.clustering.margins import share_margin
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, client_task
from fedkin.core.federation import MAX_ATTEMPTS
from fedkin.core.method import Count, Fraction, Positive
from fedkin.core.replies import count_or, counts_to, features, is_count, one_of, positive, reals, updates
from fedkin.methods.samples.sample_method import (
    SampleMethod,
    assign_samples,
    broadcast,
    checked_result,
    describe_clients,
    own_count,
    repeat_step,
)
from fedkin.nn.deep_clustering import PAPER_CODE, DeepClusters, DeepEmbeddedClustering
from fedkin.nn.network_forms import DEEP_SEARCH, MANY, WIDTHS


@dataclass(frozen=True)
class DECState(State):
    """State of DEC: the network and its centroids, or the clients' numbers of clusters.

    `features` is the length of a flattened sample. With ``scope="client"``, `clusters` are each client's number of
    them; with "all", `found` has the fields of `fedkin.nn.deep_clustering.DeepClusters`, once there are any.
    """

    features: int = 0
    clusters: dict[str, int] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DECMethod(SampleMethod):
    """Deep embedded clustering (DEC), in a single step.

    Attributes
    ----------
    scope : {"all", "client"}
        "all": the server clusters the samples of all clients that answer. "client": each client clusters its own. Then
        clusters of different clients are unrelated and numbered differently, so that scores over all clients mean
        little; ``accuracy`` is the mean over clients. Every client must take part, since new samples have no cluster.
    n_clusters : int or "given"
        Clusters of all samples, or of each client's; "given", with ``scope="client"``, is each client's own number. A
        client with fewer samples finds one cluster per sample.
    hidden : tuple of int, optional
        Widths of the encoder's hidden layers; by default 500-500-2000, and in proportion for fewer than 256 features.
    code : int
        Length of the code.
    pretrain_steps : int
        Steps of the autoencoder's training by Adam (the paper: 150,000 by SGD).
    learning_rate : float
        Learning rate of SGD, in self-training.
    batch_size : int
        Samples per optimiser step, of both trainings.
    refresh : int or None
        Steps before the target distribution is updated; by default 20, or an epoch if that is more.
    max_refreshes : int
        Maximum number of updates of the target distribution.
    tolerance : float
        Self-training ends when a smaller fraction of samples than this has changed cluster since the last target.
    restarts : int
        Number of k-means starts on the code; the best is kept.
    """

    scope: Literal["all", "client"] = "all"
    n_clusters: Count | Literal["given"] = 10
    hidden: tuple[Count, ...] | None = None
    code: Count = PAPER_CODE
    pretrain_steps: Count = 1000
    learning_rate: Positive = 0.01
    batch_size: Count = 256
    refresh: Count | None = None
    max_refreshes: Annotated[int, Ge(0)] = 50
    tolerance: Fraction = 0.001
    restarts: Count = 20

    traits = SampleMethod.traits.replace(
        moves_data=True,
        sends="all its samples, or nothing but a number of clusters where each client clusters its own",
        baseline=True,
        has_device=True,
    )
    state_type: ClassVar[type[State]] = DECState

    soft = True

    def sends_samples(self) -> bool:
        """Whether clients send samples: True with ``scope="all"``."""
        return self.scope == "all"

    def init(self, fed: Federation) -> DECState:
        """Ask clients for the shape of their samples, and with ``scope="client"`` for their numbers of clusters."""
        facts = describe_clients(fed)
        features = math.prod(facts.shape)
        if self.scope == "client":
            if absent := set(fed.ids).difference(fed.present):
                needed = "method.scope = 'client' needs every client from the first step on"
                raise FedkinError(f"{needed}, but client {min(absent)} is away.")
            counts = fed.ask_until_all_reply(count_clusters, {"n_clusters": self.n_clusters})
            return DECState(features=features, clusters={str(i): reply["clusters"] for i, reply in counts.items()})
        if self.n_clusters == "given":
            raise FedkinError(
                "method.n_clusters = 'given' needs method.scope = 'client'; give a number for all samples."
            )
        if self.n_clusters > (total := sum(facts.samples.values())):
            raise FedkinError(f"method.n_clusters is {self.n_clusters}, but all clients together hold {total} samples.")
        return DECState(features=features)

    def step(self, fed: Federation, state: DECState) -> tuple[DECState, Record]:
        """Cluster all samples and broadcast the result, or have each client cluster its own."""
        return self._cluster_all(fed, state) if self.scope == "all" else self._cluster_each(fed, state)

    def ready(self, state: DECState) -> bool:
        """Whether samples have been clustered."""
        return state.finished

    def result(self, state: DECState) -> dict[str, Any]:
        """Return ``n_clusters``; with ``scope="all"`` also the fields of `fedkin.nn.deep_clustering.DeepClusters`."""
        n_clusters = len(state.found["centroids"]) if state.found else sum(state.clusters.values())
        return {"n_clusters": n_clusters, "scope": self.scope, **state.found}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the cluster of samples ``(n, *shape)``: the centroid nearest to the code; int64 ``(n,)``.

        Raises FedkinError with ``scope="client"``, where new samples have no cluster.
        """
        return _clusters_of(result).assign(x.flatten(1))

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return the samples' largest soft assignment minus the second largest, float32 ``(n,)``.

        Raises FedkinError with ``scope="client"``, where new samples have no cluster.
        """
        return share_margin(_clusters_of(result).memberships(x.flatten(1)))

    @staticmethod
    def memberships(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return soft assignments of samples, float32 ``(n, k)``.

        ``None`` with ``scope="client"``, as a client's samples do not belong to clusters of others.
        """
        return None if result["scope"] == "client" else _clusters_of(result).memberships(x.flatten(1)).float()

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the codes of samples ``(n, *shape)``; with ``scope="client"`` the flattened samples."""
        return x.flatten(1) if result["scope"] == "client" else _clusters_of(result).codes(x.flatten(1))

    def _cluster_all(self, fed: Federation, state: DECState) -> tuple[DECState, Record]:
        replies = fed.ask(send_flat_samples, fed.all(), {"x": (None, state.features)})
        record = Record(answered=list(replies), missing=replies.missing)
        x = torch.cat([reply["x"] for reply in replies.values()]) if replies else torch.zeros(0, 0)
        record.values["samples"] = len(x)
        if len(x) < int(self.n_clusters):
            failure = f"{len(x)} samples arrived in {MAX_ATTEMPTS} attempts; DEC needs at least {self.n_clusters}."
            return repeat_step(fed, state, record, failure)
        clusters = self._search().train(x, int(self.n_clusters), fed.rng("dec", state.steps))
        state = state.next(found={**vars(clusters), "widths": list(clusters.widths)}, finished=True)
        broadcast(fed, assign, fed.all(result=checked_result(self, state, assign)))
        return state, record

    def _cluster_each(self, fed: Federation, state: DECState) -> tuple[DECState, Record]:
        """Have each client cluster its samples; clusters are numbered through all clients."""
        payloads: dict[int, Payload] = {}
        first = 0
        for i in fed.ids:
            clusters = state.clusters[str(i)]
            payloads[i] = {"search": asdict(self._search()), "clusters": clusters, "first": first}
            first += clusters
        replies = fed.ask_again(cluster_own_samples, payloads, MAX_ATTEMPTS)
        for i, reason in replies.missing.items():
            raise FedkinError(f"Client {i} gave no usable reply in {MAX_ATTEMPTS} attempts ({reason}).")
        return state.next(finished=True), Record(answered=list(payloads))

    def _search(self) -> DeepEmbeddedClustering:
        return DeepEmbeddedClustering(batch=self.batch_size, **self.shared_with(DeepEmbeddedClustering))


def _clusters_of(result: Mapping[str, Any]) -> DeepClusters:
    if result["scope"] == "client":
        raise FedkinError(
            "Each client clustered its own samples (method.scope = 'client'), so new samples have no cluster."
        )
    values = {name: result[name] for name in ("centre", "spread", "encoder", "centroids")}
    return DeepClusters(tuple(result["widths"]), **values)


@client_task(takes={}, holds={"x": features(None, None)}, moves_data=True)
def send_flat_samples(client: Client, payload: Payload) -> Payload:
    """Send all samples of the client, flattened: **the data leave the client**."""
    return {"x": client.x.flatten(1)}


@client_task(
    takes={
        "result": {
            "n_clusters": is_count, "scope": one_of("all"), "widths": WIDTHS, "centre": reals("features"),
            "spread": positive, "encoder": updates(None), "centroids": reals("clusters", "code"),
        }
    }
)  # fmt: skip
def assign(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the centroid nearest to its code; clusters stay at the client."""
    return assign_samples(client, payload, DECMethod)


@client_task(takes={"n_clusters": count_or("given")}, holds={"clusters": counts_to(MANY)})
def count_clusters(client: Client, payload: Payload) -> Payload:
    """Send the number of clusters that the client looks for."""
    return {"clusters": min(own_count(client, payload["n_clusters"], "n_clusters"), len(client))}


@client_task(takes={"search": DEEP_SEARCH, "clusters": counts_to(MANY), "first": is_count})
def cluster_own_samples(client: Client, payload: Payload) -> Payload:
    """Cluster the client's own samples; clusters, numbered from ``first``, stay at the client."""
    search = DeepEmbeddedClustering(**payload["search"])
    shares = search.memberships(client.x.flatten(1), payload["clusters"], client.rng)
    client.state["clusters"] = shares.argmax(1) + payload["first"]
    client.state["confidence"] = share_margin(shares)
    return {}
