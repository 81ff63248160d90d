"""Baselines of clustered federated learning: federated averaging, of all or of declared groups, and none."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import torch

from fedkin.core import Federation, FedkinError
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState


@dataclass(frozen=True)
class FedAvgMethod(ClientMethod):
    """Trains one model for all clients by federated averaging (McMahan et al. 2017, algorithm 1), or FedProx."""

    traits = ClientMethod.traits.replace(baseline=True, sums_suffice={"aggregation": "mean"})


@dataclass(frozen=True)
class LocalMethod(ClientMethod):
    """Trains every client by itself, from the same initial model: one cluster per client.

    A baseline for comparisons; models reach the server only to be scored.
    """

    traits = ClientMethod.traits.replace(baseline=True)

    init = ClientMethod.one_each


@dataclass(frozen=True)
class DeclaredMethod(ClientMethod):
    """Trains one model per group of clients by federated averaging; the groups are declared, and not found.

    They are what sites know, such as regions or kinds of devices: the baseline that clusters found must beat.

    Attributes
    ----------
    groups : list of str
        The group of each client, in order of id. Without it a client's group is its name without a number at the end:
        "north-1" and "north-2" are of one group.
    """

    groups: tuple[str, ...] = ()

    traits = ClientMethod.traits.replace(baseline=True)

    def init(self, fed: Federation) -> ClientMethodState:
        """Return one new model, copied for each group.

        Raises FedkinError if there is not one group for each client.
        """
        if self.groups and len(self.groups) != len(fed.ids):
            raise FedkinError(f"method.groups has {len(self.groups)} groups; it needs one for each of {len(fed.ids)}.")
        state: ClientMethodState = super().init(fed)
        groups = self.groups or [re.sub(r"[\W_]*\d+$", "", fed.client_label(client)) for client in fed.ids]
        numbers: dict[str, int] = {}
        labels = torch.tensor([numbers.setdefault(group, len(numbers)) for group in groups])
        return replace(state, models=state.models.repeat(len(numbers), 1), labels=labels)
