"""IFCA, the iterative federated clustering algorithm (Ghosh, Chung, Yin, Ramchandran 2020; algorithm 1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, Record, task
from fedkin.core.method import Count
from fedkin.core.replies import Expected, below, candidates, is_amount, is_count, is_number, one_of, updates
from fedkin.methods.clients.client_method import (
    ClientMethod,
    ClientMethodState,
    Trained,
    check_differ,
    labels_of,
    positions,
    round_record,
    train_clusters,
    training_of,
)
from fedkin.nn.aggregation import Means
from fedkin.nn.client_stack import Job, descend_all
from fedkin.nn.modules import Classifier
from fedkin.nn.network_forms import CLASSIFIER, DESCENT


@dataclass(frozen=True)
class IFCAMethod(ClientMethod):
    """Keeps K models; in every round each client trains the one with the lowest loss on its data.

    A round is one exchange: all K models are sent to a client, which returns its choice and its update. With secure
    sums there are two: one for the choices, and one for the sum of each cluster; a cluster of fewer than three clients
    skips the round.

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
    empty : {"keep", "reseed"}
        Whether a cluster that has lost all its clients keeps its model, as in the paper, or takes over the model of the
        client with the highest loss.
    """

    n_clusters: Count = 3
    identity: Literal["all", "batch"] = "all"
    averaging: Literal["models", "gradients"] = "models"
    start: Literal["random", "kmeans"] = "random"
    shared_layers: Annotated[int, Ge(0)] = 0
    empty: Literal["keep", "reseed"] = "keep"

    traits = ClientMethod.traits.replace(
        finds_k=False,
        takes_k=True,
        sends="the change of its model, the number of its samples and its loss, and which model it chose",
        cost="cheap",
        sums_suffice={
            "averaging": "models",
            "start": "random",
            "empty": "keep",
            "aggregation": "mean",
        },
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
        clusters, size = state.models.shape
        if state.steps == 0:
            check_differ(state, self.shared_layers, "with start 'kmeans' each is trained by another client first")
        means = self.means_of(clusters, size, Classifier.of(state.module).leading(self.shared_layers))
        labels, worst = state.labels.clone(), _Worst(clusters)
        if fed.secure_sums:
            trained = self._in_two_exchanges(fed, state, labels, means)
        else:
            trained = self._in_one_exchange(fed, state, labels, means, worst)
        moves, total = means.all(), sum(means.weights)
        if self.averaging == "gradients" and total > 0:
            moves[:, means.shared :] *= (torch.tensor(means.weights) / total).unsqueeze(1)
        models = state.models + self.server_learning_rate * moves
        means.check(models, state.models)
        if self.empty == "reseed" and trained.answered:
            models = worst.reseeded(models, labels, means.shared)
        after = state.next(models=models, labels=labels, finished=self.finished(state))
        return after, round_record(fed, trained, labels)

    def _in_one_exchange(
        self, fed: Federation, state: ClientMethodState, labels: Tensor, means: Means, worst: _Worst
    ) -> Trained:
        """Write every client's choice to `labels` and add its update to `means`, in one exchange."""
        payload = self._payload(state) | {"averaging": self.averaging}
        position, found = positions(fed), {}
        asked = dict.fromkeys(self.participants(fed, state), payload)
        expected: Expected = {"update": updates(means.size), "cluster": below(len(state.models))}
        for client, reply in fed.stream(choose_and_train, asked, expected):
            cluster = int(reply["cluster"])
            labels[position[client]] = cluster
            means.add(cluster, reply["update"], self.weight(reply), client)
            if self.empty == "reseed":
                worst.see(reply["loss"], client, state.models[cluster] + reply["update"])
            found[client] = reply["loss"]
        return Trained.each(found)

    def _in_two_exchanges(self, fed: Federation, state: ClientMethodState, labels: Tensor, means: Means) -> Trained:
        """Do the round with secure sums: first the clients' choices, then the sums of clusters of three or more.

        Masks cancel within a cluster, so that clusters must be known first.
        """
        position = positions(fed)
        asked = dict.fromkeys(self.participants(fed, state), self._payload(state))
        replies = fed.ask(choose, asked, {"cluster": below(len(state.models))})
        clusters = {client: int(reply["cluster"]) for client, reply in replies.items()}
        for client, cluster in clusters.items():
            labels[position[client]] = cluster
        trained = train_clusters(self, fed, state, clusters, means)
        return dataclasses.replace(trained, missing=dict(sorted((replies.missing | fed.missing).items())))

    def _payload(self, state: ClientMethodState) -> Payload:
        return {
            "module": state.module,
            "models": state.models,
            "training": dataclasses.asdict(self.descent(state.steps)),
            "identity": self.identity,
        }

    def _seeded(self, fed: Federation, state: ClientMethodState) -> Tensor:
        """Return K models, each the first model trained by one client (see `start`)."""
        models: list[Tensor] = []
        chances = dict.fromkeys(fed.ids, 1.0)
        for k in range(self.n_clusters):
            if models:
                found = self.losses_at(fed, dataclasses.replace(state, models=torch.stack(models)), fed.ids)
                chances = {client: float(losses.min()) for client, losses in found.items()}
            models.append(self._trained_by_one(fed, state, chances, k))
        return torch.stack(models)

    def _trained_by_one(self, fed: Federation, state: ClientMethodState, chances: dict[int, float], k: int) -> Tensor:
        """Return the first model trained by one client, sampled by `chances`; if it fails, by another."""
        clients, weights, start = list(chances), torch.tensor(list(chances.values())), state.models[0]
        drawn = int((weights > 0).sum()) if weights.sum() > 0 else 0
        for at in torch.multinomial(weights, drawn, generator=fed.rng("seeding", k)).tolist() if drawn else ():
            for reply in dict(self.trained(fed, state, {clients[at]: start})).values():
                update: Tensor = reply["update"]
                return start + update
        raise FedkinError("No client answered, so the models of IFCA cannot be seeded.")


_CHOICE: Expected = {
    "module": CLASSIFIER, "models": candidates("models", "size"), "training": DESCENT,
    "identity": one_of("all", "batch"),
}  # fmt: skip


@task(
    takes={**_CHOICE, "averaging": one_of("models", "gradients")},
    holds={"cluster": is_count, "samples": is_amount, "loss": is_number},
)
def choose_and_train(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Choose the model with the lowest loss, then train it or compute one gradient."""
    jobs: list[Job] = []
    chosen: list[int] = []
    for client, payload in zip(clients, payloads, strict=True):
        rows, cluster = _chosen(client, payload)
        chosen.append(cluster)
        job = training_of(client, payload, payload["models"][cluster])
        if payload["averaging"] == "gradients":
            one = dataclasses.replace(job.descent, steps=1, batch_size=len(rows))
            job = dataclasses.replace(job, x=job.x[rows], y=job.y[rows], descent=one)
        jobs.append(job)
    return [
        {"cluster": cluster, "update": model.sub_(job.start), "samples": len(client), "loss": loss}
        for client, cluster, job, (model, loss) in zip(clients, chosen, jobs, descend_all(jobs), strict=True)
    ]


@task(takes=_CHOICE, holds={"cluster": is_count})
def choose(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Report the index of the model with the lowest loss, as ``cluster``."""
    return [{"cluster": _chosen(client, payload)[1]} for client, payload in zip(clients, payloads, strict=True)]


def _chosen(client: Client, payload: Payload) -> tuple[Tensor, int]:
    """Return the rows that a client chooses by, int64 ``(m,)``, and the model with the lowest loss on them."""
    classifier, x, y = Classifier.of(payload["module"]), client.x, labels_of(client)
    if payload["identity"] == "all":
        return torch.arange(len(x)), classifier.fitting(payload["models"], x, y)
    rows = torch.randperm(len(x), generator=client.rng)[: payload["training"]["batch_size"]]
    return rows, classifier.fitting(payload["models"], x[rows], y[rows])


class _Worst:
    """Collects the trained models of the clients with the highest losses, as many as there are clusters."""

    def __init__(self, clusters: int) -> None:
        self.clusters = clusters
        self.kept: list[tuple[float, int, Tensor]] = []

    def see(self, loss: float, client: int, model: Tensor) -> None:
        """Keep a client's model if its loss is among the highest."""
        self.kept = sorted([*self.kept, (loss, client, model)], key=lambda one: (-one[0], one[1]))[: self.clusters]

    def reseeded(self, models: Tensor, labels: Tensor, shared: int) -> Tensor:
        """Return `models` with the collected ones in place of empty clusters' models, except for shared layers."""
        sizes = labels[labels >= 0].bincount(minlength=len(models))
        models = models.clone()
        for cluster, (_, _, model) in zip((sizes == 0).nonzero()[:, 0].tolist(), self.kept, strict=False):
            models[cluster, shared:] = model[shared:]
        return models
