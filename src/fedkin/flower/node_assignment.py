"""Assignment of a grid's nodes to clients, by the names that nodes report or by their ids."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedkin.core import FedkinError
from fedkin.engines.flower_engine.wire import content
from fedkin.flower import query
from fedkin.flower.exchange import RAISED, exchange

Name = int | str
"""What a client is called in results: its partition or its name; without names, its node id."""
Ask = Callable[[Sequence[int]], Mapping[int, Name | FedkinError | None]]
"""Given node ids, the name of each; an error if it cannot give one, ``None`` if it is silent now."""

PATIENCE = 60.0
"""Seconds that a node that comes during a run has to say its name."""
_NEEDED = "names=True needs app.query('fedkin')(fedkin.flower.describes()) in the client app"
NOWHERE = 0
"""Node of a client that was here in an earlier process and has not come back."""

log = logging.getLogger("flwr")


class NodeAssignment:
    """Numbering of nodes as clients, in the order in which they were first seen; those seen together in order of name.

    A client keeps its number while it is away. A node that reports a name gets the number of that name back under
    another node id; without names, a new id is a new client. `count` is the maximum number of clients, and `names`
    those of the run that is resumed. A node is known by its id if `ask` is ``None``. `nodes` has the node id of each
    client, or `NOWHERE`.
    """

    def __init__(self, count: int, ask: Ask | None = None, names: Sequence[Name] = ()) -> None:
        self.count, self.ask = count, ask
        self.names: list[Name] = list(names)
        self.nodes: list[int] = [NOWHERE if ask else int(name) for name in names]
        self._ignored: set[int] = set()

    def update(self, connected: Iterable[int]) -> set[int]:
        """Number new nodes, and return the clients that are connected now.

        Raises FedkinError if nodes are asked for names, but no node has one, now or before in this process.
        """
        there = set(connected)
        new = sorted(there.difference(self.nodes, self._ignored))
        named = self._named(new) if self.ask else {node: node for node in new}
        clients = {name: at for at, name in enumerate(self.names)}
        began, full = len(self.names), 0
        for node, name in sorted(named.items(), key=lambda one: (isinstance(one[1], str), one[1])):
            if name in clients:
                self._return(clients[name], node, there)
            elif len(self.names) < self.count:
                clients[name] = len(self.names)
                self.names.append(name)
                self.nodes.append(node)
            else:
                full += 1
                self._ignored.add(node)
        if full:
            log.warning("%d nodes are ignored: %d came after the first round, the maximum.", full, self.count - began)
        if began and len(self.names) > began:
            log.info("New nodes: %s", self.names[began:])
        return {at for at, node in enumerate(self.nodes) if node in there}

    def _return(self, client: int, node: int, there: set[int]) -> None:
        """Give a node the number that belongs to its name, unless another connected node has it."""
        if self.nodes[client] in there:
            log.warning(
                "Node %d is ignored: it says that it is %s, as node %d does.",
                node,
                self.names[client],
                self.nodes[client],
            )
            self._ignored.add(node)
            return
        if self.nodes[client] != NOWHERE:
            log.info("Node %s is back.", self.names[client])
        self.nodes[client] = node

    def _named(self, nodes: Sequence[int]) -> dict[int, Name]:
        """Ask new nodes for their names; nodes without one are ignored, silent ones are asked again next time."""
        answers = self.ask(nodes) if self.ask and nodes else {}
        failed = {node: name for node, name in answers.items() if isinstance(name, FedkinError)}
        found = {node: name for node, name in answers.items() if isinstance(name, int | str)}
        if failed and not found and all(node == NOWHERE for node in self.nodes):
            raise next(iter(failed.values()))
        for node, error in failed.items():
            log.warning("Node %d is ignored: %s", node, error)
        self._ignored |= failed.keys()
        return found


def names_of(grid: Grid, timeout: float, nodes: Sequence[int]) -> dict[int, Name | FedkinError | None]:
    """Ask nodes for their names; see `Ask`."""
    kind = f"{MessageType.QUERY}.{query.ACTION}"
    messages = {node: Message(content(task=query.NAME), node, kind, group_id="names") for node in nodes}
    found: dict[int, Name | FedkinError | None] = {}
    for node, reply in exchange(grid, messages, timeout).items():
        if isinstance(reply, str):
            raised = reply.startswith(RAISED)
            found[node] = FedkinError(f"{_NEEDED}; a node has not said its name ({reply}).") if raised else None
            continue
        try:
            found[node] = query.name_in(reply)
        except FedkinError as error:
            found[node] = FedkinError(f"A node has not said its name ({error}).")
    return found
