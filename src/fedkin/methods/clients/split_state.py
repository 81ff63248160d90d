"""History of splits of clusters by updates, and what a round of such a method works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedkin.methods.clients.client_method import ClientMethodState
from fedkin.methods.clients.round_record import UNKNOWN
from fedkin.methods.clients.update_similarities import nearest
from fedkin.nn.aggregation import Means


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
