"""CCFC: cluster-contrastive federated clustering (Liu, Yan and Zhang), and SCFC, what is left without its clusters.

Clients train an encoder and a predictor together, by federated averaging. First they learn to tell one random view of a
sample from another (SimSiam), which the paper does not mention and its code does; then to tell samples of a cluster
from each other, clusters being those of the round before. Line and equation numbers are the paper's; where it is
silent, what is done is what its authors' code does:

* statistics and counters of batch norms are averaged along with the parameters;
* what Adam remembers stays at a client as long as a phase lasts;
* local centroids are of what a client's own, freshly trained network makes; clusters are by the averaged one;
* clusters are compared by cosine, and only within a batch.

``form`` names the two losses in which paper and code differ, ``start`` the models that clients begin with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.k_means import k_means
from fedkin.core import Federation, FedkinError, Payload, Record, State, Task
from fedkin.core.method import Count, Positive
from fedkin.methods.samples.ccfc import ccfc_tasks
from fedkin.methods.samples.sample_method import SampleMethod, broadcast, describe_clients
from fedkin.nn.contrastive import Backbone, Design, Normalization
from fedkin.nn.contrastive_training import Contrastive, ContrastiveTraining, Form, Precision

Start = Literal["own", "common"]

_TRAINING = tuple(field.name for field in dataclasses.fields(ContrastiveTraining))
_EVERYONE = "all"
_ATTEMPTS, _LAST_ATTEMPTS = 20, 5
"""How often clients are asked for centroids, while there are none, and at the end of a run."""


@dataclass(frozen=True)
class CCFCState(State):
    """What the server knows.

    Attributes
    ----------
    network : dict
        Plain values that `Contrastive.of` makes the network from.
    unit : bool
        Whether all values of the samples lie in [0, 1].
    models : dict of str to Tensor
        The common model ``(size,)`` under "all"; of clients that stand alone each one's, under its id.
    centroids : dict of str to Tensor
        float32 ``(k, latent)`` of length 1, under the same names; empty as long as there are none.
    """

    network: dict[str, Any] = field(default_factory=dict)
    unit: bool = True
    models: dict[str, Tensor] = field(default_factory=dict)
    centroids: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class CCFCMethod(SampleMethod):
    """Contrastive learning by views of a sample, then by clusters.

    Attributes
    ----------
    n_clusters : int
        Clusters to find, and clusters to look for at each client.
    pretrain_rounds : int
        Rounds of learning by views (authors' code: 100; none in the paper).
    cluster_rounds : int
        Rounds of learning by clusters (authors' code: 30). With 0 this is SCFC.
    local_epochs : int
        Passes over a client's data in a round.
    batch_size : int
        Samples per optimiser step.
    learning_rate : float
        Learning rate of Adam.
    model_weight : float
        lambda of eq. 4, the weight of the model-contrastive term: 0.001 for MNIST, 1 for Fashion-MNIST, 0.1 for
        CIFAR-10 and STL-10 (section 4.1). With 0 there is no such term, which saves time in rounds by views.
    form : {"paper", "code"}
        Whether eq. 1 leaves out the pair of a sample with itself, and eq. 4 weighs clusters alike; the authors' code
        does neither.
    start : {"own", "common"}
        Whether each client begins with a random model of its own, as in the authors' code, or all with one, as in line 1.
        The former was better where both were tried, perhaps because the mean of models of different descent has smaller
        weights, which the same steps change faster. Without rounds by views all begin with one.
    backbone : {"auto", "convolutions", "resnet18", "perceptron"}
        "auto" is "convolutions" for images with one channel, "resnet18" for others, and "perceptron" for vectors and
        for images with a side below 8.
    latent : int
        Numbers in a representation: 256, for Fashion-MNIST 64 (section 4.1).
    projector_units : int
        Hidden units of the projector.
    predictor_units : int
        Hidden units of the predictor.
    normalization : {"batch", "group"}
        Normalisation of the backbone's layers; projector and predictor always normalise by batch.
    restarts : int
        Sets of seeds that k-means tries, at clients and at the server.
    standalone : bool
        Every client alone, as a bound: nothing is averaged, and every client has clusters of its own. A client's clusters then
        are no other's, so there are `n_clusters` of them for each; agreement with classes means something within a client
        only. New samples take the cluster they are nearest to in any client's network. Models still travel to the
        server and back, so that traffic is no less.
    precision : {"float32", "bfloat16"}
        Numbers in the products of training. "bfloat16" is faster on some processors that have instructions for it.
    """

    n_clusters: Count = 10
    pretrain_rounds: Annotated[int, Ge(0)] = 100
    cluster_rounds: Annotated[int, Ge(0)] = 30
    local_epochs: Count = 1
    batch_size: Annotated[int, Ge(2)] = 128
    learning_rate: Positive = 1e-3
    model_weight: Annotated[float, Ge(0)] = 0.001
    form: Form = "paper"
    start: Start = "own"
    backbone: Backbone = "auto"
    latent: Count = 256
    projector_units: Count = 256
    predictor_units: Count = 16
    normalization: Normalization = "batch"
    restarts: Count = 10
    standalone: bool = False
    precision: Precision = "float32"

    state_type: ClassVar[type[State]] = CCFCState
    has_device: ClassVar[bool] = True

    def init(self, fed: Federation) -> CCFCState:
        """Line 1, but for the models, which are drawn when they are first sent."""
        if not self.pretrain_rounds + self.cluster_rounds:
            raise FedkinError("method.pretrain_rounds and method.cluster_rounds are both 0; one round is needed.")
        facts = describe_clients(fed)
        units = (self.latent, self.projector_units, self.predictor_units)
        network = Contrastive.of(Design(facts.shape, self.backbone, *units, self.normalization).decided().spec())
        return CCFCState(network=network.spec(), unit=facts.unit)

    def step(self, fed: Federation, state: CCFCState) -> tuple[CCFCState, Record]:
        """One round of either phase."""
        missing: dict[int, str] = {}
        if state.steps < self.pretrain_rounds:
            phase, found = "views", self._trained(fed, state, ccfc_tasks.learn_views, missing)
        else:
            state = self._located(fed, state, missing)
            phase, found = "clusters", self._trained(fed, state, ccfc_tasks.learn_clusters, missing)
        state = state.next(
            models=state.models | found.models,
            centroids=state.centroids | self._joined(fed, state, found.centroids),
            finished=state.steps + 1 >= self.pretrain_rounds + self.cluster_rounds,
        )
        if state.steps >= self.pretrain_rounds:
            state = self._located(fed, state, missing)
        if state.finished:
            self.conclude(fed, state)
        values = {"phase": phase} | ({} if found.loss is None else {"loss": found.loss})
        return state, Record([i for i in found.answered if i not in missing], missing, values)

    def result(self, state: CCFCState) -> dict[str, Any]:
        """Networks and centroids, one of each unless every client is alone; clusters are counted through all of them."""
        names = sorted(state.centroids, key=lambda name: (len(name), name))
        return {
            "n_clusters": sum(len(state.centroids[name]) for name in names),
            "network": state.network,
            "models": [state.models[name] for name in names],
            "centroids": [state.centroids[name] for name in names],
            "clients": [] if names == [_EVERYONE] else names,
        }

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Cluster of samples ``(n, *shape)``: the centroid with the largest cosine to what the network makes of it."""
        return ccfc_tasks.nearest(result, x)

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """What the network makes of samples, of length 1: float32 ``(n, latent)``; of several networks side by side."""
        network = Contrastive.of(result["network"])
        return torch.cat([network.latents(model, x) for model in result["models"]], dim=1)

    def ready(self, state: CCFCState) -> bool:
        """Once there are centroids; of clients that stand alone, once these have clusters of their own."""
        return state.finished if self.standalone else bool(state.centroids)

    def _trained(self, fed: Federation, state: CCFCState, task: Task, missing: dict[int, str]) -> _Found:
        """Have every client train for a round; in the second phase such only as have centroids."""
        sites = [i for i in fed.present if task is ccfc_tasks.learn_views or self._name(i) in state.centroids]
        found, size = _Found(), Contrastive.of(state.network).size
        training = {name: getattr(self, name) for name in _TRAINING}
        asked = self._payloads(fed, state, sites, training=training, unit=state.unit)
        expected = {"model": (size,)} | ({} if task is ccfc_tasks.learn_views else {"centroids": (None, self.latent)})
        for client, reply in fed.stream(task, asked, expected):
            found.add(client, self._name(client), reply)
        missing.update(fed.missing)
        found.average()
        return found

    def _located(self, fed: Federation, state: CCFCState, missing: dict[int, str]) -> CCFCState:
        """With centroids of those that have none yet, by the models there are.

        Raises
        ------
        FedkinError
            If there are none at all, and no client has answered in 20 attempts.
        """
        last = state.steps >= self.pretrain_rounds + self.cluster_rounds
        for attempt in range(_ATTEMPTS):
            sites = [i for i in fed.present if self._name(i) not in state.centroids]
            if not sites or (state.centroids and attempt >= (_LAST_ATTEMPTS if last else 1)):
                break
            if attempt:
                fed.pause(attempt)
            payloads = self._payloads(fed, state, sites)
            replies = fed.ask(ccfc_tasks.locate, payloads, {"centroids": (None, self.latent)})
            missing.update(fed.missing)
            models = dict(state.models)
            for i in replies:
                if self._name(i) not in models:
                    models[self._name(i)] = ccfc_tasks.begun(payloads[i])
            found = [(self._name(i), reply["centroids"]) for i, reply in replies.items()]
            centroids = state.centroids | self._joined(fed, state, found)
            state = dataclasses.replace(state, models=models, centroids=centroids)
        if not state.centroids:
            raise FedkinError(
                f"No client has sent centroids in {_ATTEMPTS} attempts; there are no clusters without them."
            )
        return state

    def _joined(self, fed: Federation, state: CCFCState, found: Sequence[tuple[str, Tensor]]) -> dict[str, Tensor]:
        """Line 19: k-means of the centroids that came under the same name; of length 1."""
        by_name: dict[str, list[Tensor]] = {}
        for name, centroids in found:
            by_name.setdefault(name, []).append(centroids)
        rng = fed.rng("centroids", state.steps)
        joined = {
            name: own[0] if self.standalone else self._clustered(torch.cat(own), rng) for name, own in by_name.items()
        }
        return {name: normalize(centroids, dim=1) for name, centroids in joined.items()}

    def _clustered(self, centroids: Tensor, rng: torch.Generator) -> Tensor:
        return k_means(centroids.double(), self.n_clusters, rng, self.restarts).centres

    def _payloads(self, fed: Federation, state: CCFCState, sites: Sequence[int], **more: Any) -> dict[int, Payload]:
        """Model and centroids for each of `clients`; where there is no model yet, the seed of what they begin with."""
        common = {"network": state.network, "n_clusters": self.n_clusters, "restarts": self.restarts, **more}

        def payload(client: int) -> Payload:
            name = self._name(client)
            known = name in state.models
            model = {"model": state.models[name]} if known else {"begin": self._seed(fed, state, client)}
            centroids = {"centroids": state.centroids[name]} if name in state.centroids else {}
            return {**common, **model, **centroids}

        if self.standalone or self._begin_apart(state):
            return {i: payload(i) for i in sites}
        return dict.fromkeys(sites, payload(sites[0])) if sites else {}

    def _begin_apart(self, state: CCFCState) -> bool:
        """Whether clients without a model begin with one of their own; who comes later to others has the common one."""
        return self.start == "own" and state.steps < self.pretrain_rounds and (self.standalone or not state.models)

    def _seed(self, fed: Federation, state: CCFCState, client: int) -> int:
        """Of the model that a client begins with. It is sent instead: models of many clients would not fit in memory."""
        return fed.rng("init", *([client] if self._begin_apart(state) else [])).initial_seed()

    def conclude(self, fed: Federation, state: CCFCState) -> None:
        """Line 22: every client clusters its samples, by its own network if it is alone."""
        result = self.result(state)
        together: Payload = {"result": result, "first": 0}
        payloads, first = dict.fromkeys(fed.present, together), 0
        if self.standalone:  # a client that was lost takes the clusters of others, as new samples do
            for site, model, own in zip(result["clients"], result["models"], result["centroids"], strict=True):
                alone = {"network": state.network, "models": [model], "centroids": [own]}
                payloads[int(site)] = {"result": alone, "first": first}
                first += len(own)
        broadcast(fed, ccfc_tasks.finish, payloads)

    def _name(self, client: int) -> str:
        return str(client) if self.standalone else _EVERYONE


@dataclass(frozen=True)
class SCFCMethod(CCFCMethod):
    """`CCFCMethod` without clusters: federated SimSiam, then k-means of what its network makes of the samples (section 4.4).

    The same parameters; only the default of `cluster_rounds` differs.
    """

    cluster_rounds: Annotated[int, Ge(0)] = 0


class _Found:
    """What came back from a round of training."""

    def __init__(self) -> None:
        self.answered: list[int] = []
        self.models: dict[str, Tensor] = {}
        self.centroids: list[tuple[str, Tensor]] = []
        self._samples: dict[str, int] = {}
        self._losses: list[tuple[float, int]] = []

    def add(self, client: int, name: str, reply: Payload) -> None:
        """Take notice of a client's reply; models under one name are added up, weighted by samples (eq. 8)."""
        self.answered.append(client)
        samples = reply["samples"]
        if "centroids" in reply:
            self.centroids.append((name, reply["centroids"]))
        if "loss" in reply:
            self._losses.append((reply["loss"], samples))
        weighted = reply["model"].double() * samples
        self.models[name] = self.models[name].add_(weighted) if name in self.models else weighted
        self._samples[name] = self._samples.get(name, 0) + samples

    def average(self) -> None:
        """Make means of the sums in `models`."""
        self.models = {name: (total / self._samples[name]).float() for name, total in self.models.items()}

    @property
    def loss(self) -> float | None:
        """Mean over the clients that could train, weighted by samples; None if there was none."""
        total = sum(samples for _, samples in self._losses)
        return sum(loss * samples for loss, samples in self._losses) / total if total else None
