"""Baselines of clustered federated learning: federated averaging (FedAvg), and local training without federation."""

from __future__ import annotations

from dataclasses import dataclass

from fedkin.methods.clients.client_method import UPDATES, ClientMethod


@dataclass(frozen=True)
class FedAvgMethod(ClientMethod):
    """Trains one model for all clients by federated averaging (McMahan et al. 2017, algorithm 1), or FedProx."""

    traits = ClientMethod.traits.replace(sends=UPDATES, baseline=True, sums_suffice={"aggregation": "mean"})


@dataclass(frozen=True)
class LocalMethod(ClientMethod):
    """Trains every client by itself, from the same initial model: one cluster per client.

    A baseline for comparisons; models reach the server only to be scored.
    """

    traits = ClientMethod.traits.replace(sends=UPDATES, baseline=True)

    init = ClientMethod.one_each
