"""Who takes part: sites introduce themselves, and are numbered in order of their names."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from flwr.app import Message
from flwr.serverapp import Grid

from fedkin.core import FedkinError
from fedkin.engines.flower.wire import HELLO, TYPE, content, read

NOWHERE = 0
"""Node of a site that took part and has not come back."""

_PAUSE = 0.5


@dataclass(frozen=True)
class Member:
    """A site as the server knows it.

    Attributes
    ----------
    name : str
        Stable; ids of sites are in order of names.
    identity : str
        Token that tells this site from another of the same name.
    shape : tuple of int
        Of one sample.
    features, classes : list of str
        Names of a table's columns, and of its classes; may be empty.
    node : int
        Flower's number of the node that it is reached by now, or `NOWHERE`.
    """

    name: str
    identity: str
    shape: tuple[int, ...]
    features: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    node: int = NOWHERE


class Roster:
    """Who is there. Nodes are asked who they are when they appear, and again when they were started anew.

    The first site of a name keeps it, and may come back under another of Flower's numbers.

    Parameters
    ----------
    grid : Grid
    known : mapping of str to str, optional
        Identity of each site that took part before, by name, where a run goes on; nobody else is let in then.
    report : callable, optional
        Given a sentence whenever something changes: who is there, and who is refused and why.
    labels : bool
        Whether sites are to tell the names of their classes.

    Attributes
    ----------
    members : dict of str to Member
        By name; those that were there once, even if they are away by now.
    """

    def __init__(
        self,
        grid: Grid,
        known: Mapping[str, str] | None = None,
        report: Callable[[str], None] = lambda text: None,
        labels: bool = True,
    ) -> None:
        self.grid, self.known, self.report, self.labels = grid, dict(known or {}), report, labels
        self.members: dict[str, Member] = {}
        self._greeted: dict[int, str] = {}
        self._asked: dict[str, int] = {}

    def greet(self) -> list[Member]:
        """Greet nodes that are new; sites that have introduced themselves since the last time."""
        nodes = {node.node_id: node.last_activated_at for node in self.grid.get_nodes()}
        new = [node for node, since in nodes.items() if self._greeted.get(node) != since]
        if new:
            messages = [
                Message(content(kind=HELLO, labels=int(self.labels)), node, TYPE, group_id="hello") for node in new
            ]
            self._asked |= dict(zip(self.grid.push_messages(messages), new, strict=True))
            self._greeted |= {node: nodes[node] for node in new}
        came = []
        for reply in self.grid.pull_messages(list(self._asked)) if self._asked else ():
            node = self._asked.pop(reply.metadata.reply_to_message_id)
            try:
                member = _introduced(reply, node)
                self.admit(member)
                came.append(member)
            except FedkinError as error:
                self.report(f"Refused: {error}")
        return came

    def admit(self, member: Member) -> None:
        """Take notice of a site.

        Raises
        ------
        FedkinError
            If its name is another site's, it has other data than before, or the run began without it.
        """
        if self.known and member.name not in self.known:
            raise FedkinError(f"Site '{member.name}' was not there when the run began, so it cannot take part now.")
        holder = self.members.get(member.name)
        identity = holder.identity if holder else self.known.get(member.name, member.identity)
        if identity != member.identity:
            raise FedkinError(f"Another site is called '{member.name}' already; every site needs a name of its own.")
        if self.known and holder and _kind(holder) != _kind(member):
            raise FedkinError(
                f"Site '{member.name}' came back with {_described(member)} instead of {_described(holder)}."
            )
        self.members[member.name] = member

    def agreeing(self) -> list[Member]:
        """Sites whose samples are like those of most, in order of name."""
        kinds = Counter(_kind(member) for member in self.members.values())
        most = max(kinds, key=lambda kind: (kinds[kind], kind)) if kinds else None
        return [self.members[name] for name in sorted(self.members) if _kind(self.members[name]) == most]

    def differing(self) -> list[str]:
        """Why each of the others cannot take part."""
        agreeing = self.agreeing()
        return [
            f"Site '{member.name}' has {_described(member)}, but most sites have {_described(agreeing[0])}."
            for member in self.members.values()
            if _kind(member) != _kind(agreeing[0])
        ]

    def gather(self, wanted: int, patience: float) -> list[Member]:
        """Wait until `wanted` sites are there that can work together; they, in order of name.

        From then on nobody else is let in. Where a run goes on, one site is enough once patience is over: those that
        have not come back are missing until they do.

        Parameters
        ----------
        wanted : int
            At least 1.
        patience : float
            Seconds to wait at most.

        Raises
        ------
        FedkinError
            If they are not there in time.
        """
        end, last = time.monotonic() + patience, ""
        while True:
            self.greet()
            agreeing = self.agreeing()
            state = (
                f"{len(agreeing)} of {wanted} sites are there: {', '.join(one.name for one in agreeing) or 'none yet'}"
            )
            if state != last:
                self.report(state)
                last = state
            if len(agreeing) >= wanted:
                break
            if time.monotonic() > end:
                if self.known and agreeing:
                    break
                raise FedkinError(" ".join([f"After {patience:g} seconds {state}.", *self.differing()]))
            time.sleep(_PAUSE)
        for reason in self.differing():
            self.report(f"Refused: {reason}")
        members = self._with_those_away(agreeing[:wanted])
        self.known = {member.name: member.identity for member in members}
        self.members = {member.name: member for member in members}
        return members

    def _with_those_away(self, there: list[Member]) -> list[Member]:
        """Also those that took part before, which are like the others; in order of name."""
        names = {member.name for member in there}
        away = [
            replace(there[0], name=name, identity=identity, node=NOWHERE)
            for name, identity in self.known.items()
            if name not in names
        ]
        return sorted([*there, *away], key=lambda member: member.name)


def _introduced(reply: Message, node: int) -> Member:
    if reply.has_error():
        raise FedkinError(f"Node {node} did not introduce itself (code {reply.error.code}).")
    told = read(reply.content)
    if told.text("refusal"):
        raise FedkinError(f"Node {node}: {told.text('refusal')}")
    try:
        one = Member(**told.tree())
    except TypeError:
        one = None
    if one is None or not _is_typed(one):
        raise FedkinError(f"Node {node} does not introduce itself as sites of fedkin do.")
    return replace(one, node=node, shape=tuple(one.shape))


def _is_typed(one: Member) -> bool:
    """Whether all that a site said is of its type."""
    if not all(isinstance(several, list) for several in (one.shape, one.features, one.classes)):
        return False
    words = [one.name, one.identity, *one.features, *one.classes]
    return all(isinstance(word, str) for word in words) and all(type(size) is int for size in one.shape)


def _kind(member: Member) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return member.shape, tuple(member.features)


def _described(member: Member) -> str:
    columns = f" ({', '.join(member.features)})" if member.features else ""
    return f"samples of shape {member.shape}{columns}"
