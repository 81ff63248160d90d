"""Nodes of a grid: messages to them and their replies, their names, and the numbers that they have as clients."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedkin.core import FedkinError
from fedkin.core.replies import Failure, failure_kind, is_name
from fedkin.engines.flower_engine.grid import NOWHERE
from fedkin.engines.flower_engine.messages import Key, content, poll, push, read

Name = int | str
"""What a client is called in results: its partition or its name; without names, its node id."""
Ask = Callable[[Sequence[int]], tuple[dict[int, Name], dict[int, str]]]
"""Given node ids, the names of nodes, and why others have none; those that are silent now are in neither."""

_QUERY = f"{MessageType.QUERY}.fedkin"

log = logging.getLogger("flwr")


def exchange(grid: Grid, messages: Mapping[Key, Message], timeout: float) -> dict[Key, RecordDict | Failure]:
    """Send messages and wait for the replies; return by key the reply, or the reason why there is none.

    `timeout` is in seconds; those that have not replied by then count as missing. A reason is "failed" if the client
    app failed, rather than the way to it.
    """
    unsent = Failure("absent", "the message could not be sent")
    answers: dict[Key, RecordDict | Failure] = dict.fromkeys(messages, unsent)
    if messages:
        waiting = push(grid, messages)
        answers.update(dict.fromkeys(waiting.values(), Failure("absent", f"no reply in {timeout:g} seconds")))
        for key, reply in poll(grid, waiting, timeout):
            answers[key] = _failure(reply) if reply.has_error() else reply.content
    return answers


def _failure(reply: Message) -> Failure:
    """Return why a node could not do its task, in one line."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", reply.error.reason or "")
    # A simulation reports Ray's traceback, coloured, and the app's own message behind these words of Flower's.
    _, is_simulated, message = text.rpartition("Exception ClientAppException occurred. Message: ")
    text = message.removesuffix("'>") if is_simulated else text
    reason = " ".join(text.split())[:300] or "no reason given"  # a line of a log
    is_app = reply.error.code in (0, 2)  # Flower's codes of errors in the client app: unknown, and raised
    return Failure("failed" if is_app else "absent", f"error {reply.error.code}: {reason}")


def report_name(message: Message, context: Context) -> Message:
    """Answer the question for a node's name, which strategies with ``names=True`` ask.

    The name is ``name`` of the node configuration, or without one its ``partition-id``.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> from fedkin.flower import report_name
    >>> app = ClientApp()
    >>> answer = app.query("fedkin")(report_name)
    """
    name = context.node_config.get("name", context.node_config.get("partition-id"))
    if not _is_name(name):
        raise FedkinError(
            "This node has no name; give it one in its node configuration, as in --node-config 'name=\"north\"'."
        )
    return Message(content(name=name), reply_to=message)  # type: ignore[arg-type]


def _is_name(name: Any) -> bool:
    return (type(name) is int and name >= 0) or (isinstance(name, str) and is_name(name))


def names_of(grid: Grid, timeout: float, nodes: Sequence[int]) -> tuple[dict[int, Name], dict[int, str]]:
    """Ask nodes for their names; see `Ask`."""
    names: dict[int, Name] = {}
    nameless: dict[int, str] = {}
    messages = {node: Message(content(), node, _QUERY, group_id="names") for node in nodes}
    for node, reply in exchange(grid, messages, timeout).items():
        if isinstance(reply, Failure):
            if failure_kind(reply) == "failed":
                nameless[node] = f"it has not said its name ({reply})"
            continue
        try:
            name = read(reply).facts.get("name")
        except FedkinError:
            name = None
        if _is_name(name):
            names[node] = name  # type: ignore[assignment]
        else:
            nameless[node] = "its reply is not that of fedkin.flower.report_name"
    return names, nameless


class NodeAssignment:
    """Numbering of nodes as clients, in the order in which they were first seen; those seen together in order of name.

    A client keeps its number while it is away. A node that reports a name gets the number of that name back under
    another node id; without names, a new id is a new client. `count` is the maximum number of clients, and `names`
    those of the run that is resumed. A node is known by its id if `ask` is ``None``. `nodes` has the node id of each
    client, or `NOWHERE` where it was here in an earlier process and has not come back.
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
        connected = set(connected)
        new = sorted(connected.difference(self.nodes, self._ignored))
        named: dict[int, Name] = {node: node for node in new}
        if self.ask:
            named, nameless = self.ask(new) if new else ({}, {})
            for node, reason in nameless.items():
                if not named and all(node == NOWHERE for node in self.nodes):
                    raise FedkinError(
                        "names=True needs app.query('fedkin')(fedkin.flower.report_name) in the client app; node "
                        f"{node}: {reason}."
                    )
                self._ignore(node, reason)
        for node, name in sorted(named.items(), key=lambda item: (isinstance(item[1], str), item[1])):
            if name in self.names and (holder := self.nodes[self.names.index(name)]) in connected:
                self._ignore(node, f"it is {name}, as node {holder} says it is")
            elif name in self.names:
                self.nodes[self.names.index(name)] = node
                log.info("Node %s is back.", name)
            elif len(self.names) < self.count:
                self.names.append(name)
                self.nodes.append(node)
            else:
                self._ignore(node, f"all {self.count} seats are taken")
        return {client for client, node in enumerate(self.nodes) if node in connected}

    def _ignore(self, node: int, reason: str) -> None:
        log.warning("Node %d is ignored: %s.", node, reason)
        self._ignored.add(node)
