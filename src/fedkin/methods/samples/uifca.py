"""UIFCA: samples choose among K normalising flows that clients train together (Chung, Lee, Ramchandran 2022).

In every cluster round each client gives each of its samples to the flow under which it is likeliest; then the flows are
trained by federated averaging, over some rounds of communication, each on the samples that chose it. It is IFCA with a
density in place of a classifier and a sample in place of a client.

The paper of FedCRef (section 6.1) states the sizes: 20 cluster rounds of 40 rounds of 100 steps, with flows of six
couplings whose network has three hidden layers of 512 units. For its 25 clients this takes weeks on one core, so the
defaults are smaller. The literal form is ``cluster_rounds=20, rounds=40, local_steps=100, learning_rate=1e-4,
width=512, start="random"``.

Flows that are merely drawn differently tell samples apart by chance, and all samples may choose the same one. By
default the first choice is therefore made by centroids, found in one exchange, and by the flows ever after.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, task
from fedkin.core.method import Count, Positive
from fedkin.core.replies import Expected, are_counts, below, is_count
from fedkin.features.extractors import width_of
from fedkin.methods.samples.centroid_method import nearest, on_its_sphere
from fedkin.methods.samples.kfed import KFedMethod, cluster_locally
from fedkin.methods.samples.sample_method import Facts, SampleMethod, broadcast, describe_clients
from fedkin.methods.samples.sample_tasks import keep_clusters
from fedkin.nn.aggregation import Means
from fedkin.nn.descent import Descent, descend
from fedkin.nn.flow import Flow, spread_levels


@dataclass(frozen=True)
class UIFCAState(State):
    """What the server knows.

    Attributes
    ----------
    flow : dict
        The flows' architecture, see `fedkin.nn.flow.Flow.of`.
    alpha : float or None
        Of the values' logits; None if samples are taken as they are.
    models : Tensor
        float32 ``(n_clusters, size)``.
    centroids : dict
        For the first choice: ``centroids`` and the ``features`` they are of; empty if flows make it.
    samples : dict of str to Tensor
        By client that has chosen in this cluster round: samples in each cluster, int64 ``(n_clusters,)``.
    """

    flow: dict[str, Any] = field(default_factory=dict)
    alpha: float | None = None
    models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    centroids: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class UIFCAMethod(SampleMethod):
    """UIFCA; one step is one round of communication.

    A flow crosses to a client and back only for clusters that the client has samples of, except at the begin of a cluster
    round, when all flows go to every client. A cluster that no sample chose keeps its flow.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    cluster_rounds : int
        T: how often samples choose.
    rounds : int
        tau: rounds of communication after each choice.
    local_steps : int
        M: optimiser steps of a cluster at a client, in a round. Adam starts anew in every round.
    batch_size : int
        Samples per step (not stated in either paper).
    learning_rate : float
        Learning rate of Adam.
    l2 : float
        The loss gains so much times the sum of squared parameters.
    width : int
        Units of a hidden layer.
    depth : int
        Hidden layers of a coupling.
    couplings : int
        Couplings of a flow.
    pixels : {"auto", "logit", "none"}
        "logit" spreads the 256 levels of an image by uniform noise, new in every round, and takes the logit; "none"
        takes samples as they are. "auto" is "logit" for images in [0, 1].
    alpha : float
        Distance of the values from 0 and 1 before their logit is taken (1e-5 is another usual choice).
    start : {"centroids", "random"}
        What samples choose by at first: the centroids of all clients' k-means centroids, or flows drawn at random.
    """

    n_clusters: Count = 10
    cluster_rounds: Count = 5
    rounds: Count = 4
    local_steps: Count = 25
    batch_size: Count = 128
    learning_rate: Positive = 1e-3
    l2: Annotated[float, Ge(0)] = 1e-4
    width: Count = 128
    depth: Count = 3
    couplings: Count = 6
    pixels: Literal["auto", "logit", "none"] = "auto"
    alpha: Annotated[float, Gt(0), Lt(0.5)] = 0.05
    start: Literal["centroids", "random"] = "centroids"

    state_type: ClassVar[type[State]] = UIFCAState
    has_device: ClassVar[bool] = True

    def init(self, fed: Federation) -> UIFCAState:
        """K flows, all drawn differently, and what samples choose by at first."""
        facts = describe_clients(fed)
        flow = Flow.of({"shape": facts.shape, "width": self.width, "depth": self.depth, "couplings": self.couplings})
        return UIFCAState(
            flow=flow.spec(),
            alpha=self.alpha if self._takes_logits(facts) else None,
            models=torch.stack([flow.initial(fed.rng("init", k)) for k in range(self.n_clusters)]),
            centroids=self._centroids(fed, facts) if self.start == "centroids" else {},
        )

    def step(self, fed: Federation, state: UIFCAState) -> tuple[UIFCAState, Record]:
        """One round of communication, preceded by the samples' choice in the first of a cluster round."""
        samples = {} if state.steps % self.rounds == 0 else dict(state.samples)
        clusters, size = state.models.shape
        means = Means(clusters, size)
        losses: list[tuple[float, float]] = []
        moved: list[int] = []
        expected: Expected = {
            "models": ("own", size), "losses": ("own",), "samples": (clusters,), "clusters": below(clusters),
        }  # fmt: skip
        answered = []
        for client, reply in fed.stream(choose_and_train, self._payloads(fed, state, samples), expected):
            answered.append(client)
            if "moved" in reply:
                moved.append(reply["moved"])
            samples[str(client)] = reply["samples"]
            for cluster, model, loss in zip(reply["clusters"].tolist(), reply["models"], reply["losses"], strict=True):
                count = float(reply["samples"][cluster])
                means.add(cluster, model - state.models[cluster], count)
                losses.append((float(loss) * count, count))
        missing = dict(fed.missing)
        state = state.next(
            models=state.models + means.all(),
            samples=samples,
            finished=state.steps + 1 >= self.cluster_rounds * self.rounds,
        )
        if state.finished:
            self.conclude(fed, state)
        total = sum(samples.values(), torch.zeros(clusters, dtype=torch.int64))
        values: dict[str, Any] = {"sizes": total.tolist(), "empty": int((total == 0).sum())}
        if losses:
            values["loss"] = sum(loss for loss, _ in losses) / sum(count for _, count in losses)
        if moved:
            values["moved"] = sum(moved)
        return state, Record(answered=answered, missing=missing, values=values)

    def conclude(self, fed: Federation, state: UIFCAState) -> None:
        """Have every client assign its samples."""
        payload: Payload = {"result": self.result(state)}
        broadcast(fed, assign, dict.fromkeys(fed.present, payload))

    def ready(self, state: UIFCAState) -> bool:
        """Once the flows have been trained at all."""
        return state.steps > 0

    def result(self, state: UIFCAState) -> dict[str, Any]:
        """The flows, ``models`` ``(n_clusters, size)``, and what they take."""
        return {"n_clusters": len(state.models), "flow": state.flow, "alpha": state.alpha, "models": state.models}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Cluster of samples ``(n, *shape)``: that of the flow under which each is likeliest; int64 ``(n,)``."""
        return likelihoods(result, x).argmax(0)

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Log-likelihoods of samples ``(n, *shape)`` under all flows, less their mean: ``(n, n_clusters)``."""
        table = likelihoods(result, x).T
        return table - table.mean(1, keepdim=True)

    def _takes_logits(self, facts: Facts) -> bool:
        if self.pixels == "logit" and not facts.unit:
            raise FedkinError("method.pixels = 'logit' needs samples in [0, 1]; take 'none', or scale them.")
        return self.pixels == "logit" or (self.pixels == "auto" and facts.is_image and facts.unit)

    def _centroids(self, fed: Federation, facts: Facts) -> dict[str, Any]:
        """Centroids of all clients' own, by k-means with many starts: k-FED's one start errs at clients of few clusters."""
        features = KFedMethod().space(facts.shape)
        expected = {"centres": ("centres", width_of(features, facts.shape))}
        replies = fed.ask_until_all_reply(
            cluster_locally, {"features": features, "local_clusters": self.n_clusters}, expected=expected
        )
        pooled = torch.cat([reply["centres"] for reply in replies.values()])
        centroids = k_means(pooled.double(), self.n_clusters, fed.rng("start")).centres
        return {"features": features, "centroids": on_its_sphere(features, centroids)}

    def _payloads(self, fed: Federation, state: UIFCAState, samples: Mapping[str, Tensor]) -> dict[int, Payload]:
        """All flows for clients that have to choose; those of its clusters for a client that has chosen."""
        common = {
            "flow": state.flow,
            "alpha": state.alpha,
            "training": dataclasses.asdict(
                Descent(
                    steps=self.local_steps,
                    batch_size=self.batch_size,
                    optimizer="adam",
                    learning_rate=self.learning_rate,
                    weight_decay=2 * self.l2,
                )
            ),
        }
        everything = {**common, "clusters": torch.arange(len(state.models)), "models": state.models, "choose": "flows"}
        if state.steps == 0 and state.centroids:
            everything |= {"choose": "centroids", "start": state.centroids}
        payloads: dict[int, Payload] = {}
        for i in fed.present:
            if str(i) in samples:
                own = samples[str(i)].nonzero().flatten()  # rows by reference: copies for every client are gigabytes
                payloads[i] = {**common, "clusters": own, "models": [state.models[cluster] for cluster in own.tolist()]}
            else:
                payloads[i] = everything
        return payloads


@task(holds={"samples": are_counts, "clusters": ("own",)}, may_hold={"moved": is_count})
def choose_and_train(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Give samples to clusters where that is asked, and train the flow of each cluster that has samples here."""
    return [_choose_and_train(client, payload) for client, payload in zip(clients, payloads, strict=True)]


@task
def assign(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Every sample's cluster is that of the flow under which it is likeliest; it stays at the client."""
    return keep_clusters(clients, payloads, UIFCAMethod.predict)


def likelihoods(found: Mapping[str, Any], x: Tensor) -> Tensor:
    """Log-likelihoods, in nats, of samples under the flows that a payload or result holds: ``(k, n)``.

    Of an image it is that of the logits of its values, each in the middle of its level.
    """
    return Flow.of(found["flow"]).log_likelihoods(found["models"], spread_levels(x, found["alpha"]))


def _choose_and_train(client: Client, payload: Payload) -> Payload:
    reply: Payload = {}
    if "choose" in payload:
        before = client.state.get("clusters")
        client.state["clusters"] = clusters = _choice(client, payload)
        reply["moved"] = len(client) if before is None else int((clusters != before).sum())
        n_clusters = len(payload["models"])
        client.state["sizes"] = clusters.bincount(minlength=n_clusters)
    flow, training = Flow.of(payload["flow"]), Descent(**payload["training"])
    x, clusters = spread_levels(client.x, payload["alpha"], client.rng), client.state["clusters"]
    trained, models, losses = [], [], []
    for cluster, start in zip(payload["clusters"].tolist(), payload["models"], strict=True):
        own = x[clusters == cluster]
        if len(own):
            model, loss = descend(flow, start, own, own, client.rng, training)
            trained.append(cluster)
            models.append(model)
            losses.append(loss)
    return reply | {
        "clusters": torch.tensor(trained),
        "models": torch.stack(models),
        "losses": torch.tensor(losses),
        "samples": client.state["sizes"],
    }


def _choice(client: Client, payload: Payload) -> Tensor:
    if payload["choose"] == "centroids":
        return nearest(payload["start"], client.x)
    return likelihoods(payload, client.x).argmax(0)
