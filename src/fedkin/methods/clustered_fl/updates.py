"""Telling groups apart by the clients' updates: what OCFL, Sattler's and Briggs's methods have in common.

Clients that train the same model on like data move it in like directions. A *split* divides one group in several, by
the updates of one round, and is remembered: the model they started from, and each new group's mean update. So a client
that was not there, because it failed to answer or did not exist, trains that same model and joins the group that its
update agrees with best.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedkin.core import Federation, Record, State
from fedkin.learning.classifier import Classifier
from fedkin.learning.descent import Descent, descend
from fedkin.methods.clustered_fl.common import UNKNOWN, GroupMethod, GroupState, Means, renumbered, round_record

_COLUMNS = 1 << 20


@dataclass(frozen=True)
class SplitState(GroupState):
    """With the history of splits.

    Attributes
    ----------
    splits : list of dict
        In order of time: ``round``, counted from 1; ``group``, the number of the group divided; ``model`` ``(size,)``,
        its model then; ``clients``, who was there; ``parts``, the part of each; ``distances`` ``(n, n)`` between their
        updates; ``groups``, the number of each part as a group, the first part keeping the old one; ``directions``
        ``(parts, size)``, their mean updates.
    pending : dict of str to int
        Clients that were not there at a split of their group, and its position in `splits`.
    """

    splits: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """One group's part of a round, as `ByUpdates.divided` sees it.

    Attributes
    ----------
    group : int
    clients : list of int
        Members that answered.
    updates : Tensor
        float32 ``(n, size)``, in order of `clients`.
    compared : Tensor
        ``(n, some)``: the part of the updates that is compared.
    weights : list of float
        Of the updates in a mean.
    """

    group: int
    clients: list[int]
    updates: Tensor
    compared: Tensor
    weights: list[float]


@dataclass(frozen=True)
class Watched:
    """What a method saw of one group in a round: who answered, their distances ``(n, n)``, and what it told."""

    clients: list[int]
    distances: Tensor
    told: dict[str, Any]


@dataclass(frozen=True)
class ByUpdates(GroupMethod):
    """A method that begins with one group and divides groups by their clients' updates.

    Attributes
    ----------
    compare : {"parameters", "floats", "everything"}
        Which part of an update tells clients apart: trainable parameters; these and a batch norm's running statistics;
        or the whole state, in which a batch norm's counter of batches drowns everything else.
    """

    compare: Literal["parameters", "floats", "everything"] = "parameters"

    state_type: ClassVar[type[State]] = SplitState

    def init(self, fed: Federation) -> SplitState:
        """One new model, and all clients in one group."""
        classifier = self.classifier(fed)
        model = classifier.initial(fed.rng("init"))
        first: SplitState = self.state_type(
            module=classifier.spec(), models=model[None], labels=torch.zeros(len(fed.ids), dtype=torch.int64)
        )  # type: ignore[assignment, call-arg]
        return first

    @abstractmethod
    def watching(self, state: Any) -> bool:
        """Whether a split may come in this round; if not, updates are averaged as they come and not kept."""

    @abstractmethod
    def divided(self, fed: Federation, state: Any, part: Round) -> tuple[list[int] | None, Tensor, dict[str, Any]]:
        """Whether, and how, one group divides.

        Returns
        -------
        parts : list of int or None
            The part, 0..m-1, that each of the round's clients goes to; ``None`` if the group stays whole.
        distances : Tensor, (n, n)
            Between their updates.
        values : dict
            What the record should tell, such as the temperature; dictionaries of several groups are merged.
        """

    def kept(self, state: Any, watched: Sequence[Watched]) -> dict[str, Any]:
        """Fields of the next state that follow from what was seen in a round that was watched; none by default."""
        return {}

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Clients train their group's model; groups may divide; each group's model moves by its mean update.

        A split takes effect at once: the same updates move the models of the new groups.
        """
        labels, pending = state.labels.clone(), dict(state.pending)
        position = {client: at for at, client in enumerate(fed.ids)}
        losses: dict[int, float] = {}
        updates: dict[int, Tensor] = {}
        weights: dict[int, float] = {}
        means = Means(*state.models.shape)
        watching = self.watching(state)
        for client, reply in self.trained(fed, state, self._starts(state, self.participants(fed, state), position)):
            losses[client] = reply["loss"]
            if str(client) in pending:
                labels[position[client]] = self._placed(state, pending, client, reply["update"])
            elif watching:
                updates[client], weights[client] = reply["update"], self.weight(reply)
            else:
                means.add(int(labels[position[client]]), reply["update"], self.weight(reply))
        models, splits = state.models, list(state.splits)
        values: dict[str, Any] = {}
        watched: list[Watched] = []
        if watching and updates:
            rounds = _by_group(updates, weights, labels, position, self._compared(state))
            for part in rounds:
                parts, distances, told = self.divided(fed, state, part)
                watched.append(Watched(part.clients, distances, told))
                _merge(values, told)
                if parts is not None and len(set(parts)) > 1:
                    split = {"round": state.steps + 1, **_split(part, renumbered(parts), distances, models)}
                    splits.append(split)
                    models = torch.cat([models, models[part.group].expand(len(split["groups"]) - 1, -1)])
                    labels = _after(split, labels, position, pending, len(splits) - 1)
            means = Means(*models.shape)
            for client, update in updates.items():
                means.add(int(labels[position[client]]), update, weights[client])
        after = state.next(
            models=models + self.server_learning_rate * means.all(),
            labels=labels,
            splits=splits,
            pending=pending,
            finished=self.finished(state),
            **(self.kept(state, watched) if watched else {}),
        )
        told = {"splits": len(splits), "fired": len(splits) > len(state.splits)}
        return after, round_record(fed, losses, labels, **told | values)

    def result(self, state: Any) -> dict[str, Any]:
        """With the splits, which newcomers are assigned by."""
        return {**super().result(state), "splits": state.splits, "compare": self.compare}

    @staticmethod
    def assign(result: Mapping[str, Any], x: Tensor, y: Tensor, rng: torch.Generator) -> int:
        """Group of a client that was not there: at every split of its group it trains the model of that time, and
        follows the part whose mean update its own agrees with best.
        """
        classifier, group = Classifier.of(result["module"]), 0
        for split in result["splits"]:
            if split["group"] == group:
                model, _ = descend(classifier, split["model"], x, y, rng, Descent(**result["training"]))
                group = nearest(split, model - split["model"], length_compared(classifier, result["compare"]))
        return group

    def _compared(self, state: GroupState) -> int:
        return length_compared(Classifier.of(state.module), self.compare)

    def _starts(self, state: SplitState, clients: Sequence[int], position: Mapping[int, int]) -> dict[int, Tensor]:
        """The model each client trains: its group's, or that of the split it has yet to be placed by."""
        models = list(state.models)
        return {
            client: state.splits[state.pending[str(client)]]["model"]
            if str(client) in state.pending
            else models[int(state.labels[position[client]])]
            for client in clients
        }

    def _placed(self, state: SplitState, pending: dict[str, int], client: int, update: Tensor) -> int:
        """The group of a client that missed a split, or -1 if that group has divided since, for which it waits on."""
        at = pending.pop(str(client))
        group = nearest(state.splits[at], update, self._compared(state))
        for later in range(at + 1, len(state.splits)):
            if state.splits[later]["group"] == group:
                pending[str(client)] = later
                return UNKNOWN
        return group


def length_compared(classifier: Classifier, compare: str) -> int:
    """How much of an update `ByUpdates.compare` names, from its beginning."""
    return {"parameters": classifier.parameters, "floats": classifier.floats, "everything": classifier.size}[compare]


def cosine_similarities(updates: Tensor) -> Tensor:
    """Cosine of the angle between every two updates ``(n, size)``: float64 ``(n, n)``, symmetric, diagonal 1.

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
    """``1 - cosine`` between every two updates: float64 ``(n, n)`` in [0, 2], zero diagonal."""
    return 1 - cosine_similarities(updates)


def nearest(split: Mapping[str, Any], update: Tensor, compared: int) -> int:
    """The group of the split's part whose mean update has the smallest angle with `update`."""
    directions = split["directions"][:, :compared].double()
    agreement = directions @ update[:compared].double() / directions.norm(dim=1).clamp_min(1e-300)
    return int(split["groups"][int(agreement.argmax())])


def _by_group(
    updates: Mapping[int, Tensor],
    weights: Mapping[int, float],
    labels: Tensor,
    position: Mapping[int, int],
    compared: int,
) -> list[Round]:
    """The round's updates, group by group."""
    rounds = []
    for group in sorted({int(labels[position[client]]) for client in updates}):
        clients = [client for client in updates if int(labels[position[client]]) == group]
        stack = torch.stack([updates[client] for client in clients])
        rounds.append(Round(group, clients, stack, stack[:, :compared], [weights[client] for client in clients]))
    return rounds


def _split(part: Round, parts: list[int], distances: Tensor, models: Tensor) -> dict[str, Any]:
    """A split as the state keeps it."""
    count = max(parts) + 1
    means = Means(count, part.updates.shape[1])
    for update, weight, to in zip(part.updates, part.weights, parts, strict=True):
        means.add(to, update, weight)
    return {
        "group": part.group,
        "model": models[part.group].clone(),
        "clients": part.clients,
        "parts": parts,
        "distances": distances,
        "groups": [part.group, *range(len(models), len(models) + count - 1)],
        "directions": means.all(),
    }


def _after(
    split: Mapping[str, Any], labels: Tensor, position: Mapping[int, int], pending: dict[str, int], index: int
) -> Tensor:
    """Labels after a split; members that were not there are unknown from now on, and `pending` at the split."""
    labels = labels.clone()
    there = dict(zip(split["clients"], split["parts"], strict=True))
    for client, at in position.items():
        if int(labels[at]) == split["group"]:
            if client in there:
                labels[at] = split["groups"][there[client]]
            else:
                labels[at] = UNKNOWN
                pending[str(client)] = index
    return labels


def _merge(values: dict[str, Any], told: Mapping[str, Any]) -> None:
    """Add what one group told to what the others did."""
    for name, value in told.items():
        values[name] = values.get(name, {}) | value if isinstance(value, dict) else value
