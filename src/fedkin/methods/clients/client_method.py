"""Base of all methods of clustered federated learning: local training, participation, one model per cluster.

A method decides which clients form a cluster. How clients train, what is transmitted and what a result holds is the
same for all methods. A client sends its *update*: the trained model minus the received one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Interval
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Method, Payload, Record, State, client_task
from fedkin.core import payload as forms
from fedkin.core.errors import listing, option
from fedkin.core.federation import Replies, ReplyStream
from fedkin.core.method import Count, Positive, Traits, Values, display_name, refuse_unused
from fedkin.methods.clients.local_work import Training, labels_of, trained_update, training_of, training_task
from fedkin.nn.aggregation import Aggregation, Means
from fedkin.nn.descent import LocalTraining
from fedkin.nn.modules import CLASSIFIER, Classifier, choose, lowest_loss
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import check_enough, summed


@client_task(
    takes={},
    holds={"shape": forms.is_shape, "classes": forms.counts_to(forms.MAX_CLASSES, 0)},
    sends="How large a sample is, and how many classes there are",
    fewest="none",
)
def describe(client: Client, payload: Payload) -> Payload:
    """Report the shape of a sample and the number of classes, one more than the largest label; 0 without labels."""
    return {"shape": list(client.x.shape[1:]), "classes": 0 if client.y is None else int(client.y.max()) + 1}


@training_task()
def train(client: Client, payload: Payload) -> Training:
    """Train the model on the client's data; report the update, the number of samples and the training loss."""
    return trained_update(training_of(client, payload, payload["model"]))


@client_task(
    takes={"module": CLASSIFIER, "models": forms.candidates("models", "size")},
    holds={"losses": forms.reals(None, minimum=0)},
    sends="How wrong each model is on the client's rows, on average",
)
def losses(client: Client, payload: Payload) -> Payload:
    """Report the mean loss of each model ``(K, size)`` on all of the client's data, as ``losses`` ``(K,)``."""
    classifier, y = Classifier.of(payload["module"]), labels_of(client)
    return {"losses": classifier.losses(payload["models"], client.x, y)}


UNKNOWN = -1
"""Label of a client whose cluster is not known yet."""


@dataclass(frozen=True)
class Trained:
    """Clients that replied in a round, in order of id, their mean training `loss`, and who did not reply, and why.

    `losses` are by client, empty with secure sums.
    """

    answered: list[int]
    loss: float | None
    losses: Mapping[int, float] = field(default_factory=dict)
    missing: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def each(cls, losses: Mapping[int, float], missing: Mapping[int, str]) -> Trained:
        """Return the clients with these losses."""
        return cls(sorted(losses), sum(losses.values()) / len(losses) if losses else None, losses, missing)


def round_record(
    fed: Federation, trained: Trained, labels: Tensor, *, missing: Mapping[int, str] | None = None, **values: Any
) -> Record:
    """Return the record of a round, with the values that all methods of this family report.

    `missing` are the clients missing in earlier exchanges of the round; those of `trained` are added.

    ``loss``: mean training loss over the clients that replied; ``losses``: the same by client; ``clusters``: the number
    of clusters with clients; ``sizes``: clients in each cluster, up to the last with any; ``labels``: the cluster of
    each client, -1 where it is unknown or the client has not joined yet.
    """
    present = torch.zeros(len(labels), dtype=torch.bool)
    present[fed.present] = True
    labels = labels.masked_fill(~present, UNKNOWN)
    sizes = labels[labels >= 0].bincount().tolist()
    common = {
        "loss": trained.loss,
        "clusters": sum(size > 0 for size in sizes),
        "sizes": sizes,
        "labels": labels.tolist(),
        "losses": {str(client): loss for client, loss in trained.losses.items()},
    }
    absent = dict(sorted({**(missing or {}), **trained.missing}.items()))
    return Record([i for i in trained.answered if i not in absent], absent, common | values)


NotNegative = Annotated[float, Ge(0)]
PositiveFraction = Annotated[float, Interval(gt=0, le=1)]


@dataclass(frozen=True)
class ClientMethodState(State):
    """State of every method that clusters clients: one model per cluster, and the cluster of each client.

    `Classifier.of` makes the architecture from `module`; `models` are float32 ``(K, size)``. `labels`, int64 ``(n,)``,
    are the clients' clusters in order of id; -1 where a cluster is not known yet.
    """

    module: dict[str, Any] = field(default_factory=dict)
    models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    labels: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


class RoundValues(Values, total=False):
    """Values of a round; `losses` are by client, `sizes` by cluster, and `labels` the cluster of each client."""

    sizes: list[int]
    labels: list[int]
    losses: dict[str, float]


@dataclass(frozen=True)
class ClientMethod(Method[Any]):
    """Base of all methods of clustered federated learning, with the hyper-parameters they share.

    Attributes
    ----------
    module : str
        Model to train: a name from `fedkin list`, or a dotted path ``package.module:factory``; "auto" is a
        perceptron for vectors and LeNet-5 for images.
    rounds : int
        Rounds of training.
    participation : float
        Fraction of the clients that take part in a round, in (0, 1]; at least one client.
    local_epochs : int
        Passes of a client over its data in a round.
    local_steps : int or None
        Optimiser steps of a client in a round, in place of `local_epochs`.
    batch_size : int
        Samples per optimiser step.
    optimizer : {"sgd", "adam"}
        Optimiser of the clients; a new one in every round.
    learning_rate : float
        Learning rate of the clients' optimiser.
    momentum : float
        Momentum of the clients' SGD.
    weight_decay : float
        Weight decay of the clients' optimiser.
    proximal : float
        FedProx's mu, 0 for none (Li et al. 2020).
    weighting : {"samples", "clients"}
        Whether updates are weighted by the client's number of samples, or equally.
    aggregation : {"mean", "median", "trimmed-mean"}
        How a cluster's updates are combined: by their weighted mean, the coordinate-wise median, or the coordinate-wise
        mean without a fifth of the values at either end. The latter two weight clients equally, whatever `weighting`
        says, and are robust against malicious clients, up to a fifth of a cluster.
    """

    module: str = "auto"
    rounds: Count = 30
    participation: PositiveFraction = 1.0
    local_epochs: Count = 3
    local_steps: Count | None = None
    batch_size: Count = 32
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive = 0.05
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    weight_decay: NotNegative = 0.0
    proximal: NotNegative = 0.0
    weighting: Literal["samples", "clients"] = "samples"
    aggregation: Aggregation = "mean"

    state_type: ClassVar[type[ClientMethodState]] = ClientMethodState
    record_type: ClassVar[type[Any]] = RoundValues
    traits = Traits(clusters="clients", finds_k=True, takes_k=False, has_device=True, scenario="label-clusters")

    def __post_init__(self) -> None:
        if self.optimizer != "sgd":
            refuse_unused(self, {"momentum": f"with optimizer = '{self.optimizer}'"})

    def classifier_for(self, shape: tuple[int, ...], classes: int) -> Classifier:
        """Return the architecture for samples of `shape` and `classes` classes."""
        name = choose(shape) if self.module == "auto" else self.module
        return Classifier.of({"name": name, "shape": shape, "classes": max(2, classes)})

    def check_clients(self, fed: Federation) -> None:
        self.described(fed)

    def described(self, fed: Federation) -> tuple[tuple[int, ...], int]:
        """Return the shape of the clients' samples and the number of classes.

        Raises FedkinError if clients differ in the shape of their samples, or too many have no labels.
        """
        replies = fed.ask_until_all_reply(describe, {})
        without = [client for client, reply in replies.items() if reply["classes"] == 0]
        if without and len(replies) - len(without) < max(3, fed.min_clients, 2 * len(without) + 1):
            names, have = listing(list(map(fed.client_label, without)), 5), "has" if len(without) == 1 else "have"
            raise FedkinError(
                f"{names} {have} no labels, which {display_name(type(self))} needs; name their column with "
                f"{option('label')}."
            )
        fed.drop(dict.fromkeys(without, "it has no labels"))
        alike = fed.keep_majority({client: reply for client, reply in replies.items() if client not in without})
        return forms.common_shape(alike), max(reply["classes"] for reply in alike.values())

    def init(self, fed: Federation) -> Any:
        """Return the first state: by default one new model, and all clients in one cluster."""
        return dataclasses.replace(self.unplaced(fed), labels=torch.zeros(len(fed.ids), dtype=torch.int64))

    def one_each(self, fed: Federation) -> Any:
        """Return a first state of one new model, copied for each client, and every client a cluster by itself."""
        state, count = self.unplaced(fed), len(fed.ids)
        return dataclasses.replace(state, models=state.models.repeat(count, 1), labels=torch.arange(count))

    def unplaced(self, fed: Federation, models: int | None = None) -> Any:
        """Return a first state of one new model, or of several that differ, and no client in a cluster yet."""
        classifier = self.classifier_for(*self.described(fed))
        rngs = [fed.rng("init")] if models is None else [fed.rng("init", k) for k in range(models)]
        return self.state_type(
            module=classifier.spec(),
            models=torch.stack([classifier.initial(rng) for rng in rngs]),
            labels=torch.full((len(fed.ids),), UNKNOWN),
        )

    def training_settings(self) -> dict[str, Any]:
        """Return the settings of the clients' training, a `LocalTraining` as a payload."""
        training = LocalTraining(epochs=self.local_epochs, steps=self.local_steps, **self.shared_with(LocalTraining))
        return dataclasses.asdict(training)

    def rounds_done(self, state: Any) -> int:
        """Return the number of rounds of training so far."""
        steps: int = state.steps
        return steps

    def participants(self, fed: Federation, state: State, fraction: float | None = None) -> list[int]:
        """Return the ids of clients sampled to take part in this round, ascending: a `fraction` of those present.

        Raises FedkinError if they are too few for secure aggregation.
        """
        present = fed.present
        count = max(1, round((self.participation if fraction is None else fraction) * len(present)))
        if fed.secure_sums:
            check_enough(count)
        drawn = torch.randperm(len(present), generator=fed.rng("participants", state.steps))[:count]
        # In order of id, as the order of a sum decides its last digits.
        return sorted(present[row] for row in drawn.tolist())

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Have clients train the model of their cluster, and add to each model its cluster's mean update."""
        trained, means = self.averaged(fed, state)
        return self.after_round(state, means), round_record(fed, trained, state.labels)

    def averaged(self, fed: Federation, state: ClientMethodState) -> tuple[Trained, Means]:
        """Train clients of known clusters for one exchange; return who trained, and the mean updates of clusters."""
        means, clusters = self.means(state), self.known_clusters(state.labels, self.participants(fed, state))
        return self.train_clusters(fed, state, clusters, means), means

    def after_round(self, state: Any, means: Means, **changes: Any) -> Any:
        """Return the state after a round: each model moves by its cluster's mean update, other fields by `changes`."""
        models = means.apply_to(changes.pop("models", state.models))
        return state.next(**{"models": models, "finished": self.finished(state)} | changes)

    def means(self, state: ClientMethodState, shared: int = 0) -> Means:
        """Return an empty accumulator of mean updates, `shared` leading numbers of which are common to all."""
        clusters, size = state.models.shape
        return self.means_of(clusters, size, shared)

    def trained(self, fed: Federation, state: ClientMethodState, starts: Mapping[int, Tensor]) -> ReplyStream[int]:
        """Have clients train `starts`, their models by client; return (client, reply of `client_method.train`)."""
        return fed.stream(train, self.training(state, starts), {"update": (state.models.shape[1],)})

    def training(self, state: ClientMethodState, starts: Mapping[int, Tensor], **more: Any) -> dict[int, Payload]:
        """Return payloads of `client_method.train` by client; clients that start from the same model share one."""
        common = {"module": state.module, "training": self.training_settings(), **more}
        # A model is sent by reference: one payload for all of its clients, and no copy of it per client.
        models = {model.data_ptr(): model for model in starts.values()}
        by_model = {place: common | {"model": model} for place, model in models.items()}
        return {client: by_model[model.data_ptr()] for client, model in starts.items()}

    def known_clusters(self, labels: Tensor, clients: Iterable[int]) -> dict[int, int]:
        """Return the cluster of each of `clients` by their `labels`; without those whose cluster is unknown."""
        clusters = labels.tolist()
        return {client: clusters[client] for client in clients if clusters[client] != UNKNOWN}

    def losses_at(self, fed: Federation, state: ClientMethodState, clients: Sequence[int]) -> Replies[Tensor]:
        """Return the losses ``(K,)`` of all models, by client that replies, in one exchange; none for no clients."""
        if not clients:
            return Replies({}, {})
        payload = {"module": state.module, "models": state.models}
        replies = fed.ask(losses, dict.fromkeys(clients, payload), {"losses": forms.reals(len(state.models))})
        return replies.map(itemgetter("losses"))

    def place_by_loss(
        self, fed: Federation, state: ClientMethodState, clients: Sequence[int], labels: Tensor
    ) -> dict[int, str]:
        """Give those of `clients` that have no cluster in `labels` the one of lowest loss; return who did not reply."""
        unknown = [client for client in clients if labels[client] == UNKNOWN]
        losses = self.losses_at(fed, state, unknown)
        for client, by_model in losses.items():
            labels[client] = lowest_loss(by_model)
        return losses.missing

    def add_each(
        self, means: Means, replies: ReplyStream[int], cluster_of: Callable[[int, Payload], int] = lambda *reply: 0
    ) -> Trained:
        """Add each client's update to the mean of its cluster as replies come in; return who trained."""
        losses = {}
        for client, reply in replies:
            means.add(cluster_of(client, reply), reply["update"], self.weight(reply), client)
            losses[client] = reply["loss"]
        return Trained.each(losses, replies.missing)

    def train_clusters(
        self, fed: Federation, state: ClientMethodState, clusters: Mapping[int, int], means: Means
    ) -> Trained:
        """Have clients train the models of their `clusters`, given by client, and add their updates to `means`.

        Where only sums may be known, the secure sum of each cluster's updates is added, and no client's loss is known.
        """
        models = list(state.models)
        starts = {client: models[cluster] for client, cluster in clusters.items()}
        if not fed.secure_sums:
            return self.add_each(means, self.trained(fed, state, starts), lambda client, reply: clusters[client])
        by = "samples" if self.weighting == "samples" else None
        terms = [Term("update", (state.models.shape[1],), by), Term("samples"), Term("loss")]
        sums = summed(fed, train, self.training(state, starts), terms, clusters)
        for cluster, sum_ in sums.items():
            weight = float(sum_.totals["samples"]) if by else float(len(sum_.clients))
            means.add(cluster, sum_.totals["update"] / weight, weight)
        answered = sorted(client for sum_ in sums.values() for client in sum_.clients)
        loss = float(sum(sum_.totals["loss"] for sum_ in sums.values())) / len(answered) if answered else None
        return Trained(answered, loss, missing=sums.missing)

    def weight(self, reply: Payload) -> float:
        """Return the weight of a client's update."""
        return float(reply["samples"]) if self.weighting == "samples" else 1.0

    def means_of(self, clusters: int, size: int, shared: int = 0) -> Means:
        """Return an empty accumulator of mean updates ``(size,)``, `shared` numbers of which are common to all."""
        return Means(clusters, size, shared, self.aggregation)

    def finished(self, state: Any) -> bool:
        """Whether the current round is the last."""
        return self.rounds_done(state) + 1 >= self.rounds

    def result(self, state: Any) -> dict[str, Any]:
        """Return the clients' clusters, the models, and what new clients and new samples are assigned by."""
        clusters = {"n_clusters": len(state.models), "labels": state.labels, "models": state.models}
        return {**clusters, "module": state.module, "training": self.training_settings()}

    @staticmethod
    def model_of(result: Mapping[str, Any], client: int) -> Tensor:
        """Return the model ``(size,)`` of the cluster of `client`, or the first model if the cluster is unknown."""
        model: Tensor = result["models"][max(0, int(result["labels"][client]))]
        return model

    @classmethod
    def predict(cls, result: Mapping[str, Any], x: Tensor, client: int | None = None, cluster: int = 0) -> Tensor:
        """Return each sample's class, int64 ``(n,)``, by the model of the client or of `cluster`."""
        return cls.logits_of(result, x, client, cluster).argmax(1)

    @classmethod
    def logits_of(cls, result: Mapping[str, Any], x: Tensor, client: int | None = None, cluster: int = 0) -> Tensor:
        """Return each sample's logits ``(n, classes)`` by the model of the client or of `cluster`."""
        model = result["models"][cluster] if client is None else cls.model_of(result, client)
        return Classifier.of(result["module"]).logits(model, x)

    @staticmethod
    def assign(result: Mapping[str, Any], unseen: Client) -> int:
        """Return the cluster of an unseen client: by default the one with the lowest loss on its labelled samples."""
        classifier = Classifier.of(result["module"])
        return classifier.fitting(result["models"], unseen.x, labels_of(unseen))

    @staticmethod
    def assigns_by_labels(result: Mapping[str, Any]) -> bool:
        """Whether an unseen client needs labels to be assigned."""
        return True


def check_differ(state: ClientMethodState, shared_layers: int, instead: str) -> None:
    """Raise FedkinError if several models are the same in all but `shared_layers`; `instead` says what helps."""
    models = state.models[:, Classifier.of(state.module).leading(shared_layers) :]
    if len(models) > 1 and models.shape[1] > 0 and bool((models == models[0]).all()):
        raise FedkinError(
            f"All {len(models)} models start with the same weights, so clients cannot choose among them; {instead}."
        )
