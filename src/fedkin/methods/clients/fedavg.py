"""Baselines of clustered federated learning: federated averaging (FedAvg), and local training without federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from fedkin.core import Federation, Record
from fedkin.methods.clients.client_method import (
    ClientMethod,
    ClientMethodState,
    Participation,
    round_record,
    train_clusters,
)
from fedkin.nn.aggregation import Means


@dataclass(frozen=True)
class FedAvgMethod(ClientMethod):
    """Trains one model for all clients by federated averaging (McMahan et al. 2017, algorithm 1), or FedProx."""

    baseline = True
    sends: ClassVar[str] = "the change of its model, the number of its samples and its loss"
    sums_suffice: ClassVar[Mapping[str, Any]] = {"aggregation": "mean"}

    def step(self, fed: Federation, state: ClientMethodState) -> tuple[ClientMethodState, Record]:
        """Have clients train the model of their cluster, and add to each model its cluster's mean update."""
        participation, means = self.averaged(fed, state)
        models = means.moved(state.models, self.server_learning_rate)
        after = state.next(models=models, finished=self.finished(state))
        return after, round_record(fed, participation, state.labels)

    def averaged(self, fed: Federation, state: ClientMethodState) -> tuple[Participation, Means]:
        """Train for one exchange; return the participation, with losses, and the mean update of every cluster.

        Clients whose cluster is unknown do not take part.
        """
        means, clusters = self.means(state), self.known_clusters(fed, state.labels, self.participants(fed, state))
        return train_clusters(self, fed, state, clusters, means), means

    def means(self, state: ClientMethodState) -> Means:
        """Return an empty accumulator of a round's mean updates."""
        return self.means_of(*state.models.shape)


@dataclass(frozen=True)
class LocalMethod(FedAvgMethod):
    """Trains every client by itself, from the same initial model: one cluster per client.

    A baseline for comparisons; models reach the server only to be scored.
    """

    baseline = True

    def init(self, fed: Federation) -> ClientMethodState:
        """Return one new model, copied for each client."""
        state: ClientMethodState = super().init(fed)
        return replace(state, models=state.models.repeat(len(fed.ids), 1), labels=torch.arange(len(fed.ids)))
