"""Base of methods that split clusters by the clients' updates: OCFL's, Sattler's, Briggs's and FedGroup.

Clients with similar data have similar updates of the same model. A *split* divides one cluster into several by the
updates of one round. The state keeps every split: the model the clients started from, and each new cluster's mean
update. A client that was missing, or an unseen one, trains that model and joins the cluster with the most similar mean
update.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Record
from fedkin.core.method import Count
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, positions, renumbered
from fedkin.methods.clients.client_tasks import labels_of
from fedkin.methods.clients.round_record import round_record
from fedkin.methods.clients.split_state import Round, SplitRound, SplitState
from fedkin.methods.clients.update_similarities import length_compared, nearest
from fedkin.nn.classifier import Classifier
from fedkin.nn.descent import Descent, descend


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

    sends: ClassVar[str] = "the change of its model, the number of its samples and its loss"
    state_type: ClassVar[type[ClientMethodState]] = SplitState

    @abstractmethod
    def watching(self, state: Any) -> bool:
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

    def unsettled(self, state: Any, watched: Sequence[UpdateDistances]) -> list[int]:
        """Return clusters whose clients are to be reassigned, by the first split; none by default."""
        return []

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Have clients train their cluster's model, divide clusters, and add to each model its cluster's mean update.

        A split takes effect at once: the same updates are averaged over the new clusters.
        """
        compared = length_compared(Classifier.of(state.module), self.compare)
        work, watching = SplitRound(state, positions(fed), compared, self.means_of), self.watching(state)
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
        unsettled = self.unsettled(state, watched)
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
                x, y, training = unseen.x, labels_of(unseen), Descent(**result["training"])
                model, _ = descend(classifier, split["model"], x, y, unseen.rng, training)
                cluster = nearest(split, model - split["model"], length_compared(classifier, result["compare"]))
        return cluster


@dataclass(frozen=True)
class OneSplitMethod(UpdateMethod):
    """Clusters clients once, by the updates of one round.

    Attributes
    ----------
    clustering_round : int
        The round, counted from 1, whose updates are clustered; at most `rounds`.
    """

    clustering_round: Count = 1

    def init(self, fed: Federation) -> Any:
        """Return one new model, and all clients in one cluster.

        Raises FedkinError if `clustering_round` is greater than `rounds`.
        """
        if self.clustering_round > self.rounds:
            raise FedkinError(
                f"clustering_round is {self.clustering_round}, but the number of rounds is {self.rounds}, so clients "
                "would never be clustered; set it no higher than that."
            )
        return super().init(fed)


def _merged(watched: Sequence[UpdateDistances]) -> dict[str, Any]:
    """Return the clusters' values in one dictionary; nested dictionaries of the same name are merged."""
    values: dict[str, Any] = {}
    for one in watched:
        for name, value in one.values.items():
            values[name] = values.get(name, {}) | value if isinstance(value, dict) else value
    return values
