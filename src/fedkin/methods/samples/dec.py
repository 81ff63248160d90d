"""Deep embedded clustering (Xie, Girshick, Farhadi 2016), as a yardstick: of all samples together, or client by client.

With ``scope="all"`` **the data are moved**: every client sends its samples to the server. It is what FedCRef is compared
to as a centralised method (section 6.1), not a federated method. With ``scope="client"`` no sample and no model leaves
its client, and nothing is learned together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, task
from fedkin.core.method import Count, Fraction, Positive
from fedkin.core.replies import is_count
from fedkin.methods.samples.sample_method import SampleMethod, broadcast, describe_clients
from fedkin.methods.samples.sample_tasks import keep_clusters
from fedkin.nn.deep_clustering import PAPER_CODE, DeepClusters, DeepEmbeddedClustering

_ATTEMPTS = 20
"""How often clients are asked that do not answer."""


@dataclass(frozen=True)
class DECState(State):
    """What the server knows.

    Attributes
    ----------
    features : int
        Numbers of a sample.
    clusters : dict of str to int
        With ``scope="client"``: how many clusters each client looks for.
    found : dict
        With ``scope="all"``: the fields of `fedkin.nn.deep_clustering.DeepClusters`; empty before there are any.
    """

    features: int = 0
    clusters: dict[str, int] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DECMethod(SampleMethod):
    """DEC's hyper-parameters; it is one step.

    Attributes
    ----------
    scope : {"all", "client"}
        "all": samples of all clients that answer are clustered as one table at the server. "client": each client clusters its
        own. Then clusters of different clients have nothing to do with each other and different numbers, so that scores
        over all clients say little: look at ``accuracy``, the mean over clients. Every client has to take part, since there
        are no clusters for new samples.
    n_clusters : int or "given"
        Clusters of all samples, or of each client's; "given", with ``scope="client"``, takes the number that the client
        brings. A client of fewer samples looks for as many as it has samples.
    hidden : tuple of int, optional
        Widths of the encoder's hidden layers; by default 500-500-2000, and in proportion for fewer than 256 features.
    code : int
        Length of the code.
    pretrain_steps : int
        Steps of the autoencoder's training. The paper's 150,000 are of another optimiser.
    pretrain_learning_rate : float
        Adam's learning rate for the autoencoder.
    learning_rate : float
        Learning rate of SGD, in self-training.
    momentum : float
        Momentum of SGD, in self-training.
    batch_size : int
        Samples per optimiser step, in both.
    refresh : int or None
        Steps on one target distribution; by default 20, or an epoch where that is more.
    max_refreshes : int
        Maximum number of target distributions.
    tolerance : float
        Self-training ends when a smaller share of samples than this has changed cluster since the last target.
    restarts : int
        k-means runs on the code, of which the best is kept.
    """

    scope: Literal["all", "client"] = "all"
    n_clusters: Count | Literal["given"] = 10
    hidden: tuple[Count, ...] | None = None
    code: Count = PAPER_CODE
    pretrain_steps: Count = 1000
    pretrain_learning_rate: Positive = 1e-3
    learning_rate: Positive = 0.01
    momentum: Fraction = 0.9
    batch_size: Count = 256
    refresh: Count | None = None
    max_refreshes: Annotated[int, Ge(0)] = 50
    tolerance: Fraction = 0.001
    restarts: Count = 20

    state_type: ClassVar[type[State]] = DECState

    @property
    def moves_data(self) -> bool:
        """Unless every client is alone."""
        return self.scope == "all"

    def init(self, fed: Federation) -> DECState:
        """Ask clients for the shape of their samples, and how many clusters each will look for if it works alone."""
        facts = describe_clients(fed)
        features = math.prod(facts.shape)
        if self.scope == "client":
            if fed.away:
                raise FedkinError(
                    f"method.scope = 'client' needs every client from the first step on, but client {min(fed.away)} is away."
                )
            counts = fed.ask_until_all_reply(count_clusters, {"n_clusters": self.n_clusters})
            return DECState(features=features, clusters={str(i): reply["clusters"] for i, reply in counts.items()})
        if self.n_clusters == "given":
            raise FedkinError(
                "method.n_clusters = 'given' is for method.scope = 'client'; give a number for all samples."
            )
        if self.n_clusters > sum(facts.samples.values()):
            raise FedkinError(
                f"method.n_clusters is {self.n_clusters}, but all clients together hold "
                f"{sum(facts.samples.values())} samples."
            )
        return DECState(features=features)

    def step(self, fed: Federation, state: DECState) -> tuple[DECState, Record]:
        """Cluster, and tell clients their clusters; again in the next step should too few have answered."""
        return self._together(fed, state) if self.scope == "all" else self._alone(fed, state)

    def ready(self, state: DECState) -> bool:
        """Once samples have been clustered."""
        return state.finished

    def result(self, state: DECState) -> dict[str, Any]:
        """``n_clusters``; with ``scope="all"`` encoder and centroids, too, see `fedkin.nn.deep_clustering.DeepClusters`."""
        n_clusters = len(state.found["centroids"]) if state.found else sum(state.clusters.values())
        return {"n_clusters": n_clusters, "scope": self.scope, **state.found}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Cluster of samples ``(n, *shape)``: that of the nearest centroid in the code; int64 ``(n,)``.

        Raises
        ------
        FedkinError
            If every client was clustered alone: then new samples have no cluster.
        """
        return _found(result).assign(x.flatten(1))

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """The code of samples ``(n, *shape)``; the samples themselves, flat, if every client was clustered alone."""
        return x.flatten(1) if result["scope"] == "client" else _found(result).codes(x.flatten(1))

    def _together(self, fed: Federation, state: DECState) -> tuple[DECState, Record]:
        replies = fed.ask(hand_over, fed.all(), {"x": (None, state.features)})
        record = Record(answered=list(replies), missing=dict(fed.missing))
        x = torch.cat([reply["x"] for reply in replies.values()]) if replies else torch.zeros(0, 0)
        record.values["samples"] = len(x)
        if len(x) < int(self.n_clusters):
            if state.steps + 1 == _ATTEMPTS:
                raise FedkinError(
                    f"{len(x)} samples came in {_ATTEMPTS} attempts; DEC needs {self.n_clusters} or more."
                )
            fed.pause(state.steps + 1)
            return state.next(), record
        found = self._search().train(x, int(self.n_clusters), fed.rng("dec", state.steps))
        state = state.next(found={**vars(found), "widths": list(found.widths)}, finished=True)
        payload: Payload = {"result": self.result(state)}
        broadcast(fed, assign, dict.fromkeys(fed.present, payload))
        return state, record

    def _alone(self, fed: Federation, state: DECState) -> tuple[DECState, Record]:
        """Clusters of a client follow those of the clients before it, so that no number is two clients'."""
        payloads: dict[int, Payload] = {}
        first = 0
        for i in fed.ids:
            clusters = state.clusters[str(i)]
            payloads[i] = {"search": asdict(self._search()), "clusters": clusters, "first": first}
            first += clusters
        missing: dict[int, str] = {}
        waiting = payloads
        for attempt in range(_ATTEMPTS):
            if not waiting:
                break
            if attempt:
                fed.pause(attempt)
            replies = fed.ask(cluster_alone, waiting)
            missing |= fed.missing
            waiting = {i: payload for i, payload in waiting.items() if i not in replies}
        for i in waiting:
            raise FedkinError(f"Client {i} gave no usable reply in {_ATTEMPTS} attempts ({missing[i]}).")
        return state.next(finished=True), Record(answered=list(payloads), missing=missing)

    def _search(self) -> DeepEmbeddedClustering:
        return DeepEmbeddedClustering(
            self.hidden,
            self.code,
            self.pretrain_steps,
            self.pretrain_learning_rate,
            self.learning_rate,
            self.momentum,
            self.batch_size,
            self.refresh,
            self.max_refreshes,
            self.tolerance,
            self.restarts,
        )


@task(holds={"x": (None, None)}, moves_data=True)
def hand_over(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """All samples of the client, flat: the one task by which data are moved."""
    return [{"x": client.x.flatten(1)} for client in clients]


@task
def assign(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Every sample's cluster is that of the centroid nearest to its code; it stays at the client."""
    return keep_clusters(clients, payloads, DECMethod.predict)


@task(holds={"clusters": is_count})
def count_clusters(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """How many clusters the client will look for."""
    return [{"clusters": _clusters(client, payload)} for client, payload in zip(clients, payloads, strict=True)]


@task
def cluster_alone(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Cluster the client's own samples; clusters, numbered from ``first`` on, stay there."""
    for client, payload in zip(clients, payloads, strict=True):
        search = DeepEmbeddedClustering(**payload["search"])
        labels = search.fit(client.x.flatten(1), payload["clusters"], client.rng)
        client.state["clusters"] = labels + payload["first"]
    return [{} for _ in clients]


def _clusters(client: Client, payload: Payload) -> int:
    wanted = payload["n_clusters"]
    if wanted == "given":
        if "n_clusters" not in client.state:
            raise FedkinError(f"method.n_clusters = 'given', but client {client.id} does not say how many it has.")
        wanted = int(client.state["n_clusters"])
    return min(int(wanted), len(client))


def _found(result: Mapping[str, Any]) -> DeepClusters:
    if result["scope"] == "client":
        raise FedkinError("Every client was clustered alone (method.scope = 'client'), so new samples have no cluster.")
    return DeepClusters(
        tuple(result["widths"]), result["centre"], result["spread"], result["encoder"], result["centroids"]
    )
