"""CFL-GP: clustering clients by accumulated gradients (Kim, Kim, de Veciana 2024; algorithm 1).

In some rounds all clients also train one and the same model, each of the K models in turn. Every client's updates are
averaged by model, and the averages of all models, stacked into one matrix, are clustered spectrally.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from sklearn.metrics import silhouette_score
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.matching import matched_labels
from fedkin.core import Client, Federation, FedkinError, Payload, Record, task
from fedkin.core.method import Count
from fedkin.core.replies import Optional, int64, is_amount, is_number, updates
from fedkin.methods.clients.client_method import (
    UNKNOWN,
    ClientMethod,
    ClientMethodState,
    positions,
    renumbered,
    round_record,
    training_of,
)
from fedkin.nn.client_stack import descend_all
from fedkin.nn.modules import Classifier
from fedkin.nn.network_forms import CLASSIFIER, DESCENT

MAX_CLUSTERS = 10
"""Maximum number of clusters to try if it is not given."""
_MIN_DIRECTIONS = 3


@dataclass(frozen=True)
class CFLGPState(ClientMethodState):
    """State of CFL-GP: each client's mean updates of the K models, and how many updates each mean is of.

    `profiles` are float32 ``(K, n, coordinates)``, and `counts` int64 ``(K, n)``.
    """

    profiles: Tensor = field(default_factory=lambda: torch.zeros(0, 0, 0))
    counts: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.int64))


@dataclass(frozen=True)
class CFLGPMethod(ClientMethod):
    """Clusters clients repeatedly by their updates of the same models, accumulated over rounds.

    In a clustering round all participants train one of the K models besides their own: the first, the second, and so on
    in turn. The matrix of accumulated updates is projected to its first K singular vectors and clustered by k-means;
    clusters keep the numbers that most of their clients had. A cluster's model becomes the mean of its clients' models.

    Differences from the authors' code: there the model that all train is always the first; here it is each model's
    turn, as in the paper. Updates after `local_epochs` of training stand for gradients, as with the code's model
    averaging. A model that a client has never trained counts as the others' mean. Late clients join by their loss.

    Attributes
    ----------
    n_clusters : int or None
        K. None takes the number from 2 to 10 with the greatest silhouette, in the first round.
    period : int
        Rounds from one clustering round to the next; the first round is one.
    clustering_rounds : int or None
        Rounds after which clusters stay as they are; None clusters until the end.
    coordinates : int or None
        Number of randomly chosen coordinates of an update that are accumulated; None for all, which takes memory of K
        times the number of clients times the model's size.
    """

    n_clusters: Count | None = 3
    period: Count = 2
    clustering_rounds: Count | None = 10
    coordinates: Count | None = 4096

    traits = ClientMethod.traits.replace(
        takes_k=True,
        sends=(
            "the change of its model, the number of its samples and its loss; while clusters are formed also a part "
            "of its change of another model"
        ),
    )
    state_type: ClassVar[type[ClientMethodState]] = CFLGPState

    def init(self, fed: Federation) -> CFLGPState:
        """Return copies of one new model, and no client in a cluster yet."""
        state: CFLGPState = self.unplaced(fed)
        count = self.n_clusters or 1
        return dataclasses.replace(
            state,
            models=state.models.repeat(count, 1),
            profiles=torch.zeros(count, 0, len(self._places(fed, state))),
            counts=torch.zeros(count, 0, dtype=torch.int64),
        )

    def step(self, fed: Federation, state: CFLGPState) -> tuple[CFLGPState, Record]:
        """Have clients train their cluster's model; in a clustering round also train a common one, and cluster them."""
        position, labels = positions(fed), state.labels.clone()
        participants = self.participants(fed, state)
        clustering = state.steps % self.period == 0 and state.steps < (self.clustering_rounds or self.rounds)
        criterion = state.steps // self.period % len(state.models)
        missing = {} if clustering else self.place_by_loss(fed, state, participants, labels)
        trained: dict[int, tuple[Tensor, float]] = {}
        losses, profiles = {}, {}
        models = list(state.models)
        own = {i: models[max(0, int(labels[position[i]]))] for i in participants if i not in missing}
        asked, expected = self._asked(fed, state, own, models[criterion] if clustering else None)
        for client, reply in fed.stream(train_and_profile, asked, expected):
            trained[client] = own[client] + reply["update"], self.weight(reply)
            losses[client] = reply["loss"]
            if clustering:
                profiles[position[client]] = reply["profile"]
        state, labels, values = self._clustered(fed, state, labels, profiles, criterion)
        means = self.means_of(*state.models.shape)
        for client, (model, weight) in trained.items():
            cluster = int(labels[position[client]])
            means.add(cluster, model - state.models[cluster], weight, client)
        moved = means.moved(state.models, self.server_learning_rate)
        after = state.next(models=moved, labels=labels, finished=self.finished(state))
        return after, round_record(fed, losses, labels, missing=missing, **values)

    def _asked(
        self, fed: Federation, state: CFLGPState, own: Mapping[int, Tensor], criterion: Tensor | None
    ) -> tuple[dict[int, Payload], dict[str, Any]]:
        """Return payloads of `train_and_profile` by client, and the expected form of the replies."""
        asked = self.training(state, own)
        expected: dict[str, Any] = {"update": updates(state.models.shape[1])}
        if criterion is None:
            return asked, expected
        places = self._places(fed, state)
        expected["profile"] = updates(len(places))
        for payload in {id(one): one for one in asked.values()}.values():  # all clients of a cluster share one
            payload["places"] = places
            if not torch.equal(payload["model"], criterion):
                payload["criterion"] = criterion
        return asked, expected

    def _places(self, fed: Federation, state: ClientMethodState) -> Tensor:
        """Return the coordinates of updates to accumulate, int64 ``(coordinates,)``, the same in every round."""
        trainable = Classifier.of(state.module).parameters
        if self.coordinates is None or self.coordinates >= trainable:
            return torch.arange(trainable)
        return torch.randperm(trainable, generator=fed.rng("coordinates"))[: self.coordinates].sort().values

    def _clustered(
        self, fed: Federation, state: CFLGPState, labels: Tensor, profiles: Mapping[int, Tensor], criterion: int
    ) -> tuple[CFLGPState, Tensor, dict[str, Any]]:
        """Return the state with `profiles` added, the labels that follow from them, and values for the record."""
        if not profiles:
            return state, labels, {}
        seen = max(profiles) + 1
        all_profiles, counts = _with_clients(state.profiles, seen), _with_clients(state.counts, seen)
        for at, profile in profiles.items():
            counts[criterion, at] += 1
            all_profiles[criterion, at].lerp_(profile, 1 / int(counts[criterion, at]))
        known = counts.any(0).nonzero()[:, 0]
        matrix = gradient_matrix(all_profiles[:, known], counts[:, known])
        rng = fed.rng("kmeans", state.steps)
        count = self.n_clusters or (len(state.models) if len(state.models) > 1 else number_of_clusters(matrix, rng))
        parts = torch.tensor(renumbered(k_means(reduced(matrix, count), count, rng).labels.tolist()))
        labels = labels.clone()
        begun = bool((labels[known] != UNKNOWN).any())
        labels[known] = matched_labels(parts, labels[known], count) if begun else parts
        added = count - len(state.models)
        if added > 0:  # the number was found in this round
            all_profiles = torch.cat([all_profiles, torch.zeros(added, *all_profiles.shape[1:])])
            counts = torch.cat([counts, torch.zeros(added, counts.shape[1], dtype=torch.int64)])
            state = dataclasses.replace(state, models=state.models[:1].repeat(count, 1))
        return dataclasses.replace(state, profiles=all_profiles, counts=counts), labels, {"criterion": criterion}


def _with_clients(values: Tensor, count: int) -> Tensor:
    """Return a copy of `values` ``(K, n, ...)`` padded with zeros to at least `count` clients."""
    more = max(0, count - values.shape[1])
    return torch.cat([values, values.new_zeros(len(values), more, *values.shape[2:])], 1)


@task(
    takes={
        "module": CLASSIFIER, "model": updates("size"), "training": DESCENT,
        "criterion": Optional(updates("size")), "places": Optional(int64(None)),
    },
    holds={"update": updates(None), "samples": is_amount, "loss": is_number},
    may_hold={"profile": updates(None)},
)  # fmt: skip
def train_and_profile(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train the model as `client_method.train` does; also report the coordinates ``places`` of an update.

    They are of an update of the model ``criterion``, if given, otherwise of the trained model's own update.
    """
    pairs = list(zip(clients, payloads, strict=True))
    jobs = [training_of(client, payload, payload["model"]) for client, payload in pairs]
    trained = descend_all(jobs)
    judging = {
        at: training_of(client, payload, payload["criterion"])
        for at, (client, payload) in enumerate(pairs)
        if "places" in payload and "criterion" in payload
    }
    judged = dict(zip(judging, descend_all(list(judging.values())), strict=True))
    replies: list[Payload] = []
    for at, (job, (model, loss)) in enumerate(zip(jobs, trained, strict=True)):
        update, payload = model.sub_(job.start), payloads[at]
        reply: Payload = {"update": update, "samples": len(job.x), "loss": loss}
        if "places" in payload:
            if int(payload["places"].max()) >= job.architecture.size:
                raise FedkinError(
                    f"A coordinate of an update is beyond the model's {job.architecture.size} numbers.", public=True
                )
            other = judged[at][0] - payload["criterion"] if at in judged else update
            reply["profile"] = other[payload["places"]]
        replies.append(reply)
    return replies


def gradient_matrix(profiles: Tensor, counts: Tensor) -> Tensor:
    """Return each client's mean updates of all models, concatenated: float64 ``(n, K * coordinates)``.

    `profiles` are ``(K, n, coordinates)``, and `counts` ``(K, n)`` the numbers of updates in each mean; where it is 0,
    the mean of the other clients is used. Models that no client has trained are left out.
    """
    parts = []
    for profile, own in zip(profiles.double(), counts > 0, strict=True):
        if own.any():
            parts.append(torch.where(own[:, None], profile, profile[own].mean(0)))
    return torch.cat(parts, 1)


def reduced(matrix: Tensor, directions: int) -> Tensor:
    """Return rows ``(n, width)`` projected on the first singular vectors: ``(n, directions)``."""
    left, values, _ = torch.linalg.svd(matrix, full_matrices=False)
    points: Tensor = left[:, :directions] * values[:directions]
    return points


def number_of_clusters(matrix: Tensor, rng: torch.Generator) -> int:
    """Return the number of clusters with the greatest silhouette of rows ``(n, width)``, as in the authors' code.

    It is from 2 to 10 and less than n; 1 for fewer than three rows. Rows are projected on the singular vectors before
    the widest gap between singular values, at least three.
    """
    if len(matrix) <= 2:
        return 1
    values = torch.linalg.svdvals(matrix)
    leading = 1 + int((values[:-1] - values[1:]).argmax())
    points = reduced(matrix, max(_MIN_DIRECTIONS, leading))
    scores = {}
    for count in range(2, min(MAX_CLUSTERS, len(matrix) - 1) + 1):
        labels = k_means(points, count, rng).labels
        if len(labels.unique()) > 1:
            scores[count] = float(silhouette_score(points.numpy(), labels.numpy()))
    return max(scores, key=scores.__getitem__, default=1)
