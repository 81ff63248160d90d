"""FedDAG: clusters by data and updates together, and encoders that learn from other clusters (Pramanik et al. 2026).

Equations and algorithms are those of the paper (ICLR; arXiv 2602.23504).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from fedkin.clustering.from_distances import cut_tree
from fedkin.core import Client, Federation, Payload, Record
from fedkin.core.federation import Replies
from fedkin.core.method import Count
from fedkin.core.payload import Array, Optional, counts_to, int64, reals, updates
from fedkin.methods.clients.client_method import UNKNOWN, ClientMethodState, Trained
from fedkin.methods.clients.local_work import (
    TRAINED,
    Training,
    labels_of,
    singular_vectors,
    trained_update,
    training_of,
    training_task,
)
from fedkin.methods.clients.one_shot import OneShotMethod, OneShotState, distances_to_clusters
from fedkin.methods.clients.update_splits import cosine_similarities
from fedkin.nn.aggregation import Aggregation, Means
from fedkin.nn.descent import Adam
from fedkin.nn.modules import TWO_ENCODERS, Classifier
from fedkin.nn.resident import Architecture


@dataclass(frozen=True)
class FedDAGState(OneShotState):
    """State of FedDAG: which clusters teach which, float32 ``(K, K)``: 1 where the row's learns from the column's.

    A client's message is its singular vectors, the numbers of its samples of each class, and coordinates of its update.
    """

    sources: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class FedDAGMethod(OneShotMethod):
    """Clusters clients once by what their data and their updates say together; clusters learn from other clusters.

    Clients train alone for two rounds, then send singular vectors of each class, numbers of samples, and some
    coordinates of their update. A cluster's model has two encoders and one linear layer over both. Clients train the
    first encoder and the layer; a cluster's second encoder is trained by the clients of those clusters that have most
    of the classes that its own clients have least of.

    Attributes
    ----------
    second_encoder : bool
        Whether clusters learn from each other; without, a model is the module itself (FedDAG* in the paper).
    warm_up : int
        t_g, the rounds of `local_epochs` that a client trains alone before it sends its update.
    vectors : int
        p, the number of singular vectors of each class (3 in the authors' code).
    kept : float
        Fraction of the update's coordinates that is sent, chosen at random, the same for all clients.
    imbalance : float
        delta: angles between samples of a class are multiplied by 1 - delta to 1 + delta, the more the numbers of
        samples differ.
    threshold : float
        alpha: where the tree of average linkage is cut, in (0, 1]. Distances reach from 0 to 1 whatever the clients, so
        that at least two clusters are found, as a rule.
    sources : int
        k, the number of clusters that each one learns from.
    """

    second_encoder: bool = True
    warm_up: Count = 2
    vectors: Annotated[int, Interval(ge=1, le=64)] = 3
    kept: Annotated[float, Interval(gt=0, le=1)] = 0.02
    imbalance: Annotated[float, Interval(ge=0, lt=1)] = 0.6
    threshold: Annotated[float, Interval(gt=0, le=1)] = 0.4
    sources: Count = 2

    traits = OneShotMethod.traits.replace(scenario="label-clusters")
    state_type: ClassVar[type[ClientMethodState]] = FedDAGState

    def classifier_for(self, shape: tuple[int, ...], classes: int) -> Classifier:
        classifier = super().classifier_for(shape, classes)
        twice = {"name": TWO_ENCODERS + classifier.name} if self.second_encoder else {}
        return Classifier.of(classifier.spec() | twice)

    def messages(self, fed: Federation, state: FedDAGState, clients: Sequence[int]) -> Replies[Tensor]:
        """Ask for messages: once clusters are known, of late clients, zeros in place of their update."""
        classifier, shape = Classifier.of(state.module), self._shape(state)
        count = max(1, round(self.kept * classifier.parameters))
        training = self.training_settings()
        training["epochs"] *= self.warm_up
        training["steps"] = training["steps"] and training["steps"] * self.warm_up
        payload = {"module": state.module, "model": state.models[0], "training": training, "count": self.vectors}
        expected: dict[str, Any] = {"vectors": shape, "counts": shape[:1]}
        rest = {"update": torch.zeros(count)}
        if not state.messages.numel():
            places = torch.randperm(classifier.parameters, generator=fed.rng("coordinates"))[:count]
            payload["places"], expected["update"], rest = places.sort().values, updates(count), {}
        replies = fed.ask(describe_and_train, dict.fromkeys(clients, payload), expected)
        names = ("vectors", "counts", "update")
        return replies.map(lambda reply: torch.cat([(reply | rest)[name].flatten() for name in names]))

    def clustered(self, fed: Federation, state: FedDAGState, messages: Tensor) -> tuple[Tensor, dict[str, Any]]:
        sets, counts, changes = parts_of(messages, self._shape(state))
        angles = class_angles(sets, counts)
        data = (angles * imbalances(counts, self.imbalance)).mean(0)
        directions = torch.rad2deg(cosine_similarities(changes).arccos())
        distances = fused(spread(directions), spread(data))
        labels = cut_tree(distances, "average", self.threshold)
        return labels, {"mode": "data and updates"}

    def _form(self, fed: Federation, state: FedDAGState) -> tuple[FedDAGState, Record]:
        """Form clusters, and decide which learn from which."""
        after, record = super()._form(fed, state)
        if not after.messages.numel() or not self.second_encoder:
            return after, record
        placed = after.labels != UNKNOWN
        sets, counts, _ = parts_of(after.messages[placed], self._shape(after))
        graph = complements(class_angles(sets, counts), counts, after.labels[placed], self.sources)
        return replace(after, sources=graph), record

    def averaged(self, fed: Federation, state: Any) -> tuple[Trained, Means]:
        """Train first encoders and linear layers, and the second encoders of the clusters that learn from these."""
        if not self.second_encoder:
            return super().averaged(fed, state)
        clusters = self.known_clusters(state.labels, self.participants(fed, state))
        part = second_part(Classifier.of(state.module))
        # A cluster that several learn from trains the mean of their second encoders.
        learners = state.sources.T
        carried = learners @ state.models[:, part] / learners.sum(1, keepdim=True).clamp_min(1)
        means = _TaughtMeans(state, part, self.aggregation)
        models, length = list(state.models), part.stop - part.start
        payloads = self.training(state, {client: models[cluster] for client, cluster in clusters.items()})
        for client, cluster in clusters.items():
            if learners[cluster].any():
                payloads[client]["second"] = carried[cluster]
        expected: dict[str, Any] = {"update": (state.models.shape[1],), "second": Optional(updates(length))}

        def teach(client: int, reply: Payload) -> int:
            if "second" in reply:
                means.taught.add(clusters[client], reply["second"], self.weight(reply), client)
            return clusters[client]

        return self.add_each(means, fed.stream(train_encoders, payloads, expected), teach), means

    @staticmethod
    def nearest(result: Mapping[str, Any], messages: Tensor) -> Tensor:
        """Return the cluster at the smallest mean angle between vectors of each class."""
        sets, counts, _ = parts_of(messages, result["vectors"].shape[1:])
        angles = class_angles(sets, counts, result["vectors"], result["counts"]).mean(0)
        return distances_to_clusters(angles, result["members"], len(result["models"])).argmin(1)

    @staticmethod
    def unseen_message(client: Client, result: Mapping[str, Any]) -> Tensor:
        _, segments, vectors, _ = result["vectors"].shape
        return torch.cat([singular_vectors(client, segments, vectors).flatten(), class_counts(client, segments)])

    def result(self, state: FedDAGState) -> dict[str, Any]:
        placed, result = state.labels != UNKNOWN, super().result(state)
        del result["centroids"]  # a mean of subspaces is not a subspace
        if not state.messages.numel():
            return result
        sets, counts, _ = parts_of(state.messages[placed], self._shape(state))
        return result | {"vectors": sets, "counts": counts, "members": state.labels[placed], "sources": state.sources}

    def _shape(self, state: FedDAGState) -> tuple[int, ...]:
        """Return the shape of a client's vectors: classes, p and features."""
        return int(state.module["classes"]), self.vectors, math.prod(state.module["shape"])


def parts_of(messages: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the vectors ``(n, *shape)``, class counts and updates of messages."""
    length, segments = math.prod(shape), shape[0]
    sets, counts, changes = messages.split([length, segments, messages.shape[1] - length - segments], dim=1)
    return sets.view(len(messages), *shape), counts, changes


@training_task(
    {"count": counts_to(64), "places": Optional(int64(None))},
    holds={
        "vectors": Array((None, None, None), minimum=-1.001, maximum=1.001), "counts": reals(None, minimum=0),
        "update": Optional(updates(None)),
    },
    sends="In which directions the rows of each class differ most, their number, and some of what training has changed",
)  # fmt: skip
def describe_and_train(client: Client, payload: Payload) -> Training:
    """Report singular ``vectors`` of each class, ``counts`` of samples, and the coordinates ``places`` of an update."""
    classes = payload["module"]["classes"]
    reply = {"vectors": singular_vectors(client, classes, payload["count"]), "counts": class_counts(client, classes)}
    if "places" not in payload:
        return reply
    trained = yield from trained_update(training_of(client, payload, payload["model"]))
    return reply | {"update": trained["update"][payload["places"]]}


@training_task(
    {"second": Optional(updates(None))},
    holds={**TRAINED, "second": Optional(updates(None))},
    sends="What training has changed in a network and in another cluster's encoder, the number of rows, and the error",
)  # fmt: skip
def train_encoders(client: Client, payload: Payload) -> Training:
    """Train the first encoder and the linear layer, then beside them the encoder ``second`` of other clusters."""
    job = training_of(client, payload, payload["model"])
    part = second_part(job.architecture)
    second = torch.zeros(job.architecture.parameters, dtype=torch.bool)
    second[part] = True
    ((model, loss),) = yield [replace(job, frozen=second)]
    reply = {"samples": len(job.x), "loss": loss}
    if "second" in payload:
        start = model.clone()
        start[part] = payload["second"]
        ((taught, _),) = yield [replace(job, start=start, frozen=~second)]
        reply["second"] = taught[part] - payload["second"]
    return reply | {"update": model.sub_(job.start)}


def second_part(classifier: Architecture) -> slice:
    """Return where the second encoder is in a model: behind the first, and before the linear layer's two tensors."""
    length = classifier.leading(-2) // 2
    return slice(length, 2 * length)


class _TaughtMeans(Means):
    """Mean updates of clusters; second encoders move by the mean changes that their source clusters made (eq. 21)."""

    def __init__(self, state: FedDAGState, part: slice, aggregation: Aggregation) -> None:
        super().__init__(len(state.models), state.models.shape[1], aggregation=aggregation)
        self.sources, self.part = state.sources, part
        self.taught = Means(len(state.models), part.stop - part.start, aggregation=aggregation)

    def all(self) -> Tensor:
        means = super().all()
        means[:, self.part] += self.sources @ self.taught.all()
        return means

    def check(self, after: Tensor, before: Tensor | None = None) -> None:
        super().check(after, before)
        self.taught.check(after[:, self.part], None if before is None else before[:, self.part])


def class_counts(client: Client, classes: int) -> Tensor:
    """Return the client's number of samples of each class, float32 ``(classes,)``; later classes are left out."""
    return labels_of(client).bincount(minlength=classes)[:classes].float()


def class_angles(
    sets: Tensor, counts: Tensor, others: Tensor | None = None, other_counts: Tensor | None = None
) -> Tensor:
    """Return the smallest angle between two clients' vectors of each class, in degrees: ``(classes, n, m)`` (eq. 4).

    `sets` ``(n, classes, p, features)`` are vectors of length 1 or 0, and `counts` ``(n, classes)`` are 0 for classes
    that a client lacks; `others` are of m clients, by default the same. The angle is 90 where one of the two lacks the
    class, and 0 where both do.
    """
    others, other_counts = (sets if others is None else others), (counts if other_counts is None else other_counts)
    vectors, angles = sets.shape[2], []
    for segment in range(sets.shape[1]):
        first, second = (normalize(part[:, segment].double(), dim=2).flatten(0, 1) for part in (sets, others))
        cosines = (first @ second.T).abs().unflatten(0, (-1, vectors)).unflatten(2, (-1, vectors)).amax((1, 3))
        lacks, lack = counts[:, segment, None] == 0, other_counts[:, segment] == 0
        degrees = torch.rad2deg(cosines.clamp(max=1).arccos()).masked_fill(lacks ^ lack, 90.0)
        angles.append(degrees.masked_fill(lacks & lack, 0.0))
    return torch.stack(angles)


def imbalances(counts: Tensor, delta: float) -> Tensor:
    """Return factors of angles, ``(classes, n, n)`` in 1 - delta to 1 + delta, by numbers of samples (eq. 5).

    They are 1 where one of the two clients lacks the class. The paper does not say what epsilon is; here it is 1.
    """
    logarithms = counts.double().add(1).log().T
    both = (counts > 0).T
    both = (both[:, :, None] & both[:, None]) & ~torch.eye(len(counts), dtype=torch.bool)
    greater = torch.maximum(logarithms[:, :, None], logarithms[:, None])
    ratios = greater / torch.minimum(logarithms[:, :, None], logarithms[:, None])
    if not both.any() or (low := ratios[both].min()) == (high := ratios[both].max()):
        return torch.ones_like(ratios)
    return torch.where(both, 1 - delta + 2 * delta * (ratios - low) / (high - low), 1.0)


def spread(distances: Tensor) -> Tensor:
    """Return distances ``(n, n)`` of different clients mapped to [0, 1], with a zero diagonal."""
    off = distances[~torch.eye(len(distances), dtype=torch.bool)]
    if not len(off) or off.min() == off.max():
        return torch.zeros_like(distances)
    return ((distances - off.min()) / (off.max() - off.min())).fill_diagonal_(0.0)


def fused(directions: Tensor, data: Tensor) -> Tensor:
    """Return the fusion of two matrices ``(n, n)`` of distances (eqs. 7, 8).

    Each client's weight of the first, in [0, 1], is that of the least entropy of the rows' softmax, from 0.5. Algorithm
    2 has such weights, and no step size; in the authors' code a perceptron puts them out.
    """
    weights = torch.full((len(data),), 0.5, dtype=torch.float64, requires_grad=True)
    optimiser = Adam([weights], 0.05)

    def mixed() -> Tensor:
        upper = (weights[:, None] * directions + (1 - weights[:, None]) * data).triu(1)
        return upper + upper.T

    for _ in range(50):  # as many steps as the authors' code; 0.05 a step reaches 0 and 1
        rows = mixed().log_softmax(1)
        optimiser.minimise(-(rows.exp() * rows).sum() / len(data))
        with torch.no_grad():
            weights.clamp_(0, 1)
    return mixed().detach()


def complements(angles: Tensor, counts: Tensor, labels: Tensor, sources: int) -> Tensor:
    """Return which clusters each one learns from, float32 ``(K, K)`` of 0 and 1, `sources` in a row (eqs. 11 to 14).

    A client demands a class the more, the fewer samples it has of it among its classes, and supplies it the more, the
    more samples. Classes count by how near the clusters' vectors of it are.
    """
    present = counts > 0
    rank = counts.masked_fill(~present, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    demand = ((present.sum(1, keepdim=True) - rank) * present).double()
    supply = ((rank + 1) * present).double()
    members = one_hot(labels).double()
    shares = members / members.sum(0).clamp_min(1)
    alike = shares.T @ (1 - angles / 90.0) @ shares
    scores = torch.einsum("pc,qc,cpq->pq", members.T @ demand, shares.T @ supply, alike)
    scores.fill_diagonal_(-torch.inf)
    best = scores.topk(min(sources, len(scores) - 1), dim=1).indices
    return torch.zeros_like(scores).scatter_(1, best, 1.0).float()
