"""IFCA, the iterative federated clustering algorithm (Ghosh, Chung, Yin, Ramchandran 2020; algorithm 1)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, Record, client_task
from fedkin.core.federation import Replies
from fedkin.core.method import Count
from fedkin.core.replies import Expected, below, candidates, is_amount, is_count, is_number, one_of, updates
from fedkin.methods.clients.client_method import (
    ClientMethod,
    ClientMethodState,
    Trained,
    Training,
    check_differ,
    labels_of,
    positions,
    round_record,
    trained_update,
    training_of,
    training_task,
)
from fedkin.nn.aggregation import Means
from fedkin.nn.modules import Classifier
from fedkin.nn.network_forms import CLASSIFIER, DESCENT


@dataclass(frozen=True)
class IFCAMethod(ClientMethod):
    """Keeps K models; in every round each client trains the one with the lowest loss on its data.

    A round is one exchange: all K models are sent to a client, which returns its choice and its update. With secure
    sums there are two: one for the choices, and one for the sum of each cluster; a cluster of fewer than three clients
    skips the round. A cluster that no client chose keeps its model.

    As the baseline of Prigent et al. (2024), clients choose by one batch, ``identity="batch"``, and in their code at
    random in the first round, which is not available here.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    identity : {"all", "batch"}
        Whether a client chooses by the loss on all of its data, or on one batch.
    averaging : {"models", "gradients"}
        Option II of the algorithm: clients train, a cluster's model becomes its members' mean. Option I: clients send
        one gradient (on the data that `identity` names), and a cluster's sum of them is divided by the number of *all*
        clients that replied.
    start : {"random", "kmeans"}
        "random" initialises K models independently, so a module must not have given weights. "kmeans" has each trained
        by one client, chosen as k-means++ chooses centres: with probability proportional to its loss under the models
        so far (as in HypCluster; Mansour et al. 2020).
    shared_layers : int
        Number of leading parameter tensors that all clusters share (section 5 of the paper). A convolution has two,
        weights and biases.
    """

    n_clusters: Count = 3
    identity: Literal["all", "batch"] = "all"
    averaging: Literal["models", "gradients"] = "models"
    start: Literal["random", "kmeans"] = "random"
    shared_layers: Annotated[int, Ge(0)] = 0

    traits = ClientMethod.traits.replace(
        finds_k=False,
        takes_k=True,
        sends="the change of its model, the number of its samples and its loss, and which model it chose",
        cost="cheap",
        sums_suffice={"averaging": "models", "start": "random", "aggregation": "mean"},
        paper={"weighting": "clients"},
    )

    def init(self, fed: Federation) -> ClientMethodState:
        """Return K models, and no client in a cluster yet."""
        state: ClientMethodState = self.unplaced(fed, self.n_clusters)
        models = self._seeded(fed, state) if self.start == "kmeans" else state.models
        shared = Classifier.of(state.module).leading(self.shared_layers)
        models[:, :shared] = models[0, :shared]
        return dataclasses.replace(state, models=models)

    def step(self, fed: Federation, state: ClientMethodState) -> tuple[ClientMethodState, Record]:
        """Have clients choose a model and train it; add to each model the mean update of the clients that chose it.

        Raises FedkinError if all models are the same at first, for a module with given weights.
        """
        if state.steps == 0:
            check_differ(state, self.shared_layers, "with start 'kmeans' each is trained by another client first")
        shared = Classifier.of(state.module).leading(self.shared_layers)
        labels, means = state.labels.clone(), self.means_of(len(state.models), state.models.shape[1], shared)
        missing: dict[int, str] = {}
        if fed.secure_sums:  # masks cancel within a cluster, so clusters must be known before updates are summed
            clusters = self._choices(fed, state, labels)
            missing = clusters.missing
            trained = self.train_clusters(fed, state, clusters, means)
        else:
            trained = self._chosen_and_trained(fed, state, labels, means)
        moves, total = means.all(), sum(means.weights)
        if self.averaging == "gradients" and total > 0:
            moves[:, shared:] *= (torch.tensor(means.weights) / total).unsqueeze(1)
        models = state.models + self.server_learning_rate * moves
        means.check(models, state.models)
        after = state.next(models=models, labels=labels, finished=self.finished(state))
        return after, round_record(fed, trained, labels, missing=missing)

    def _chosen_and_trained(self, fed: Federation, state: ClientMethodState, labels: Tensor, means: Means) -> Trained:
        """Write every client's choice to `labels` and add its update to `means`, in one exchange."""
        position, losses = positions(fed), {}
        payloads = dict.fromkeys(self.participants(fed, state), self._payload(state) | {"averaging": self.averaging})
        expected: Expected = {"update": updates(means.size), "cluster": below(len(state.models))}
        replies = fed.stream(choose_and_train, payloads, expected)
        for client, reply in replies:
            cluster = int(reply["cluster"])
            labels[position[client]] = cluster
            means.add(cluster, reply["update"], self.weight(reply), client)
            losses[client] = reply["loss"]
        return Trained.each(losses, replies.missing)

    def _choices(self, fed: Federation, state: ClientMethodState, labels: Tensor) -> Replies[int]:
        """Return every client's choice, which is also written to `labels`."""
        payloads, position = dict.fromkeys(self.participants(fed, state), self._payload(state)), positions(fed)
        replies = fed.ask(choose, payloads, {"cluster": below(len(state.models))})
        choices = replies.map(lambda reply: int(reply["cluster"]))
        for client, cluster in choices.items():
            labels[position[client]] = cluster
        return choices

    def _payload(self, state: ClientMethodState) -> Payload:
        common = {"module": state.module, "models": state.models, "training": self.training_settings(state)}
        return {**common, "identity": self.identity}

    def _seeded(self, fed: Federation, state: ClientMethodState) -> Tensor:
        """Return K models, each the first model trained by one client (see `start`)."""
        models: list[Tensor] = []
        chances = dict.fromkeys(fed.ids, 1.0)
        for k in range(self.n_clusters):
            if models:
                by_model = self.losses_at(fed, dataclasses.replace(state, models=torch.stack(models)), fed.ids)
                chances = {client: float(losses.min()) for client, losses in by_model.items()}
            models.append(self._trained_by_one(fed, state, chances, k))
        return torch.stack(models)

    def _trained_by_one(self, fed: Federation, state: ClientMethodState, chances: dict[int, float], k: int) -> Tensor:
        """Return the first model trained by one client, sampled by `chances`; if it fails, by another."""
        clients, weights, start = list(chances), torch.tensor(list(chances.values())), state.models[0]
        count = int((weights > 0).sum()) if weights.sum() > 0 else 0
        for row in torch.multinomial(weights, count, generator=fed.rng("seeding", k)).tolist() if count else ():
            for reply in dict(self.trained(fed, state, {clients[row]: start})).values():
                update: Tensor = reply["update"]
                return start + update
        raise FedkinError("No client answered, so the models of IFCA cannot be seeded.")


_CHOICE: Expected = {
    "module": CLASSIFIER, "models": candidates("models", "size"), "training": DESCENT,
    "identity": one_of("all", "batch"),
}  # fmt: skip


@training_task(
    takes={**_CHOICE, "averaging": one_of("models", "gradients")},
    holds={"cluster": is_count, "samples": is_amount, "loss": is_number},
    sends="Which network suits the client best, what training has changed in it, and how wrong it was",
)
def choose_and_train(client: Client, payload: Payload) -> Training:
    """Choose the model with the lowest loss, then train it or compute one gradient."""
    rows, cluster = _choice(client, payload)
    job = training_of(client, payload, payload["models"][cluster])
    if payload["averaging"] == "gradients":
        once = dataclasses.replace(job.training, steps=1, batch_size=len(rows))
        job = dataclasses.replace(job, x=job.x[rows], y=job.y[rows], training=once)
    reply = yield from trained_update(job)
    return {**reply, "cluster": cluster, "samples": len(client)}


@client_task(takes=_CHOICE, holds={"cluster": is_count}, sends="Which network suits the client best")
def choose(client: Client, payload: Payload) -> Payload:
    """Report the index of the model with the lowest loss, as ``cluster``."""
    return {"cluster": _choice(client, payload)[1]}


def _choice(client: Client, payload: Payload) -> tuple[Tensor, int]:
    """Return the rows that a client chooses by, int64 ``(m,)``, and the model with the lowest loss on them."""
    classifier, x, y = Classifier.of(payload["module"]), client.x, labels_of(client)
    if payload["identity"] == "all":
        return torch.arange(len(x)), classifier.fitting(payload["models"], x, y)
    rows = torch.randperm(len(x), generator=client.rng)[: payload["training"]["batch_size"]]
    return rows, classifier.fitting(payload["models"], x[rows], y[rows])
