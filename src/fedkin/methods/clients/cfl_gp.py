"""CFL-GP: clustering clients by accumulated gradients (Kim, Kim, de Veciana 2024; algorithm 1).

In some rounds all clients also train one and the same model, each of the K models in turn. Every client's updates are
averaged by model, and the averages of all models, stacked into one matrix, are clustered spectrally.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.matching import matched_labels, renumbered
from fedkin.core import Client, Federation, FedkinError, Payload, Record
from fedkin.core.method import Count
from fedkin.core.payload import Optional, int64, updates
from fedkin.methods.clients.client_method import (
    UNKNOWN,
    ClientMethod,
    ClientMethodState,
    RoundValues,
    Trained,
    round_record,
)
from fedkin.methods.clients.local_work import TRAINED, Training, trained_update, training_of, training_task
from fedkin.nn.modules import Classifier


@dataclass(frozen=True)
class CFLGPState(ClientMethodState):
    """State of CFL-GP: each client's mean updates of the K models, and how many updates each mean is of.

    `profiles` are float32 ``(K, n, coordinates)``, and `counts` int64 ``(K, n)``.
    """

    profiles: Tensor = field(default_factory=lambda: torch.zeros(0, 0, 0))
    counts: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.int64))


class CFLGPValues(RoundValues, total=False):
    """Values of a round, of a clustering round with the model that is its `criterion`."""

    criterion: int


@dataclass(frozen=True)
class CFLGPMethod(ClientMethod):
    """Clusters clients repeatedly by their updates of the same models, accumulated over rounds.

    In a clustering round all participants train one of the K models besides their own: the first, the second, and so on
    in turn. The matrix of accumulated updates is projected to its first K singular vectors and clustered by k-means;
    clusters keep the numbers that most of their clients had. A cluster's model becomes the mean of its clients' models.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    period : int
        Rounds from one clustering round to the next; the first round is one.
    clustering_rounds : int
        Rounds after which clusters stay as they are.
    coordinates : int
        Number of randomly chosen coordinates of an update that are accumulated, in memory of K times the number of
        clients times as many; at most the model's size.
    """

    n_clusters: Count = 3
    period: Count = 2
    clustering_rounds: Count = 10
    coordinates: Count = 4096

    traits = ClientMethod.traits.replace(finds_k=False, takes_k=True)
    state_type: ClassVar[type[ClientMethodState]] = CFLGPState
    record_type: ClassVar[type[Any]] = CFLGPValues

    def init(self, fed: Federation) -> CFLGPState:
        """Return copies of one new model, and no client in a cluster yet."""
        state: CFLGPState = self.unplaced(fed)
        counts = torch.zeros(self.n_clusters, len(fed.ids), dtype=torch.int64)
        profiles = torch.zeros(*counts.shape, len(self._places(fed, state)))
        models = state.models.repeat(self.n_clusters, 1)
        return dataclasses.replace(state, models=models, profiles=profiles, counts=counts)

    def step(self, fed: Federation, state: CFLGPState) -> tuple[CFLGPState, Record]:
        """Have clients train their cluster's model; in a clustering round also train a common one, and cluster them."""
        labels, participants = state.labels.clone(), self.participants(fed, state)
        clustering = state.steps % self.period == 0 and state.steps < self.clustering_rounds
        turn = state.steps // self.period % len(state.models)
        missing = {} if clustering else self.place_by_loss(fed, state, participants, labels)
        models = list(state.models)
        starts = {i: models[max(0, int(labels[i]))] for i in participants if i not in missing}
        payloads, expected = self._payloads(fed, state, starts, models[turn] if clustering else None)
        trained: dict[int, tuple[Tensor, float]] = {}
        losses, profiles = {}, {}
        replies = fed.stream(train_and_profile, payloads, expected)
        for client, reply in replies:
            trained[client] = starts[client] + reply["update"], self.weight(reply)
            losses[client] = reply["loss"]
            if clustering:
                profiles[client] = reply["profile"]
        values = {}
        if profiles:
            state, labels = self._clustered(fed, state, labels, profiles, turn)
            values = {"criterion": turn}
        means = self.means(state)
        for client, (model, weight) in trained.items():
            cluster = int(labels[client])
            means.add(cluster, model - state.models[cluster], weight, client)
        record = round_record(fed, Trained.each(losses, replies.missing), labels, missing=missing, **values)
        return self.after_round(state, means, labels=labels), record

    def _payloads(
        self, fed: Federation, state: CFLGPState, starts: Mapping[int, Tensor], criterion: Tensor | None
    ) -> tuple[dict[int, Payload], dict[str, Any]]:
        """Return payloads of `train_and_profile` by client, and the expected form of the replies."""
        payloads = self.training(state, starts)
        expected: dict[str, Any] = {"update": updates(state.models.shape[1])}
        if criterion is None:
            return payloads, expected
        places = self._places(fed, state)
        expected["profile"] = updates(len(places))
        for payload in {id(payload): payload for payload in payloads.values()}.values():  # all of a cluster share one
            payload["places"] = places
            if not torch.equal(payload["model"], criterion):
                payload["criterion"] = criterion
        return payloads, expected

    def _places(self, fed: Federation, state: ClientMethodState) -> Tensor:
        """Return the coordinates of updates to accumulate, int64 ``(coordinates,)``, the same in every round."""
        trainable = Classifier.of(state.module).parameters
        if self.coordinates >= trainable:
            return torch.arange(trainable)
        return torch.randperm(trainable, generator=fed.rng("coordinates"))[: self.coordinates].sort().values

    def _clustered(
        self, fed: Federation, state: CFLGPState, labels: Tensor, profiles: Mapping[int, Tensor], turn: int
    ) -> tuple[CFLGPState, Tensor]:
        """Return the state with the `profiles` of the model whose `turn` it is, and the labels that follow."""
        means, counts = state.profiles.clone(), state.counts.clone()
        for row, profile in profiles.items():
            counts[turn, row] += 1
            # A running mean: the updates of earlier rounds need not be kept.
            means[turn, row].lerp_(profile, 1 / int(counts[turn, row]))
        described = counts.any(0).nonzero()[:, 0]
        columns = []  # clients' mean updates of one model after another; those of the other clients for what it lacks
        for profile, trained in zip(means[:, described].double(), counts[:, described] > 0, strict=True):
            if trained.any():
                columns.append(torch.where(trained[:, None], profile, profile[trained].mean(0)))
        count, rng = self.n_clusters, fed.rng("kmeans", state.steps)
        leading, values, _ = torch.linalg.svd(torch.cat(columns, 1), full_matrices=False)
        points = leading[:, :count] * values[:count]
        parts = torch.from_numpy(renumbered(k_means(points, count, rng).labels))
        before, labels = labels[described], labels.clone()
        labels[described] = matched_labels(parts, before, count) if (before != UNKNOWN).any() else parts
        return dataclasses.replace(state, profiles=means, counts=counts), labels


@training_task(
    {"criterion": Optional(updates("size")), "places": Optional(int64(None))},
    holds={**TRAINED, "profile": Optional(updates(None))},
)
def train_and_profile(client: Client, payload: Payload) -> Training:
    """Train the model as `client_method.train` does; also report the coordinates ``places`` of an update.

    They are of an update of the model ``criterion``, if there is one, otherwise of the trained model's own update.
    """
    reply = yield from trained_update(training_of(client, payload, payload["model"]))
    if "places" not in payload:
        return reply
    update = reply["update"]
    if int(payload["places"].max()) >= len(update):
        raise FedkinError(f"A coordinate of an update is beyond the model's {len(update)} numbers.", public=True)
    if "criterion" in payload:
        update = (yield from trained_update(training_of(client, payload, payload["criterion"])))["update"]
    return {**reply, "profile": update[payload["places"]]}
