"""CCFC: cluster-contrastive federated clustering (Liu, Yan and Zhang), and SCFC, the same without cluster contrast.

Clients train an encoder and a predictor by federated averaging. In the first phase they predict one random view of a
sample from another (SimSiam), which is in the authors' code and not in the paper; in the second phase one sample of a
cluster from another, with the clusters of the round before. Line and equation numbers are the paper's. Where it is
silent, the implementation follows the authors' code: Adam's moments stay at a client for a whole phase, local centroids
are of the client's newly trained network, clusters of the averaged one, and compared by cosine within a batch.

``decorrelation`` is CCFC++ (Yan, Liu, Ning and Zhang, arXiv 2402.12852), by the formula of FedDecorr (Shi et al. 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.k_means import distance_margin, k_means
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, client_task
from fedkin.core import payload as forms
from fedkin.core.federation import MAX_ATTEMPTS, Replies
from fedkin.core.method import Count, Positive
from fedkin.methods.samples.ccfc.augmentation import Views, augmentation_for
from fedkin.methods.samples.ccfc.contrastive import (
    CONTRASTIVE_TRAINING,
    DESIGN,
    Backbone,
    Contrastive,
    ContrastiveTraining,
    Design,
    Form,
)
from fedkin.methods.samples.sample_method import (
    FINAL_ATTEMPTS,
    SampleMethod,
    assign_samples,
    broadcast,
    describe_clients,
)
from fedkin.nn.aggregation import Means
from fedkin.nn.descent import AdamMoments

_RESTARTS = 10
"""Starts of k-means, at clients and at the server, as in the authors' code."""
_EVERYONE = "all"


@dataclass(frozen=True)
class CCFCState(State):
    """State of CCFC: the models and the centroids.

    `Contrastive.of` makes the network from `network`; `unit` says whether all values of the samples lie in [0, 1].
    `models` has the common model ``(size,)`` under "all"; with `standalone` each client's, under its id. `centroids`,
    float32 ``(k, latent)`` of length 1, are under the same names; empty before there are any.
    """

    network: dict[str, Any] = field(default_factory=dict)
    unit: bool = True
    models: dict[str, Tensor] = field(default_factory=dict)
    centroids: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class CCFCMethod(SampleMethod):
    """Federated contrastive learning, by views of a sample, then by clusters; k-means of the representations.

    Attributes
    ----------
    n_clusters : int
        Clusters to find, and local clusters per client.
    pretrain_rounds : int
        Rounds of learning by views, as in SimSiam (authors' code: 100; none in the paper).
    cluster_rounds : int
        Rounds of learning by clusters (authors' code: 30). With 0 the method is SCFC.
    local_epochs : int
        Epochs per client and round.
    batch_size : int
        Samples per optimiser step.
    learning_rate : float
        Learning rate of Adam.
    model_weight : float
        lambda of eq. 4, the weight of the model-contrastive term: 0.001 for MNIST, 1 for Fashion-MNIST, 0.1 for
        CIFAR-10 and STL-10 (section 4.1). 0 omits the term, which saves time in the first phase.
    decorrelation : float
        Weight of the mean squared correlation between dimensions of representations, in both phases, which makes the
        method CCFC++. 0 is CCFC.
    form : {"paper", "code"}
        With "paper", eq. 1 omits the pair of a sample with itself, and eq. 4 weighs clusters equally; the authors' code
        does neither.
    views : {"affine", "pillow"}
        How images are cropped, rotated and blurred. "affine" has crops and angles of any size and interpolates once.
        "pillow" makes, for the same random draws, the same pixels as the authors' code: crops of whole pixels,
        rotation by the nearest pixel, 8 bits after every pass; it takes images with one channel and values in [0, 1].
    backbone : {"auto", "convolutions", "resnet18", "perceptron"}
        "auto" is "convolutions" for images with one channel, "resnet18" for others, and "perceptron" for vectors and
        for images with a side below 8.
    latent : int
        Length of a representation: 256, for Fashion-MNIST 64 (section 4.1).
    projector_units : int
        Hidden units of the projector.
    predictor_units : int
        Hidden units of the predictor.
    standalone : bool
        Whether every client trains separately, as a lower bound: nothing is averaged, and every client has `n_clusters`
        clusters of its own, so that scores are meaningful within a client only. New samples take the nearest cluster of
        any client's network. Models are still sent to the server and back, so traffic is the same.
    """

    n_clusters: Count = 10
    pretrain_rounds: Annotated[int, Ge(0)] = 100
    cluster_rounds: Annotated[int, Ge(0)] = 30
    local_epochs: Count = 1
    batch_size: Annotated[int, Ge(2)] = 128
    learning_rate: Positive = 1e-3
    model_weight: Annotated[float, Ge(0)] = 0.001
    decorrelation: Annotated[float, Ge(0)] = 0.0
    form: Form = "paper"
    views: Views = "affine"
    backbone: Backbone = "auto"
    latent: Count = 256
    projector_units: Count = 256
    predictor_units: Count = 16
    standalone: bool = False

    traits = SampleMethod.traits.replace(has_device=True, paper={"form": "code", "views": "pillow"})
    state_type: ClassVar[type[State]] = CCFCState

    def init(self, fed: Federation) -> CCFCState:
        """Return the first state, without models, which are drawn when they are first sent (line 1)."""
        if not self.pretrain_rounds + self.cluster_rounds:
            raise FedkinError("method.pretrain_rounds and method.cluster_rounds are both 0; one round is needed.")
        facts = describe_clients(fed)
        if self.pretrain_rounds:
            augmentation_for(facts.shape, facts.unit, self.views)  # raises at once if the samples do not suit
        units = (self.latent, self.projector_units, self.predictor_units)
        network = Contrastive.of(Design(facts.shape, self.backbone, *units).decided().spec())
        return CCFCState(network=network.spec(), unit=facts.unit)

    def step(self, fed: Federation, state: CCFCState) -> tuple[CCFCState, Record]:
        """Do one round, of learning by views or by clusters."""
        missing: dict[int, str] = {}
        by_views = state.steps < self.pretrain_rounds
        state = state if by_views else self._with_centroids(fed, state, missing)
        models, replies = self._train(fed, state, by_views, missing)
        values: dict[str, Any] = {"phase": "views" if by_views else "clusters"}
        trained = [reply for reply in replies.values() if "loss" in reply]
        if total := sum(reply["samples"] for reply in trained):
            values["loss"] = sum(reply["loss"] * reply["samples"] for reply in trained) / total
        local = [(self._name(i), reply["centroids"]) for i, reply in replies.items() if "centroids" in reply]
        state = state.next(
            models=state.models | models,
            centroids=state.centroids | self._averaged(fed, state, local),
            finished=state.steps + 1 >= self.pretrain_rounds + self.cluster_rounds,
        )
        if state.steps >= self.pretrain_rounds:
            state = self._with_centroids(fed, state, missing)
        if state.finished:
            self.conclude(fed, state)
        return state, Record([i for i in replies if i not in missing], missing, values)

    def conclude(self, fed: Federation, state: CCFCState) -> Replies[Payload]:
        result = self.result(state)
        together: Payload = {"result": result, "first": 0}
        payloads, first = dict.fromkeys(fed.present, together), 0
        if self.standalone:  # clients without a network are assigned as new samples are
            for client, model, centroids in zip(result["clients"], result["models"], result["centroids"], strict=True):
                single = {"network": state.network, "models": [model], "centroids": [centroids]}
                payloads[int(client)] = {"result": single, "first": first}
                first += len(centroids)
        return broadcast(fed, finish, payloads)

    def result(self, state: CCFCState) -> dict[str, Any]:
        names = sorted(state.centroids, key=lambda name: (len(name), name))
        return {
            "n_clusters": sum(len(state.centroids[name]) for name in names),
            "network": state.network,
            "models": [state.models[name] for name in names],
            "centroids": [state.centroids[name] for name in names],
            "clients": [] if names == [_EVERYONE] else names,
        }

    def ready(self, state: CCFCState) -> bool:
        return state.finished if self.standalone else bool(state.centroids)

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        # Eq. 3 has Euclidean distances; for vectors of length 1, as in the authors' code, the order is the same.
        return _cosines(result, x).argmax(1)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return distance_margin((2 - 2 * _cosines(result, x).double()).clamp_min(0).sqrt())

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        network = Contrastive.of(result["network"])
        return torch.cat([network.latents(model, x) for model in result["models"]], dim=1)

    def _train(
        self, fed: Federation, state: CCFCState, by_views: bool, missing: dict[int, str]
    ) -> tuple[dict[str, Tensor], dict[int, Payload]]:
        """Have clients train for a round, in the second phase only those with centroids; return models and replies.

        Models of one name are averaged, weighted by samples (eq. 8).
        """
        clients = [i for i in fed.present if by_views or self._name(i) in state.centroids]
        size, names = Contrastive.of(state.network).size, list(dict.fromkeys(map(self._name, clients)))
        means = Means(len(names), size)
        settings = {"training": self.shared_with(ContrastiveTraining), "unit": state.unit}
        expected = {"model": forms.updates(size)} | ({} if by_views else {"centroids": (None, self.latent)})
        payloads = self._payloads(fed, state, clients, **settings)
        replies: dict[int, Payload] = {}
        stream = fed.stream(learn_views if by_views else learn_clusters, payloads, expected)
        for client, reply in stream:
            means.add(names.index(self._name(client)), reply["model"], reply["samples"], client)
            replies[client] = {key: value for key, value in reply.items() if key != "model"}
        missing.update(stream.missing)
        models = {name: means.of(place) for place, name in enumerate(names) if means.weights[place]}
        if models and not self.standalone:
            means.check(models[_EVERYONE][None])
        return models, replies

    def _with_centroids(self, fed: Federation, state: CCFCState, missing: dict[int, str]) -> CCFCState:
        """Return the state with centroids for clients that have none, found with the current models.

        Raises FedkinError if there are no centroids, and no client replies in `MAX_ATTEMPTS` attempts.
        """
        clients = [i for i in fed.present if self._name(i) not in state.centroids]
        if state.centroids and not clients:
            return state
        payloads, expected = self._payloads(fed, state, clients), {"centroids": (None, self.latent)}
        attempts = FINAL_ATTEMPTS if state.finished else 1
        replies = fed.ask_again(locate, payloads, attempts, expected)
        if not (replies or state.centroids):  # the second phase needs centroids
            replies = fed.ask_again(locate, payloads, MAX_ATTEMPTS - attempts, expected)
        missing.update(replies.missing)
        if not (replies or state.centroids):
            raise FedkinError(f"No client has sent centroids in {MAX_ATTEMPTS} attempts; clusters need them.")
        models = {self._name(i): initial_model(payloads[i]) for i in replies} | state.models
        local = [(self._name(i), reply["centroids"]) for i, reply in replies.items()]
        return replace(state, models=models, centroids=state.centroids | self._averaged(fed, state, local))

    def _averaged(self, fed: Federation, state: CCFCState, local: Sequence[tuple[str, Tensor]]) -> dict[str, Tensor]:
        """Return k-means centroids of the centroids received under each name, scaled to length 1 (line 19)."""
        if self.standalone or not local:
            return {name: normalize(centroids, dim=1) for name, centroids in local}
        pooled = torch.cat([centroids for _, centroids in local]).double()
        common = k_means(pooled, self.n_clusters, fed.rng("centroids", state.steps), _RESTARTS).centres
        return {_EVERYONE: normalize(common, dim=1)}

    def _payloads(self, fed: Federation, state: CCFCState, clients: Sequence[int], **more: Any) -> dict[int, Payload]:
        """Return payloads with each client's model, or the seed of its initial model, and centroids.

        In the first phase clients without a model draw one of their own, as in the authors' code; in the second, and
        clients that join later, have a common one (line 1). A seed is sent in a model's place, as many models would not
        fit in memory.
        """
        own_start = state.steps < self.pretrain_rounds and (self.standalone or not state.models)

        def payload(client: int) -> Payload:
            name = self._name(client)
            content = {"network": state.network, "n_clusters": self.n_clusters, **more}
            if name in state.models:
                content["model"] = state.models[name]
            else:
                content["begin"] = fed.rng("init", *([client] if own_start else [])).initial_seed()
            return content | ({"centroids": state.centroids[name]} if name in state.centroids else {})

        if self.standalone or own_start:
            return {i: payload(i) for i in clients}
        return dict.fromkeys(clients, payload(clients[0])) if clients else {}

    def _name(self, client: int) -> str:
        return str(client) if self.standalone else _EVERYONE


@dataclass(frozen=True)
class SCFCMethod(CCFCMethod):
    """CCFC without cluster contrast: federated SimSiam, then k-means of representations (section 4.4)."""

    cluster_rounds: Annotated[int, Ge(0)] = 0

    traits = CCFCMethod.traits.replace(paper={"form": "code", "views": "pillow"})


# Tasks of CCFC's clients: one function per exchange of the algorithm.
#
# The state of a client holds Adam's moments, ``adam_mean``, ``adam_square`` and ``adam_steps``, during a phase;
# ``phase``, 0 for views and 1 for clusters; and at the end ``clusters`` ``(n,)``.


_CENTROIDS = forms.reals("clusters", "latent")
_COMMON: forms.Expected = {
    "network": DESIGN, "n_clusters": forms.counts_to(forms.MANY), "model": forms.Optional(forms.updates("size")),
    "begin": forms.Optional(forms.is_seed),
}  # fmt: skip
_TRAINED: forms.Expected = {
    "model": forms.updates(None), "samples": forms.is_count, "loss": forms.Optional(forms.is_number)
}  # fmt: skip
_LEARNING: forms.Expected = {**_COMMON, "training": CONTRASTIVE_TRAINING, "unit": forms.is_flag}


@client_task(
    takes={**_LEARNING, "centroids": forms.Optional(_CENTROIDS)},
    holds=_TRAINED,
    sends="A network trained on the client's rows, and how wrong it was",
)
def learn_views(client: Client, payload: Payload) -> Payload:
    """Train the model on pairs of views; send the model, the number of samples and the loss, if any."""
    network, training = Contrastive.of(payload["network"]), ContrastiveTraining(**payload["training"])
    moments = _moments(client, 0, network)
    how = augmentation_for(network.shape, payload["unit"], training.views)
    model, loss = network.learn_views(initial_model(payload), client.x, client.rng, moments, how, training)
    return _trained(client, model, loss, moments)


@client_task(
    takes={**_LEARNING, "centroids": _CENTROIDS},
    holds=_TRAINED,
    sends="A network trained on the client's rows, and the middle of each cluster as it sees rows",
)
def learn_clusters(client: Client, payload: Payload) -> Payload:
    """Assign samples, train the model on the clusters, and send it with new centroids (algorithm 1, lines 6 to 11)."""
    network, training = Contrastive.of(payload["network"]), ContrastiveTraining(**payload["training"])
    moments, start = _moments(client, 1, network), initial_model(payload)
    latents, anchors = network.anchors(start, client.x)
    clusters = (latents @ payload["centroids"].T).argmax(1)
    model, loss = network.learn_clusters(start, client.x, clusters, anchors, client.rng, moments, training)
    return _trained(client, model, loss, moments) | {"centroids": _centroids(client, model, payload)}


@client_task(
    takes={**_COMMON, "centroids": forms.Optional(_CENTROIDS)},
    holds={"centroids": forms.reals(None, None)},
    sends="The middle of each cluster of rows, as a network sees them",
)
def locate(client: Client, payload: Payload) -> Payload:
    """Send k-means centroids of the samples' representations."""
    return {"centroids": _centroids(client, initial_model(payload), payload)}


@client_task(
    takes={
        "result": {
            "network": DESIGN, "n_clusters": forms.Optional(forms.is_count),
            "models": forms.ListOf(forms.updates("size")), "centroids": forms.ListOf(forms.reals(None, "latent")),
            "clients": forms.Optional(forms.ListOf(forms.is_text)),
        },
        "first": forms.is_count,
    }
)  # fmt: skip
def finish(client: Client, payload: Payload) -> Payload:
    """Assign every sample to a cluster, numbered from ``first``, and delete Adam's moments."""
    AdamMoments.forget(client.state)
    client.state.pop("phase", None)
    assign_samples(client, payload, CCFCMethod)
    client.state["clusters"] += payload["first"]
    return {}


def initial_model(payload: Payload) -> Any:
    """Return the model in the payload, or the random one of the payload's seed."""
    if "model" in payload:
        return payload["model"]
    return Contrastive.of(payload["network"]).initial(torch.Generator().manual_seed(payload["begin"]))


def _cosines(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return cosines ``(n, k)`` between the samples' representations and the centroids of all networks."""
    network = Contrastive.of(result["network"])
    pairs = zip(result["models"], result["centroids"], strict=True)
    return torch.cat([network.latents(model, x) @ centroids.T for model, centroids in pairs], dim=1)


def _moments(client: Client, phase: int, network: Contrastive) -> AdamMoments:
    """Return the client's Adam moments; every phase starts with new ones."""
    if int(client.state.get("phase", torch.tensor(-1))) != phase:
        AdamMoments.forget(client.state)
        client.state["phase"] = torch.tensor(phase)
    return AdamMoments.of_client(client.state, network.parameters)


def _trained(client: Client, model: Tensor, loss: float | None, moments: AdamMoments) -> Payload:
    moments.keep(client.state)
    return {"model": model, "samples": len(client)} | ({} if loss is None else {"loss": loss})


def _centroids(client: Client, model: Tensor, payload: Payload) -> Tensor:
    latents = Contrastive.of(payload["network"]).latents(model, client.x)
    return k_means(latents, payload["n_clusters"], client.rng, _RESTARTS).centres
