"""UIFCA: clustering samples by K normalising flows that clients train together (Chung, Lee, Ramchandran 2022).

In every cluster round each client assigns each of its samples to the flow with the highest likelihood. Then some rounds
of federated averaging train every flow on the samples assigned to it. It is IFCA with a density in place of a
classifier and a sample in place of a client.

FedCRef's paper (section 6.1) gives the sizes: 20 cluster rounds of 40 rounds of 100 steps, and flows of six couplings
whose network has three hidden layers of 512 units. For its 25 clients this takes weeks on one core, so the defaults are
smaller. The paper's form is ``cluster_rounds=20, rounds=40, local_steps=100, learning_rate=1e-4, width=512,
start="random"``.

Random flows separate samples by chance only, and all samples may choose the same one. By default the first assignment
is therefore by centroids, found in one exchange; later ones are by the flows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from fedkin.clustering.k_means import awasthi_sheffet, k_means
from fedkin.clustering.margins import share_margin
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, client_task
from fedkin.core.method import Count, Positive
from fedkin.core.replies import (
    Expected,
    Nullable,
    Optional,
    counts_to,
    int64,
    is_count,
    is_name,
    one_of,
    reals,
    updates,
    within,
)
from fedkin.features.extractors import width_of
from fedkin.features.kept_features import cached_features, drop
from fedkin.methods.samples.centroid_method import predict_nearest, scaled_like_features
from fedkin.methods.samples.sample_method import (
    Facts,
    SampleMethod,
    assign_samples,
    broadcast,
    checked_result,
    describe_clients,
)
from fedkin.nn.aggregation import Aggregation, Means
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.flow import Flow, spread_levels
from fedkin.nn.network_forms import DESCENT, FLOW, MANY, are_models


@dataclass(frozen=True)
class UIFCAState(State):
    """State of UIFCA: the flows, and what the first assignment uses.

    `flow` is their architecture, see `fedkin.nn.flow.Flow.of`, and `models` are ``(n_clusters, size)``. `alpha` is the
    margin of the logits, see `UIFCAMethod`; None without logits. `centroids` has those of the first assignment, and the
    name of their ``features``; empty if that is by flows. `samples` are numbers per cluster, ``(n_clusters,)``, by
    client that has assigned its samples in this cluster round.
    """

    flow: dict[str, Any] = field(default_factory=dict)
    alpha: float | None = None
    models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    centroids: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class UIFCAMethod(SampleMethod):
    """Federated clustering by the likelihood under K normalising flows; one step is one communication round.

    Clients receive and send only the flows of clusters that they have samples of, except at the beginning of a cluster
    round, when every client receives all flows. A cluster without samples keeps its flow.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    cluster_rounds : int
        Number of assignments, the paper's T.
    rounds : int
        Communication rounds after each assignment, the paper's tau.
    local_steps : int
        Optimiser steps per cluster, client and round, the paper's M. Adam's moments are reset in every round.
    batch_size : int
        Samples per step (not stated in either paper).
    learning_rate : float
        Learning rate of Adam.
    l2 : float
        Weight of the sum of squared parameters in the loss.
    width : int
        Units of a hidden layer.
    depth : int
        Hidden layers of a coupling.
    couplings : int
        Couplings of a flow.
    pixels : {"auto", "logit", "none"}
        "logit" adds uniform noise to the 256 levels of an image, new in every round, and takes the logit; "none" leaves
        samples unchanged. "auto" is "logit" for images in [0, 1].
    alpha : float
        Margin that keeps values away from 0 and 1 before the logit (1e-5 is another usual choice).
    start : {"centroids", "random"}
        First assignment: by k-means of all clients' k-means centroids, or by random flows.
    aggregation : {"mean", "median", "trimmed-mean"}
        How models of one cluster are combined: by their mean weighted by samples, or by the coordinate-wise median or
        trimmed mean, without a fifth of the values at either end, in which clients count equally.
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
    aggregation: Aggregation = "mean"

    traits = SampleMethod.traits.replace(
        sends="trained flows, how many of its samples chose each, and the centres and sizes of its own clusters once",
        has_device=True,
    )
    state_type: ClassVar[type[State]] = UIFCAState

    def init(self, fed: Federation) -> UIFCAState:
        """Return the first state: new flows, and the centroids of the first assignment."""
        facts = describe_clients(fed)
        flow = Flow.of({"shape": facts.shape, "width": self.width, "depth": self.depth, "couplings": self.couplings})
        return UIFCAState(
            flow=flow.spec(),
            alpha=self.alpha if self._takes_logits(facts) else None,
            models=torch.stack([flow.initial(fed.rng("init", k)) for k in range(self.n_clusters)]),
            centroids=self._centroids(fed, facts) if self.start == "centroids" else {},
        )

    def step(self, fed: Federation, state: UIFCAState) -> tuple[UIFCAState, Record]:
        """Do one communication round; in the first of a cluster round, clients assign their samples before training."""
        samples = {} if state.steps % self.rounds == 0 else dict(state.samples)
        clusters, size = state.models.shape
        means = Means(clusters, size, aggregation=self.aggregation)
        losses: list[tuple[float, float]] = []
        moved: list[int] = []
        expected: Expected = {
            "models": updates("own", size), "samples": _counts_of(clusters), "clusters": int64("own", bound=clusters),
        }  # fmt: skip
        answered = []
        for client, reply in fed.stream(choose_and_train, self._payloads(fed, state, samples), expected):
            answered.append(client)
            if "moved" in reply:
                moved.append(reply["moved"])
            samples[str(client)] = reply["samples"]
            for cluster, model, loss in zip(reply["clusters"].tolist(), reply["models"], reply["losses"], strict=True):
                count = float(reply["samples"][cluster])
                means.add(cluster, model - state.models[cluster], count, client)
                losses.append((float(loss) * count, count))
        missing = dict(fed.missing)
        state = state.next(
            models=means.moved(state.models),
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
        broadcast(fed, assign, fed.all(result=checked_result(self, state, assign)))

    def ready(self, state: UIFCAState) -> bool:
        """Whether the flows have been trained."""
        return state.steps > 0

    def result(self, state: UIFCAState) -> dict[str, Any]:
        """Return the flows, ``models`` ``(n_clusters, size)``, and the settings of their input."""
        return {"n_clusters": len(state.models), "flow": state.flow, "alpha": state.alpha, "models": state.models}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the cluster of samples ``(n, *shape)``: the flow with the highest likelihood; int64 ``(n,)``."""
        return likelihoods(result, x).argmax(0)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return the highest minus the second highest likelihood, relative to the sum over flows: float32 ``(n,)``."""
        return share_margin(likelihoods(result, x).double().softmax(0).T)

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the samples' log-likelihoods under all flows minus their mean: ``(n, n_clusters)``."""
        table = likelihoods(result, x).T
        return table - table.mean(1, keepdim=True)

    def _takes_logits(self, facts: Facts) -> bool:
        if self.pixels == "logit" and not facts.unit:
            raise FedkinError("method.pixels = 'logit' needs samples in [0, 1]; set 'none', or scale them.")
        return self.pixels == "logit" or (self.pixels == "auto" and len(facts.shape) == 3 and facts.unit)

    def _centroids(self, fed: Federation, facts: Facts) -> dict[str, Any]:
        """Return k-means centroids, with many starts, of the clients' centroids; k-FED's single start often fails."""
        features = "unit" if len(facts.shape) == 3 else "raw"
        expected = {"centres": ("centres", width_of(features, facts.shape))}
        replies = fed.ask_until_all_reply(
            send_centres, {"features": features, "n_clusters": self.n_clusters}, expected=expected
        )
        pooled = torch.cat([reply["centres"] for reply in replies.values()])
        centroids = k_means(pooled.double(), self.n_clusters, fed.rng("start")).centres
        return {"features": features, "centroids": scaled_like_features(features, centroids)}

    def _payloads(self, fed: Federation, state: UIFCAState, samples: Mapping[str, Tensor]) -> dict[int, Payload]:
        """Return payloads with all flows for clients that must assign samples, otherwise with their clusters' flows."""
        training = LocalTraining(optimizer="adam", learning_rate=self.learning_rate, weight_decay=2 * self.l2)
        training = dataclasses.replace(training, steps=self.local_steps, batch_size=self.batch_size)
        common = {"flow": state.flow, "alpha": state.alpha, "training": dataclasses.asdict(training)}
        everything = {**common, "clusters": torch.arange(len(state.models)), "models": state.models, "choose": "flows"}
        if state.steps == 0 and state.centroids:
            everything |= {"choose": "centroids", "start": state.centroids}
        payloads: dict[int, Payload] = dict.fromkeys(fed.present, everything)
        for i in fed.present:
            if str(i) in samples:
                own = samples[str(i)].nonzero().flatten()  # models by reference: copies per client would be gigabytes
                payloads[i] = {**common, "clusters": own, "models": [state.models[cluster] for cluster in own.tolist()]}
        return payloads


_FLOWS: Expected = {"flow": FLOW, "alpha": Nullable(within(0, 0.5))}


@client_task(takes={"features": is_name, "n_clusters": counts_to(MANY)}, holds={"centres": reals("centres", None)})
def send_centres(client: Client, payload: Payload) -> Payload:
    """Send the centres of the client's own clusters."""
    points = cached_features(payload["features"], client.x)
    return {"centres": awasthi_sheffet(points, payload["n_clusters"], client.rng).centres}


def _counts_of(clusters: int) -> Callable[[Any], bool]:
    """Return a check that a value is a tensor of `clusters` counts, not all 0."""
    return lambda value: isinstance(value, Tensor) and value.shape == (clusters,) and bool(value.any())


@client_task(
    takes={
        **_FLOWS, "training": DESCENT, "clusters": int64("own"), "models": are_models,
        "choose": Optional(one_of("flows", "centroids")),
        "start": Optional({"features": is_name, "centroids": reals("clusters", "width")}),
    },
    holds={"samples": int64(None), "clusters": int64("own"), "models": updates("own", None), "losses": reals("own")},
    may_hold={"moved": is_count},
)  # fmt: skip
def choose_and_train(client: Client, payload: Payload) -> Payload:
    """Assign samples to clusters if asked to, and train the flow of each cluster that has samples at the client."""
    reply: Payload = {}
    if "choose" in payload:
        before = client.state.get("clusters")
        if payload["choose"] == "centroids":
            clusters = predict_nearest(payload["start"], client.x)
            drop(client.x)  # flows need no features
        else:
            clusters = likelihoods(payload, client.x).argmax(0)
        client.state["clusters"] = clusters
        reply["moved"] = len(client) if before is None else int((clusters != before).sum())
        client.state["sizes"] = clusters.bincount(minlength=len(payload["models"]))
    flow, training = Flow.of(payload["flow"]), LocalTraining(**payload["training"])
    x, clusters = spread_levels(client.x, payload["alpha"], client.rng), client.state["clusters"]
    trained, models, losses = [], [], []
    for cluster, start in zip(payload["clusters"].tolist(), payload["models"], strict=True):
        own = x[clusters == cluster]
        if len(own):
            model, loss = train_locally(flow, start, own, own, client.rng, training)
            trained.append(cluster)
            models.append(model)
            losses.append(loss)
    return reply | {
        "clusters": torch.tensor(trained),
        "models": torch.stack(models),
        "losses": torch.tensor(losses),
        "samples": client.state["sizes"],
    }


@client_task(takes={"result": {**_FLOWS, "n_clusters": is_count, "models": updates("clusters", "size")}})
def assign(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the flow with the highest likelihood; clusters stay at the client."""
    return assign_samples(client, payload, UIFCAMethod.predict, UIFCAMethod.confidence)


def likelihoods(found: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return log-likelihoods, in nats, of samples under the flows of a payload or result: ``(k, n)``.

    For images they are those of the logits of the values, each in the middle of its level.
    """
    return Flow.of(found["flow"]).log_likelihoods(found["models"], spread_levels(x, found["alpha"]))
