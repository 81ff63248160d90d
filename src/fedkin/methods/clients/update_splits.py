"""Base of methods that split clusters by the clients' updates: OCFL's, Sattler's, Briggs's and FedGroup.

Clients with similar data have similar updates of the same model. A *split* divides one cluster into several by the
updates of one round. The state keeps every split: the model the clients started from, and each new cluster's mean
update. A client that was missing, or an unseen one, trains that model and joins the cluster with the most similar mean
update.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Record
from fedkin.methods.clients.client_method import (
    UNKNOWN,
    UPDATES,
    ClientMethod,
    ClientMethodState,
    labels_of,
    positions,
    renumbered,
    round_record,
)
from fedkin.nn.aggregation import Means
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.modules import Classifier

# Cosine similarities between the updates of clients.


_COLUMNS = 1 << 20


def length_compared(classifier: Classifier, compare: str) -> int:
    """Return the number of leading values of an update that `compare` selects (see `UpdateMethod`)."""
    return {"parameters": classifier.parameters, "floats": classifier.floats, "everything": classifier.size}[compare]


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
    similarities = ((products + products.T) / 2 * (scale[:, None] * scale)).clamp(-1, 1)
    return similarities.fill_diagonal_(1.0)


def cosine_distances(updates: Tensor) -> Tensor:
    """Return ``1 - cosine`` between every two updates: float64 ``(n, n)`` in [0, 2], zero diagonal."""
    return 1 - cosine_similarities(updates)


def nearest(split: Mapping[str, Any], update: Tensor, compared: int) -> int:
    """Return the cluster, among those of a split, whose mean update has the smallest angle with `update`."""
    directions = split["directions"][:, :compared].double()
    similarities = directions @ update[:compared].double() / directions.norm(dim=1).clamp_min(1e-300)
    return int(split["clusters"][int(similarities.argmax())])


# History of splits of clusters by updates, and what a round of such a method works on.


@dataclass(frozen=True)
class SplitState(ClientMethodState):
    """State of methods that split clusters by updates: the history of splits.

    `splits` have, in order of time: ``round``, counted from 1; ``cluster``, the number of the cluster divided;
    ``model`` ``(size,)``, its model before the split; ``clients``, those that replied; ``parts``, the part of each
    client; ``distances`` ``(n, n)`` between their updates; ``clusters``, the cluster that each part becomes, where the
    first part keeps the old number; ``directions`` ``(parts, size)``, the parts' mean updates. `pending` has clients
    that missed a split of their cluster, and its position in `splits`.
    """

    splits: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """Updates ``(n, size)`` of one cluster's members that replied in a round, the input of `UpdateMethod.divided`.

    `compared` is the leading part of the updates that is compared, and `weights` are the updates' in a mean.
    """

    cluster: int
    clients: list[int]
    updates: Tensor
    compared: Tensor
    weights: list[float]


class SplitRound:
    """Working copy of the parts of a `SplitState` that a round changes.

    `position` is that of each client in the labels; `compared` is the number of leading values of an update that are
    compared; `means_of` is as in `ClientMethod`.
    """

    def __init__(
        self, state: SplitState, position: dict[int, int], compared: int, means_of: Callable[[int, int], Means]
    ) -> None:
        self.models, self.labels = state.models, state.labels.clone()
        self.splits, self.pending = list(state.splits), dict(state.pending)
        self.position, self.compared, self.means_of = position, compared, means_of

    def cluster(self, client: int) -> int:
        """Return the client's cluster."""
        return int(self.labels[self.position[client]])

    def starts(self, clients: Sequence[int]) -> dict[int, Tensor]:
        """Return the model each client trains: its cluster's, or that of the split it missed."""
        models = list(self.models)
        return {
            client: self.splits[self.pending[str(client)]]["model"]
            if str(client) in self.pending
            else models[self.cluster(client)]
            for client in clients
        }

    def place(self, client: int, update: Tensor) -> None:
        """Assign a client that missed a split to a part; if its new cluster was divided since, it stays pending."""
        at = self.pending.pop(str(client))
        cluster = nearest(self.splits[at], update, self.compared)
        for later in range(at + 1, len(self.splits)):
            if self.splits[later]["cluster"] == cluster:
                self.pending[str(client)] = later
                return
        self.labels[self.position[client]] = cluster

    def divide(self, part: Round, parts: list[int], distances: Tensor, number: int) -> None:
        """Split a cluster in round `number`; its members that did not reply become pending, of unknown cluster."""
        count = max(parts) + 1
        means = self.means_of(count, part.updates.shape[1])
        for update, weight, to in zip(part.updates, part.weights, parts, strict=True):
            means.add(to, update, weight)
        clusters = [part.cluster, *range(len(self.models), len(self.models) + count - 1)]
        split = {
            "round": number,
            "cluster": part.cluster,
            "model": self.models[part.cluster].clone(),
            "clients": part.clients,
            "parts": parts,
            "distances": distances,
            "clusters": clusters,
            "directions": means.all(),
        }
        parts_of = dict(zip(part.clients, parts, strict=True))
        for client in [client for client in self.position if self.cluster(client) == part.cluster]:
            self.labels[self.position[client]] = clusters[parts_of[client]] if client in parts_of else UNKNOWN
            if client not in parts_of:
                self.pending[str(client)] = len(self.splits)
        self.models = torch.cat([self.models, self.models[part.cluster].expand(count - 1, -1)])
        self.splits.append(split)

    def means(self, updates: Mapping[int, tuple[Tensor, float]]) -> Means:
        """Return the mean updates of the current clusters."""
        means = self.means_of(*self.models.shape)
        for client, (update, weight) in updates.items():
            means.add(self.cluster(client), update, weight, client)
        return means

    def by_cluster(self, updates: Mapping[int, tuple[Tensor, float]]) -> list[Round]:
        """Group the round's updates by cluster."""
        members: dict[int, list[int]] = {}
        for client in updates:
            members.setdefault(self.cluster(client), []).append(client)
        rounds = []
        for cluster, clients in sorted(members.items()):
            stack, weights = torch.stack([updates[client][0] for client in clients]), [updates[i][1] for i in clients]
            rounds.append(Round(cluster, clients, stack, stack[:, : self.compared], weights))
        return rounds


@dataclass(frozen=True)
class UpdateDistances:
    """Distances between the updates of a cluster's clients, ``(n, n)``, with values to record."""

    clients: list[int]
    distances: Tensor
    values: dict[str, Any]


@dataclass(frozen=True)
class UpdateMethod(ClientMethod):
    """Base of methods that begin with one cluster and divide clusters by their clients' updates.

    Attributes
    ----------
    compare : {"parameters", "floats", "everything"}
        Which part of an update is compared: trainable parameters; these and a batch norm's running statistics; or the
        whole state, in which a batch norm's counter of batches dominates.
    """

    compare: Literal["parameters", "floats", "everything"] = "parameters"

    traits = ClientMethod.traits.replace(sends=UPDATES)
    state_type: ClassVar[type[ClientMethodState]] = SplitState

    @abstractmethod
    def can_split(self, state: Any) -> bool:
        """Whether a split is possible in this round; if not, updates are averaged as they arrive and not kept."""

    @abstractmethod
    def divided(self, fed: Federation, state: Any, part: Round) -> tuple[list[int] | None, Tensor, dict[str, Any]]:
        """Decide whether and how to divide one cluster.

        Return the part, 0..m-1, that each of the round's clients goes to, ``None`` if the cluster stays whole; the
        distances ``(n, n)`` between their updates; and values for the record, such as the temperature. Dictionaries of
        several clusters are merged.
        """

    def kept(self, state: Any, watched: Sequence[UpdateDistances]) -> dict[str, Any]:
        """Return fields of the next state that follow from the round's distances; none by default."""
        return {}

    def to_reassign(self, state: Any, watched: Sequence[UpdateDistances]) -> list[int]:
        """Return clusters whose clients are to be reassigned, by the first split; none by default."""
        return []

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Have clients train their cluster's model, divide clusters, and add to each model its cluster's mean update.

        A split takes effect at once: the same updates are averaged over the new clusters.
        """
        compared = length_compared(Classifier.of(state.module), self.compare)
        work, watching = SplitRound(state, positions(fed), compared, self.means_of), self.can_split(state)
        losses: dict[int, float] = {}
        kept: dict[int, tuple[Tensor, float]] = {}
        means = self.means_of(*state.models.shape)
        for client, reply in self.trained(fed, state, work.starts(self.participants(fed, state))):
            losses[client] = reply["loss"]
            if str(client) in work.pending:
                work.place(client, reply["update"])
            elif watching:
                kept[client] = reply["update"], self.weight(reply)
            else:
                means.add(work.cluster(client), reply["update"], self.weight(reply), client)
        watched = []
        for part in work.by_cluster(kept):
            parts, distances, values = self.divided(fed, state, part)
            if parts is not None and len(set(parts)) > 1:
                work.divide(part, renumbered(parts), distances, state.steps + 1)
            watched.append(UpdateDistances(part.clients, distances, values))
        if kept:
            means = work.means(kept)
        unsettled = self.to_reassign(state, watched)
        work.pending |= {str(client): 0 for client in work.position if work.cluster(client) in unsettled}
        after = state.next(
            models=means.moved(work.models, self.server_learning_rate),
            labels=work.labels,
            splits=work.splits,
            pending=work.pending,
            finished=self.finished(state),
            **(self.kept(state, watched) if watched else {}),
        )
        values = {"splits": len(work.splits), "fired": len(work.splits) > len(state.splits)}
        return after, round_record(fed, losses, work.labels, **values | _merged(watched))

    def result(self, state: Any) -> dict[str, Any]:
        """Return the common result with the splits, by which unseen clients are assigned."""
        return {**super().result(state), "splits": state.splits, "compare": self.compare}

    @staticmethod
    def assign(result: Mapping[str, Any], unseen: Client) -> int:
        """Return the cluster of an unseen client, by the similarity of its updates at every split.

        At each split of its cluster it trains the model from before the split, and joins the part with the most similar
        mean update.
        """
        classifier, cluster = Classifier.of(result["module"]), 0
        for split in result["splits"]:
            if split["cluster"] == cluster:
                x, y, training = unseen.x, labels_of(unseen), LocalTraining(**result["training"])
                model, _ = train_locally(classifier, split["model"], x, y, unseen.rng, training)
                cluster = nearest(split, model - split["model"], length_compared(classifier, result["compare"]))
        return cluster


def check_clustering_round(number: int, rounds: int) -> None:
    """Raise FedkinError if clients would be clustered after the last of so many rounds."""
    if number > rounds:
        raise FedkinError(
            f"clustering_round is {number}, but the number of rounds is {rounds}, so clients would never be clustered; "
            "set it no higher than that."
        )


def _merged(watched: Sequence[UpdateDistances]) -> dict[str, Any]:
    """Return the clusters' values in one dictionary; nested dictionaries of the same name are merged."""
    values: dict[str, Any] = {}
    for one in watched:
        for name, value in one.values.items():
            values[name] = values.get(name, {}) | value if isinstance(value, dict) else value
    return values
