"""UIFCA: clustering samples by K normalising flows that clients train together (Chung, Lee, Ramchandran 2022).

In every cluster round each client assigns each of its samples to the flow with the highest likelihood. Then some rounds
of federated averaging train every flow on the samples assigned to it. It is IFCA with a density in place of a
classifier and a sample in place of a client.

Sizes of the paper's form are those of FedCRef's paper (section 6.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedkin.clustering.k_means import awasthi_sheffet, k_means, share_margin
from fedkin.core import Client, Federation, Payload, Record, State, Task, client_task
from fedkin.core import payload as forms
from fedkin.core.method import Count, Positive, Values
from fedkin.features.extractors import cached_features, drop
from fedkin.methods.samples.centroid_method import CentroidMethod, features_for, scaled_like_features
from fedkin.methods.samples.sample_method import SampleMethod, assign_samples, describe_clients
from fedkin.nn.aggregation import Means
from fedkin.nn.descent import LOCAL_TRAINING, LocalTraining, train_locally
from fedkin.nn.flow import FLOW, Flow, spread_levels


def likelihoods(flows: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return log-likelihoods, in nats, of samples under the flows of a payload or result: ``(k, n)``.

    For images they are those of the logits of the values, each in the middle of its level.
    """
    return Flow.of(flows["flow"]).log_likelihoods(flows["models"], spread_levels(x, flows["alpha"]))


_MARGIN = 0.05
"""Of images in [0, 1], whose 256 levels get uniform noise, new in every round, and whose logit is taken: margin that
keeps values away from 0 and 1 before."""
_FLOWS: forms.Expected = {"flow": FLOW, "alpha": forms.Nullable(forms.within(0, 0.5))}


@client_task(takes={"result": {**_FLOWS, "n_clusters": forms.is_count, "models": forms.updates("clusters", "size")}})
def assign(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the flow with the highest likelihood; clusters stay at the client."""
    return assign_samples(client, payload, UIFCAMethod)


@dataclass(frozen=True)
class UIFCAState(State):
    """State of UIFCA: the flows, and what the first assignment uses.

    `flow` is their architecture, see `fedkin.nn.flow.Flow.of`, and `models` are ``(n_clusters, size)``. `alpha` keeps
    images' values away from 0 and 1 before their logit; None without logits. `centroids` has those of the first
    assignment, and the name of their ``features``; empty if that is by flows. `samples` are numbers per cluster,
    ``(n_clusters,)``, by client that has assigned its samples in this cluster round.
    """

    flow: dict[str, Any] = field(default_factory=dict)
    alpha: float | None = None
    models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    centroids: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Tensor] = field(default_factory=dict)


class UIFCAValues(Values, total=False):
    """Values of a round: the `sizes` of clusters, how many are `empty`, and how many samples `moved`."""

    sizes: list[int]
    empty: int
    moved: int


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
    width : int
        Units of a hidden layer.
    depth : int
        Hidden layers of a coupling.
    couplings : int
        Couplings of a flow.
    start : {"centroids", "random"}
        First assignment: by k-means of all clients' k-means centroids, or by random flows.
    """

    n_clusters: Count = 10
    cluster_rounds: Count = 5
    rounds: Count = 4
    local_steps: Count = 25
    batch_size: Count = 128
    learning_rate: Positive = 1e-3
    width: Count = 128
    depth: Count = 3
    couplings: Count = 6
    start: Literal["centroids", "random"] = "centroids"

    traits = SampleMethod.traits.replace(
        has_device=True,
        paper={
            "start": "random", "cluster_rounds": 20, "rounds": 40, "local_steps": 100, "width": 512,
            "learning_rate": 1e-4,
        },
    )  # fmt: skip
    state_type: ClassVar[type[State]] = UIFCAState
    record_type: ClassVar[type[Any]] = UIFCAValues
    assign_task: ClassVar[Task] = assign

    def init(self, fed: Federation) -> UIFCAState:
        """Return the first state: new flows, and the centroids of the first assignment."""
        facts = describe_clients(fed)
        flow = Flow.of({"shape": facts.shape, "width": self.width, "depth": self.depth, "couplings": self.couplings})
        return UIFCAState(
            flow=flow.spec(),
            alpha=_MARGIN if len(facts.shape) == 3 and facts.unit else None,
            models=torch.stack([flow.initial(fed.rng("init", k)) for k in range(self.n_clusters)]),
            centroids=self._centroids(fed, facts.shape) if self.start == "centroids" else {},
        )

    def step(self, fed: Federation, state: UIFCAState) -> tuple[UIFCAState, Record]:
        """Do one communication round; in the first of a cluster round, clients assign their samples before training."""
        samples = {} if state.steps % self.rounds == 0 else dict(state.samples)
        clusters, size = state.models.shape
        means = Means(clusters, size)
        losses: list[tuple[float, float]] = []
        moved: list[int] = []
        expected: forms.Expected = {
            "models": forms.updates("own", size),
            "samples": lambda value: isinstance(value, Tensor) and value.shape == (clusters,) and bool(value.any()),
            "clusters": forms.int64("own", bound=clusters),
        }
        answered = []
        replies = fed.stream(choose_and_train, self._payloads(fed, state, samples), expected)
        for client, reply in replies:
            answered.append(client)
            if "moved" in reply:
                moved.append(reply["moved"])
            samples[str(client)] = reply["samples"]
            for cluster, model, loss in zip(reply["clusters"].tolist(), reply["models"], reply["losses"], strict=True):
                count = float(reply["samples"][cluster])
                means.add(cluster, model - state.models[cluster], count, client)
                losses.append((float(loss) * count, count))
        missing, last = replies.missing, state.steps + 1 >= self.cluster_rounds * self.rounds
        state = state.next(models=means.apply_to(state.models), samples=samples, finished=last)
        if state.finished:
            self.conclude(fed, state)
        total = sum(samples.values(), torch.zeros(clusters, dtype=torch.int64))
        values: dict[str, Any] = {"sizes": total.tolist(), "empty": int((total == 0).sum())}
        if losses:
            values["loss"] = sum(loss for loss, _ in losses) / sum(count for _, count in losses)
        if moved:
            values["moved"] = sum(moved)
        return state, Record(answered=answered, missing=missing, values=values)

    def ready(self, state: UIFCAState) -> bool:
        return state.steps > 0

    def result(self, state: UIFCAState) -> dict[str, Any]:
        return {"n_clusters": len(state.models), "flow": state.flow, "alpha": state.alpha, "models": state.models}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return likelihoods(result, x).argmax(0)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        return share_margin(likelihoods(result, x).double().softmax(0).T)

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        table = likelihoods(result, x).T
        return table - table.mean(1, keepdim=True)

    def _centroids(self, fed: Federation, shape: tuple[int, ...]) -> dict[str, Any]:
        """Return k-means centroids, with many starts, of the clients' centroids; k-FED's single start often fails."""
        features, width = features_for("auto", shape).values()
        payload, expected = {"features": features, "n_clusters": self.n_clusters}, {"centres": ("centres", width)}
        replies = fed.ask_until_all_reply(send_centres, payload, expected=expected)
        pooled = torch.cat([reply["centres"] for reply in replies.values()])
        centroids = k_means(pooled, self.n_clusters, fed.rng("start"), exact=True).centres
        return {"features": features, "centroids": scaled_like_features(features, centroids)}

    def _payloads(self, fed: Federation, state: UIFCAState, samples: Mapping[str, Tensor]) -> dict[int, Payload]:
        """Return payloads with all flows for clients that must assign samples, otherwise with their clusters' flows."""
        # The loss has 1e-4 times the sum of squares, whose gradient is twice the parameters.
        training = LocalTraining(
            optimizer="adam", learning_rate=self.learning_rate, weight_decay=2e-4, steps=self.local_steps,
            batch_size=self.batch_size,
        )  # fmt: skip
        common = {"flow": state.flow, "alpha": state.alpha, "training": asdict(training)}
        everything: dict[str, Any] = {**common, "clusters": torch.arange(len(state.models)), "choose": "flows"}
        everything["models"] = list(state.models)
        if state.steps == 0 and state.centroids:
            everything |= {"choose": "centroids", "start": state.centroids}
        payloads: dict[int, Payload] = dict.fromkeys(fed.present, everything)
        for i in fed.present:
            if str(i) in samples:
                # Models by reference: copies per client would be gigabytes.
                clusters = samples[str(i)].nonzero().flatten()
                models = [everything["models"][cluster] for cluster in clusters.tolist()]
                payloads[i] = {**common, "clusters": clusters, "models": models}
        return payloads


@client_task(
    takes={"features": forms.is_name, "n_clusters": forms.counts_to(forms.MANY)},
    holds={"centres": forms.reals("centres", None)},
    sends="The middle of each of the client's clusters",
)
def send_centres(client: Client, payload: Payload) -> Payload:
    """Send the centres of the client's own clusters."""
    points = cached_features(payload["features"], client.x)
    return {"centres": awasthi_sheffet(points, payload["n_clusters"], client.rng).centres}


@client_task(
    takes={
        **_FLOWS, "training": LOCAL_TRAINING, "clusters": forms.int64("own"),
        "models": forms.ListOf(forms.updates("size")),
        "choose": forms.Optional(forms.one_of("flows", "centroids")),
        "start": forms.Optional({"features": forms.is_name, "centroids": forms.reals("clusters", "width")}),
    },
    holds={
        "samples": forms.int64(None), "clusters": forms.int64("own"), "models": forms.updates("own", None),
        "losses": forms.reals("own"), "moved": forms.Optional(forms.is_count),
    },
    sends="A network trained on the rows of each cluster, how many these are, and how wrong it was",
)  # fmt: skip
def choose_and_train(client: Client, payload: Payload) -> Payload:
    """Assign samples to clusters if asked to, and train the flow of each cluster that has samples at the client."""
    reply: Payload = {}
    if "choose" in payload:
        before = client.state.get("clusters")
        if payload["choose"] == "centroids":
            clusters = CentroidMethod.predict(payload["start"], client.x)
            drop(client.x)  # flows need no features
        else:
            clusters = likelihoods({**payload, "models": torch.stack(payload["models"])}, client.x).argmax(0)
        client.state["clusters"] = clusters
        reply["moved"] = len(client) if before is None else int((clusters != before).sum())
        client.state["sizes"] = clusters.bincount(minlength=len(payload["models"]))
    flow, training = Flow.of(payload["flow"]), LocalTraining(**payload["training"])
    x, clusters = spread_levels(client.x, payload["alpha"], client.rng), client.state["clusters"]
    trained, models, losses = [], [], []
    for cluster, start in zip(payload["clusters"].tolist(), payload["models"], strict=True):
        members = x[clusters == cluster]
        if len(members):
            model, loss = train_locally(flow, start, members, members, client.rng, training)
            trained.append(cluster)
            models.append(model)
            losses.append(loss)
    reply |= {"clusters": torch.tensor(trained), "models": torch.stack(models), "losses": torch.tensor(losses)}
    return reply | {"samples": client.state["sizes"]}
