"""Base of methods that split clusters by the clients' updates: OCFL's, Sattler's, Briggs's and FedGroup.

Clients with similar data have similar updates of the same model. A *split* divides one cluster into several by the
updates of one round. The state keeps every split: the model the clients started from, and each new cluster's mean
update. A client that was missing, or an unseen one, trains that model and joins the cluster with the most similar mean
update.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedkin.clustering.matching import renumbered
from fedkin.core import Client, Federation, FedkinError, Record
from fedkin.methods.clients.client_method import (
    UNKNOWN,
    ClientMethod,
    ClientMethodState,
    RoundValues,
    Trained,
    round_record,
)
from fedkin.methods.clients.local_work import labels_of
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.modules import Classifier

_COLUMNS = 1 << 20  # numbers of each update that are in double precision at a time, 8 MiB
_ROWS = 1 << 10  # clients whose similarities are scaled at a time


def cosine_distances(updates: Tensor) -> Tensor:
    """Return ``1 - cosine`` between every two updates: float64 ``(n, n)`` in [0, 2], zero diagonal."""
    return cosine_similarities(updates).neg_().add_(1)  # in place, as many clients' take gigabytes


def cosine_similarities(updates: Tensor) -> Tensor:
    """Return the cosine between every two updates ``(n, size)``: float64 ``(n, n)``, symmetric, diagonal 1.

    An update of length 0 has no direction; its similarity to every other is 0.
    """
    products = torch.zeros(len(updates), len(updates), dtype=torch.float64)
    for part in updates.split(_COLUMNS, dim=1):
        wide = part.double()
        products += wide @ wide.T
    lengths = products.diagonal().sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    similarities = (products + products.T).div_(2)
    for rows, part in zip(similarities.split(_ROWS), scale.split(_ROWS), strict=True):
        rows.mul_(part[:, None] * scale).clamp_(-1, 1)
    return similarities.fill_diagonal_(1.0)


@dataclass(frozen=True)
class SplitState(ClientMethodState):
    """State of methods that split clusters by updates: the history of splits.

    `splits` have, in order of time: ``round``, counted from 1; ``cluster``, the number of the cluster divided;
    ``model`` ``(size,)``, its model before the split; ``clients``, those that replied; ``parts``, the part of each
    client; ``clusters``, the cluster that each part becomes, where the first part keeps the old number; ``directions``
    ``(parts, size)``, the parts' mean updates. `pending` has clients that missed a split of their cluster, and its
    position in `splits`.
    """

    splits: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Updates:
    """Updates ``(n, size)`` of a cluster's clients that replied in a round, which `UpdateMethod.split` looks at.

    `compared` are the trainable parameters of these, and `weights` the updates' in a mean.
    """

    cluster: int
    clients: list[int]
    updates: Tensor
    compared: Tensor
    weights: list[float]


@dataclass(frozen=True)
class Division:
    """What `UpdateMethod.split` decides about a cluster.

    `parts` are the part, 0..m-1, of each client, ``None`` if the cluster stays whole. `values` go to the record, where
    dictionaries of several clusters are merged; `changes` are fields of the next state.
    """

    parts: list[int] | None
    values: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)


class SplitValues(RoundValues, total=False):
    """Values of a round: the number of `splits` so far, and whether one `fired` now."""

    splits: int
    fired: bool


@dataclass(frozen=True)
class UpdateMethod(ClientMethod):
    """Base of methods that begin with one cluster and divide clusters by their clients' updates.

    Trainable parameters are compared: in a whole state a batch norm's counter of batches would dominate.
    """

    state_type: ClassVar[type[ClientMethodState]] = SplitState
    record_type: ClassVar[type[Any]] = SplitValues

    def init(self, fed: Federation) -> Any:
        """Return one new model, and all clients in one cluster; refuse a `clustering_round` after the last."""
        # Not when it is made, for a Flower strategy learns the number of rounds only when it starts.
        if (number := getattr(self, "clustering_round", 0)) > self.rounds:
            raise FedkinError(f"clustering_round is {number}; it should be at most `rounds`, {self.rounds}.")
        return super().init(fed)

    @abstractmethod
    def can_split(self, state: Any) -> bool:
        """Whether a split is possible in this round; if not, updates are averaged as they arrive and not kept."""

    @abstractmethod
    def split(self, fed: Federation, state: Any, part: Updates) -> Division:
        """Decide whether and how to divide one cluster, by its clients' updates of this round."""

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Have clients train their cluster's model, divide clusters, and add to each model its cluster's mean update.

        A split takes effect at once: the same updates are averaged over the new clusters.
        """
        clusters, watching = _Clusters(state), self.can_split(state)
        losses: dict[int, float] = {}
        updates: dict[int, tuple[Tensor, float]] = {}
        means = self.means(state)
        compared = Classifier.of(state.module).parameters
        replies = self.trained(fed, state, clusters.starts(self.participants(fed, state)))
        for client, reply in replies:
            losses[client] = reply["loss"]
            if str(client) in clusters.pending:
                clusters.place(client, reply["update"], compared)
            elif watching:
                updates[client] = reply["update"], self.weight(reply)
            else:
                means.add(clusters.of(client), reply["update"], self.weight(reply), client)
        values: dict[str, Any] = {}
        changes: dict[str, Any] = {}
        for part in clusters.parts(updates, compared):
            division = self.split(fed, state, part)
            if division.parts is not None and len(set(division.parts)) > 1:
                clusters.divide(self, part, division, state.steps + 1)
            changes |= division.changes
            for name, value in division.values.items():
                values[name] = values.get(name, {}) | value if isinstance(value, dict) else value
        if updates:  # the splits of this round are known only now
            means = self.means_of(*clusters.models.shape)
            for client, (update, weight) in updates.items():
                means.add(clusters.of(client), update, weight, client)
        labels = torch.tensor(clusters.labels)
        changes |= {"labels": labels, **{name: getattr(clusters, name) for name in ("models", "splits", "pending")}}
        values = {"splits": len(clusters.splits), "fired": len(clusters.splits) > len(state.splits)} | values
        trained = Trained.each(losses, replies.missing)
        return self.after_round(state, means, **changes), round_record(fed, trained, labels, **values)

    def result(self, state: Any) -> dict[str, Any]:
        """Return the common result with the splits, by which unseen clients are assigned."""
        return {**super().result(state), "splits": state.splits}

    @staticmethod
    def assign(result: Mapping[str, Any], unseen: Client) -> int:
        """Return the cluster of an unseen client, by the similarity of its updates at every split.

        At each split of its cluster it trains the model from before the split, and joins the part with the most similar
        mean update.
        """
        cluster, classifier, training = 0, Classifier.of(result["module"]), LocalTraining(**result["training"])
        for split in result["splits"]:
            if split["cluster"] == cluster:
                start = split["model"]
                model, _ = train_locally(classifier, start, unseen.x, labels_of(unseen), unseen.rng, training)
                cluster = _nearest(split, model - start, classifier.parameters)
        return cluster


class _Clusters:
    """Working copy of what a round changes of a `SplitState`."""

    def __init__(self, state: SplitState) -> None:
        self.models, self.labels = state.models, state.labels.tolist()
        self.splits, self.pending = list(state.splits), dict(state.pending)

    def of(self, client: int) -> int:
        cluster: int = self.labels[client]
        return cluster

    def starts(self, clients: list[int]) -> dict[int, Tensor]:
        """Return the model each client trains: its cluster's, or that of the split it missed."""
        models, missed = list(self.models), self.pending
        own = {client: models[self.of(client)] for client in clients if str(client) not in missed}
        return {i: own[i] if i in own else self.splits[missed[str(i)]]["model"] for i in clients}

    def place(self, client: int, update: Tensor, compared: int) -> None:
        """Assign a client that missed a split to a part; if its new cluster was divided since, it stays pending."""
        missed = self.pending.pop(str(client))
        cluster = _nearest(self.splits[missed], update, compared)
        for later in range(missed + 1, len(self.splits)):
            if self.splits[later]["cluster"] == cluster:
                self.pending[str(client)] = later
                return
        self.labels[client] = cluster

    def parts(self, updates: Mapping[int, tuple[Tensor, float]], compared: int) -> list[Updates]:
        """Group the round's updates, with their weights, by cluster."""
        members: dict[int, list[int]] = {}
        for client in updates:
            members.setdefault(self.of(client), []).append(client)
        parts = []
        for cluster, clients in sorted(members.items()):
            stack, weights = zip(*(updates[client] for client in clients), strict=True)
            rows = torch.stack(stack)
            parts.append(Updates(cluster, clients, rows, rows[:, :compared], list(weights)))
        return parts

    def divide(self, method: ClientMethod, part: Updates, division: Division, number: int) -> None:
        """Split a cluster in round `number`; its members that did not reply become pending, of unknown cluster."""
        parts = renumbered(division.parts or []).tolist()
        count, size = max(parts) + 1, part.updates.shape[1]
        means = method.means_of(count, size)
        for update, weight, new in zip(part.updates, part.weights, parts, strict=True):
            means.add(new, update, weight)
        clusters = [part.cluster, *range(len(self.models), len(self.models) + count - 1)]
        part_of = dict(zip(part.clients, parts, strict=True))
        # Members without a reply too: the model that they belonged to is gone, and what they have said is too old.
        for client in [client for client, cluster in enumerate(self.labels) if cluster == part.cluster]:
            self.labels[client] = clusters[part_of[client]] if client in part_of else UNKNOWN
            if client not in part_of:
                self.pending[str(client)] = len(self.splits)
        model = self.models[part.cluster].clone()
        self.models = torch.cat([self.models, model.expand(count - 1, -1)])
        self.splits.append({
            "round": number, "cluster": part.cluster, "model": model, "clients": part.clients, "parts": parts,
            "clusters": clusters, "directions": means.all(),
        })  # fmt: skip


def _nearest(split: Mapping[str, Any], update: Tensor, compared: int) -> int:
    """Return the cluster, among those of a split, whose mean update has the smallest angle with `update`."""
    directions = split["directions"][:, :compared].double()
    similarities = directions @ update[:compared].double() / directions.norm(dim=1).clamp_min(1e-300)
    return int(split["clusters"][int(similarities.argmax())])
