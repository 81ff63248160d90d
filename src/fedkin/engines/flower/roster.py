"""The list of sites that take part: they introduce themselves, and are numbered in order of their names."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from flwr.app import Message
from flwr.serverapp import Grid

from fedkin.core import FedkinError
from fedkin.core.errors import listing
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
        Token that distinguishes this site from another of the same name.
    shape : tuple of int
        Shape of one sample.
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
    """The sites of a federation. Nodes are asked to introduce themselves when they appear and after a restart.

    The first site of a name keeps it, and may come back under another of Flower's numbers.

    Parameters
    ----------
    grid : Grid
    known : mapping of str to str, optional
        Identity of each site that took part before, by name, where a run is resumed; no other site is admitted then.
    report : callable, optional
        Given a sentence whenever something changes: which sites are connected, and which are refused and why.
    labels : bool
        Whether sites send the names of their classes.

    Attributes
    ----------
    members : dict of str to Member
        By name, also those that are away now.
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
        """Ask new nodes who they are; return sites that have introduced themselves since the last call."""
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
        """Add a site, or update its node.

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
        if self.known and holder and _data(holder) != _data(member):
            raise FedkinError(
                f"Site '{member.name}' came back with {_described(member)} instead of {_described(holder)}."
            )
        self.members[member.name] = member

    def agreeing(self) -> list[Member]:
        """Return the sites with tables, or those with arrays of the most common shape; in order of name."""
        kinds = Counter(_kind(member) for member in self.members.values())
        most = max(kinds, key=lambda kind: (kinds[kind], kind or ())) if kinds else None
        return [self.members[name] for name in sorted(self.members) if _kind(self.members[name]) == most]

    def differing(self) -> list[str]:
        """Return why each other site cannot take part."""
        agreeing = self.agreeing()
        return [
            f"Site '{member.name}' has {_described(member)}, but most sites have {_described(agreeing[0])}."
            for member in self.members.values()
            if _kind(member) != _kind(agreeing[0])
        ]

    def gather(self, wanted: int, patience: float) -> list[Member]:
        """Wait until `wanted` sites with tables, or arrays of one shape, are connected; return them in order of name.

        No other site is admitted from then on. A resumed run needs a single site once patience is over; the others are
        missing until they come back.

        Parameters
        ----------
        wanted : int
            At least 1.
        patience : float
            Seconds to wait at most.

        Raises
        ------
        FedkinError
            If they are not connected in time.
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
        """Add the sites that took part before and are away; in order of name."""
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
    found = read(reply.content)
    if found.text("refusal"):
        raise FedkinError(f"Node {node}: {found.text('refusal')}")
    try:
        one = Member(**found.tree())
    except TypeError:
        one = None
    if one is None or not _is_typed(one):
        raise FedkinError(f"Node {node} does not introduce itself as sites of fedkin do.")
    return replace(one, node=node, shape=tuple(one.shape))


def _is_typed(one: Member) -> bool:
    """Whether every field has its type."""
    if not all(isinstance(several, list) for several in (one.shape, one.features, one.classes)):
        return False
    words = [one.name, one.identity, *one.features, *one.classes]
    return all(isinstance(word, str) for word in words) and all(type(size) is int for size in one.shape)


def _kind(member: Member) -> tuple[int, ...] | None:
    """The shape of a sample; ``None`` of tables, whose columns are agreed on by name later."""
    return None if member.features else member.shape


def _data(member: Member) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return member.shape, tuple(member.features)


def _described(member: Member) -> str:
    if member.features:
        return f"a table of {len(member.features)} columns ({listing(member.features)})"
    return f"samples of shape {member.shape}"
