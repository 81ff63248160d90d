"""Placement of clients whose cluster is unknown, such as late ones, in the cluster of lowest loss on their data."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fedkin.core import Federation
from fedkin.core.replies import reals
from fedkin.methods.clients.client_method import ClientMethodState, positions
from fedkin.methods.clients.client_tasks import losses, lowest_loss
from fedkin.methods.clients.round_record import UNKNOWN


def losses_at(fed: Federation, state: ClientMethodState, clients: Sequence[int]) -> dict[int, Tensor]:
    """Return the losses ``(K,)`` of all models, by client that replies, in one exchange; none for no clients."""
    if not clients:
        return {}
    payload = {"module": state.module, "models": state.models}
    replies = fed.ask(losses, dict.fromkeys(clients, payload), {"losses": reals(len(state.models))})
    return {client: reply["losses"] for client, reply in replies.items()}


def place_by_loss(fed: Federation, state: ClientMethodState, clients: Sequence[int], labels: Tensor) -> dict[int, str]:
    """Write the cluster of lowest loss to `labels` for those of `clients` that have none; return who did not reply."""
    position = positions(fed)
    unknown = [client for client in clients if labels[position[client]] == UNKNOWN]
    for client, found in losses_at(fed, state, unknown).items():
        labels[position[client]] = lowest_loss(found)
    return dict(fed.missing) if unknown else {}
