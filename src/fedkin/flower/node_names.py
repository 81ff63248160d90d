"""Names of the nodes of a user's client app."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedkin.core import FedkinError
from fedkin.flower import query
from fedkin.flower.exchange import RAISED, exchange
from fedkin.flower.seats import Name

PATIENCE = 60.0
"""Seconds that a node that comes during a run has to say its name."""
_NEEDED = "names=True needs app.query('fedkin')(fedkin.flower.describes())"


def names_of(grid: Grid, timeout: float, nodes: Sequence[int]) -> dict[int, Name | FedkinError | None]:
    """Ask nodes for their names; see `fedkin.flower.seats.Ask`."""
    kind = f"{MessageType.QUERY}.{query.ACTION}"
    messages = {node: Message(query.name_request(), node, kind, group_id="names") for node in nodes}
    found: dict[int, Name | FedkinError | None] = {}
    for node, reply in exchange(grid, messages, timeout).items():
        if isinstance(reply, str):
            raised = reply.startswith(RAISED)
            found[node] = FedkinError(f"A node has not said its name ({reply}; {_NEEDED}).") if raised else None
            continue
        try:
            found[node] = query.name_in(reply)
        except FedkinError as error:
            found[node] = FedkinError(f"A node has not said its name ({error}).")
    return found
