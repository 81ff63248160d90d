"""IFCA, the iterative federated clustering algorithm (Ghosh, Chung, Yin, Ramchandran 2020; algorithm 1, option II)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, Record, client_task
from fedkin.core.method import Count
from fedkin.core.payload import Expected, below, candidates, is_amount, is_count, is_number, one_of, updates
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, check_differ, round_record
from fedkin.methods.clients.local_work import Training, labels_of, trained_update, training_of, training_task
from fedkin.nn.descent import LOCAL_TRAINING
from fedkin.nn.modules import CLASSIFIER, Classifier


@dataclass(frozen=True)
class IFCAMethod(ClientMethod):
    """Keeps K models; in every round each client trains the one with the lowest loss on its data.

    A round is one exchange: all K models are sent to a client, which returns its choice and its update. With secure
    sums or a `min_size` there are two: one for the choices, and one for the updates; of secure sums a cluster of fewer
    than three clients skips the round. A cluster that no client chose keeps its model.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    identity : {"all", "batch"}
        Whether a client chooses by the loss on all of its data, or on one batch.
    start : {"random", "kmeans"}
        "random" initialises K models independently, so a module must not have given weights. "kmeans" has each trained
        by one client, chosen as k-means++ chooses centres: with probability proportional to its loss under the models
        so far (as in HypCluster; Mansour et al. 2020).
    shared_layers : int
        Number of leading parameter tensors that all clusters share (section 5 of the paper). A convolution has two,
        weights and biases.
    min_size : int
        B, the number of clients that at least train each model in a round, so that a sum hides a client among as many:
        smaller clusters get random clients of larger ones, whose labels stay (RR-Cluster; Yang et al. 2025). 0 is none.
    """

    n_clusters: Count = 3
    identity: Literal["all", "batch"] = "all"
    start: Literal["random", "kmeans"] = "random"
    shared_layers: Annotated[int, Ge(0)] = 0
    min_size: Annotated[int, Ge(0)] = 0

    traits = ClientMethod.traits.replace(
        finds_k=False,
        takes_k=True,
        cost="cheap",
        sums_suffice={"start": "random", "aggregation": "mean"},
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

        Raises FedkinError if all models are the same at first, for a module with given weights, or `min_size` asks for
        more clients than take part.
        """
        if state.steps == 0:
            check_differ(state, self.shared_layers, "with start 'kmeans' each is trained by another client first")
        labels, means = state.labels.clone(), self.means(state, Classifier.of(state.module).leading(self.shared_layers))
        payload = {
            "module": state.module, "models": state.models, "training": self.training_settings(),
            "identity": self.identity,
        }  # fmt: skip
        payloads = dict.fromkeys(self.participants(fed, state), payload)
        expected: Expected = {"cluster": below(len(state.models))}
        if (needed := self.min_size * len(state.models)) > len(payloads):
            raise FedkinError(
                f"min_size = {self.min_size} with {len(state.models)} clusters needs {needed} clients in each round, "
                f"but {len(payloads)} take part."
            )

        def chosen(client: int, reply: Payload) -> int:
            labels[client] = reply["cluster"]
            return int(reply["cluster"])

        missing: dict[int, str] = {}
        if fed.secure_sums or self.min_size:  # who trains which model must be known before updates are summed
            choices = fed.ask(choose, payloads, expected)
            missing = choices.missing
            clusters = {client: chosen(client, reply) for client, reply in choices.items()}
            clusters = rebalanced(clusters, len(state.models), self.min_size, fed.rng("rebalancing", state.steps))
            trained = self.train_clusters(fed, state, clusters, means)
        else:
            replies = fed.stream(choose_and_train, payloads, {**expected, "update": updates(means.size)})
            trained = self.add_each(means, replies, chosen)
        return self.after_round(state, means, labels=labels), round_record(fed, trained, labels, missing=missing)

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


def rebalanced(clusters: Mapping[int, int], count: int, least: int, rng: torch.Generator) -> dict[int, int]:
    """Return the cluster that each client trains: of those beyond `least` in theirs some, at random, fill up others.

    Clients of clusters that have too few even so train nothing.
    """
    clients, sizes, spare = list(clusters), Counter(clusters.values()), []
    for client in (clients[row] for row in torch.randperm(len(clients), generator=rng).tolist()):
        if sizes[clusters[client]] > least:
            sizes[clusters[client]] -= 1
            spare.append(client)
    lacking = [cluster for cluster in range(count) for _ in range(least - sizes[cluster])]
    filled = {**clusters, **dict(zip(spare, lacking, strict=False))}
    sizes = Counter(filled.values())
    return {client: cluster for client, cluster in filled.items() if sizes[cluster] >= least}


_CHOICE: Expected = {
    "module": CLASSIFIER, "models": candidates("models", "size"), "training": LOCAL_TRAINING,
    "identity": one_of("all", "batch"),
}  # fmt: skip


@training_task(
    takes=_CHOICE,
    holds={"cluster": is_count, "samples": is_amount, "loss": is_number},
    sends="Which network suits the client best, what training has changed in it, and how wrong it was",
)
def choose_and_train(client: Client, payload: Payload) -> Training:
    """Choose the model with the lowest loss, and train it."""
    cluster = _choice(client, payload)
    reply = yield from trained_update(training_of(client, payload, payload["models"][cluster]))
    return {**reply, "cluster": cluster}


@client_task(takes=_CHOICE, holds={"cluster": is_count}, sends="Which network suits the client best")
def choose(client: Client, payload: Payload) -> Payload:
    """Report the index of the model with the lowest loss, as ``cluster``."""
    return {"cluster": _choice(client, payload)}


def _choice(client: Client, payload: Payload) -> int:
    """Return the model with the lowest loss on all samples, or on one batch."""
    x, y = client.x, labels_of(client)
    if payload["identity"] == "batch":
        rows = torch.randperm(len(x), generator=client.rng)[: payload["training"]["batch_size"]]
        x, y = x[rows], y[rows]
    return Classifier.of(payload["module"]).fitting(payload["models"], x, y)
