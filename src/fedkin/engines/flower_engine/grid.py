"""Federation over a Flower grid, and the roster of its sites.

Sites introduce themselves, are checked, and are numbered in order of name.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.payload import Failure, is_name, is_text, owned, to_bytes
from fedkin.engines.flower_engine import connected_nodes
from fedkin.engines.flower_engine.messages import (
    HELLO,
    KEEP,
    REFUSED,
    TASK,
    TYPE,
    content,
    in_one_line,
    poll,
    push,
    read,
)
from fedkin.engines.site import Request, WatchedSites
from fedkin.secure_aggregation.client_tasks import MIN_CLIENTS, public_text
from fedkin.secure_aggregation.sums import ClientSums, HiddenSums

_LOOK_EVERY = 5.0
"""Seconds between two checks whether a client that owes a reply was restarted."""
_REPORT_EVERY = 30.0
"""Seconds of silence after which the server says whom it waits for."""


class FlowerFederation(Federation):
    """Federation whose clients are reached over a Flower grid.

    A client that was killed and restarted while it owed a reply is asked again, with its memory as it was before the
    exchange. A client that stays away is missing once Flower gives it up, after a minute or less, or after `timeout`.

    The members of the `roster` are the clients, with ids in order of their names, or in that of `order`, where a run is
    resumed. `run` is the token of the run, hexadecimal; `timeout` is in seconds; `classes` are in the order of their
    numbers, the same at all clients. `watched` are the clients, if they run on this machine. `on_progress` is called
    with (clients done, clients asked) during an exchange. `names` are those of the sites, in order of id.
    `common` are as of `Federation`.
    """

    def __init__(
        self,
        roster: Roster,
        run: str,
        seed: int = 0,
        timeout: float = 3600.0,
        classes: Sequence[str] = (),
        watched: WatchedSites | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        order: Sequence[str] = (),
        **common: Any,
    ) -> None:
        self.names = list(order) or sorted(roster.members)
        super().__init__(range(len(self.names)), seed, **common)
        self.watched = watched
        self.clients = watched.clients if watched else {}
        self.client_names = common.get("names", self.names)
        self.roster, self.grid, self.run = roster, roster.grid, run
        self.refused = roster.refused
        self.timeout, self.classes, self.on_progress = timeout, list(classes), on_progress

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        request = Request(self.run, 0, self.seed, self.exchange, self.settled, task.name, self.classes)
        uses = Counter(id(payload) for payload in payloads.values())
        shared = {id(payload): payload for payload in payloads.values() if uses[id(payload)] > 1}
        packed = {number: to_bytes(owned(payload)) for number, payload in shared.items()}  # once

        def message(client: int) -> Message:
            content = packed.get(id(payloads[client])) or to_bytes(owned(payloads[client]))
            return self._message(TASK, replace(request, client=client), content)

        ready: dict[int, Payload | str] = {}
        waiting = sorted(payloads)
        for count, (client, reply) in enumerate(self._exchanged(sorted(payloads), message), 1):
            ready[client] = reply
            if self.on_progress:
                self.on_progress(count, len(payloads))
            while waiting and waiting[0] in ready:
                yield waiting[0], ready.pop(waiting.pop(0))

    def sums(self) -> ClientSums:
        """Return sums over the clients present, hidden if they are enough for it."""
        return HiddenSums(self) if len(self.present) >= MIN_CLIENTS else ClientSums(self)

    def conclude(self, results: Mapping[int, Payload]) -> dict[int, str]:
        """Have clients save their part of the result; return the clients that did not, and why."""
        request = Request(self.run, 0, self.seed, self.exchange + 1, self.settled, "", self.classes)

        def message(client: int) -> Message:
            return self._message(KEEP, replace(request, client=client), to_bytes(owned(results[client])))

        replies = self._exchanged(sorted(results), message)
        return {client: reply for client, reply in sorted(replies, key=lambda item: item[0]) if isinstance(reply, str)}

    def refresh(self) -> None:
        """Load the clients' states from disk, where this process can read them."""
        if self.watched:
            self.watched.refresh()

    def pause(self, attempt: int) -> None:
        """Wait for clients to come back, and report it; simulated clients are never away."""
        if self.watched is None:
            seconds = min(60.0, 3.0 * 2**attempt)
            reasons = "; ".join(f"{self.names[client]}: {reason}" for client, reason in self.missing.items())
            self.roster.report(f"Asking again in {seconds:g} s ({reasons or 'without a reason'})")
            time.sleep(seconds)

    def _message(self, kind: str, request: Request, payload: bytes) -> Message:
        node = self.roster.members[self.names[request.client]].node
        facts = {"kind": kind, "request": request.to_json()}
        return Message(content(payload, **facts), node, TYPE, ttl=self.timeout, group_id=str(self.exchange))

    def _exchanged(
        self, clients: Sequence[int], message: Callable[[int], Message]
    ) -> Iterator[tuple[int, Payload | str]]:
        """Send each client its message, and yield (client, reply or reason) as replies arrive."""
        owing: dict[str, int] = {}
        began = heard = looked = time.monotonic()

        def between(arrived: bool) -> None:
            """Look for restarted clients now and then, and say for whom the server waits."""
            nonlocal heard, looked
            clock = time.monotonic()
            if arrived:
                heard = clock
            if clock - looked > _LOOK_EVERY:
                looked = clock
                self._ask_again(owing, message)
            if clock - heard > _REPORT_EVERY:
                heard = clock
                names = ", ".join(self.names[client] for client in sorted(owing.values()))
                self.roster.report(f"Waiting for {names}, for {clock - began:.0f} s so far")

        self.roster.greet()
        for client in clients:
            sent = self._push(client, message)
            owing |= sent
            if not sent:
                yield client, "not connected"
        for client, reply in poll(self.grid, owing, self.timeout, between):
            yield client, self._read(reply)
        yield from ((client, f"no reply in {self.timeout:g} seconds") for client in owing.values())

    def _ask_again(self, owing: dict[str, int], message: Callable[[int], Message]) -> None:
        """Send the message again to clients that owe a reply and have just restarted."""
        back = {member.name for member in self.roster.greet()}
        for number, client in list(owing.items()):
            if self.names[client] in back and (again := self._push(client, message)):
                del owing[number]
                owing |= again

    def _push(self, client: int, message: Callable[[int], Message]) -> dict[str, int]:
        """Send a client its message; return the client by Flower's message id, or nothing if it is not connected."""
        sent = message(client)
        return {} if sent.metadata.dst_node_id == NOWHERE else push(self.grid, {client: sent})

    def _read(self, reply: Message) -> Payload | Failure:
        if reply.has_error():
            return Failure("absent", f"Flower could not reach it (code {reply.error.code})")
        try:
            answer = read(reply.content)
            if reason := in_one_line(answer.text("refusal"), 1000):
                return Failure("refused" if answer.facts.get("failure") == "refused" else "failed", reason)
            spent = answer.facts.get("seconds", 0.0)
            self.seconds += spent if isinstance(spent, float) and 0 <= spent < float("inf") else 0.0
            return answer.tree()
        except FedkinError as error:
            return Failure("unusable", f"its reply was refused: {error}")


# The roster of sites.


NOWHERE = 0
"""Node of a site that took part and has not come back."""


@dataclass(frozen=True)
class Member:
    """A site as the server knows it, from its introduction.

    Names are stable, and ids of sites are in order of them. `identity` is a token that distinguishes this site from
    another of the same name. `features` are a table's columns; these and `classes` may be empty. `key` is the public
    key that Flower authenticates its node with, as OpenSSH writes it, where the site says that it keeps it; else empty:
    a node without authentication has a new key whenever it starts. `node` is Flower's number of the node that it is
    reached by now, or `NOWHERE`.
    """

    name: str
    identity: str
    features: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    key: str = ""
    node: int = NOWHERE


def introduced(reply: Message, node: int, key: str) -> Member:
    """Return the member that a site's introduction describes, see `fedkin.engines.site.Site.introduction`.

    `node` is Flower's number of the node that was asked, and `key` the node's public key as Flower knows it, see
    `Member.key`. Raises FedkinError if it is no introduction.
    """
    if reply.has_error():
        raise FedkinError(f"Node {node} did not introduce itself (code {reply.error.code}).")
    answer = read(reply.content)
    if refusal := answer.text("refusal"):
        raise FedkinError(f"Node {node}: {in_one_line(refusal, 300)}")  # a line of the log
    try:
        member = Member(**answer.tree())
        sound = isinstance(member.features, list) and isinstance(member.classes, list)
        sound = sound and all(map(is_text, (*member.features, *member.classes, member.key)))
        sound = sound and is_name(member.name) and is_name(member.identity)
    except TypeError:
        sound = False
    if not sound:
        raise FedkinError(f"Node {node} does not introduce itself as sites of fedkin do.")
    return replace(member, node=node, key=key if member.key == key else "")


class Roster:
    """Sites of a federation, which introduce themselves when they appear and after a restart.

    A node has one seat. The first site of a name keeps the name, and may come back under another node number of
    Flower's; if it came with a key of its own, only with that key.

    `identities` has that of each site that took part before, by name, where a run is resumed, and `keys` their
    `Member.key`; no other site is admitted then. `listed` are the only sites that are admitted, by name, with the key
    of each node as OpenSSH writes it, or an empty text where any key will do; if there are none, any site is admitted.
    Sites that are `forgotten` are asked for nothing and not waited for, and keep their names. `report` is given a
    sentence whenever something changes: which sites are connected, and which are refused and why. `labels` says whether
    sites send the names of their classes.

    `members` are by name, including those that are not connected now. `refused` has a sentence about every node that
    was refused; the writer of records empties the list.
    """

    def __init__(
        self,
        grid: Grid,
        identities: Mapping[str, str] | None = None,
        report: Callable[[str], None] = lambda text: None,
        labels: bool = True,
        keys: Mapping[str, str] | None = None,
        listed: Mapping[str, str] | None = None,
        forgotten: Collection[str] = (),
    ) -> None:
        self.grid, self.known, self.report, self.labels = grid, dict(identities or {}), report, labels
        self.keys, self.listed = dict(keys or {}), dict(listed or {})
        self.forgotten = set(forgotten)
        self.members: dict[str, Member] = {}
        self.refused: list[str] = []
        self._greeted: dict[int, str] = {}
        self._asked: dict[str, int] = {}

    def greet(self) -> list[Member]:
        """Ask new nodes to introduce themselves; return the sites that have done so since the last call."""
        nodes = connected_nodes(self.grid)
        for number in [number for number, started in self._greeted.items() if not started and number not in nodes]:
            del self._greeted[number]  # Flower before 1.38 does not say whether it was started anew when it is back
        new = [number for number, node in nodes.items() if self._greeted.get(number) != node.started]
        if new:
            hello = {
                node: Message(content(kind=HELLO, labels=int(self.labels)), node, TYPE, group_id="hello")
                for node in new
            }
            self._asked |= push(self.grid, hello)
            self._greeted |= {node: nodes[node].started for node in new}
        came = []
        for reply in self.grid.pull_messages(list(self._asked)) if self._asked else ():
            node = self._asked.pop(reply.metadata.reply_to_message_id)
            # Flower's code for a node that cannot be reached: it lists a killed node until it misses its heartbeat.
            if reply.has_error() and reply.error.code == 5:
                self.report(f"Node {node} is not there any more, as after a site was killed; it is left alone")
                continue
            key = public_text(nodes[node].key) if node in nodes else ""
            try:
                member = introduced(reply, node, key)
            except FedkinError as error:
                self._refuse(str(error), NOWHERE)
                continue
            if (reason := self._objection(member, key)) is not None:
                self._refuse(reason, node)
                continue
            self.members[member.name] = member
            came.append(member)
        return came

    def _objection(self, member: Member, node_key: str) -> str | None:
        """Return why a site does not get the seat of its name; ``None`` if it does.

        That is if it is not listed with its node's key, its name is another site's, its node, folder or key has a seat
        under another name, or the run began without it.
        """
        name = member.name
        if self.listed and name not in self.listed:
            return f"Site '{name}' is not among the clients that this run's [federation] lists."
        if self.listed.get(name, "") not in ("", node_key):
            return f"Site '{name}' has another key than 'federation.keys' lists for it."
        identities = self.known | {peer.name: peer.identity for peer in self.members.values()}
        keys = self.keys | {peer.name: peer.key for peer in self.members.values() if peer.key}
        for other, identity in identities.items():
            if other == name:
                continue
            peer = self.members.get(other)
            if peer is not None and peer.node == member.node != NOWHERE:
                return f"Node {peer.node} is site '{other}' and cannot be '{name}' too; a node has one name."
            if identity == member.identity:
                return f"Site '{name}' has the private folder of site '{other}'; every site needs one of its own."
            if member.key and keys.get(other) == member.key:
                return f"Site '{name}' has the key of site '{other}'; a key has one name in a run."
        if self.known and name not in self.known:
            return f"The run began without site '{name}', so it cannot take part now."
        if identities.get(name, member.identity) != member.identity:
            return f"Another site is called '{name}' already; every site needs a name of its own."
        if keys.get(name) and keys[name] != member.key:
            return (
                f"A node with another key says that it is site '{name}'; the name stays with the key that it had first."
            )
        return None

    def _refuse(self, reason: str, node: int) -> None:
        """Report a refusal, and tell the node, unless it is `NOWHERE`: one that has not introduced itself knows why."""
        self.report(f"Refused: {reason}")
        if node != NOWHERE:
            push(self.grid, {node: Message(content(kind=REFUSED, reason=reason), node, TYPE, group_id="refused")})
        if reason not in self.refused and len(self.refused) < 100:  # nodes may go on forever; the log has all
            self.refused.append(reason)

    def gather(self, count: int, patience: float) -> list[Member]:
        """Wait until `count` sites are connected; return them in order of name.

        `count` is at least 1, with those that are forgotten, which are not waited for; `patience` is the maximum of
        seconds.

        No other site is admitted from then on. A resumed run needs a single site once patience is
        over; the others are missing until they come back. Raises FedkinError if they are not connected in time.
        """
        begun = list(self.known or self.listed)[:count]
        forgotten = self.forgotten.intersection(begun) if begun else self.forgotten
        end, last, enough = time.monotonic() + patience, "", max(1, count - len(forgotten))
        reported = 0.0
        while True:
            self.greet()
            names = sorted(self.members.keys() - self.forgotten)
            expected = max(enough, len(self.known.keys() - self.forgotten))
            state = f"{min(len(names), expected)} of {expected} sites are there: {', '.join(names) or 'none yet'}"
            if absent := ", ".join(sorted(self.listed.keys() - self.members.keys() - self.forgotten)):
                state += f"; not there yet: {absent}"
            if state != last or time.monotonic() - reported > _REPORT_EVERY:
                self.report(state)
                last, reported = state, time.monotonic()
            if len(names) >= enough:
                break
            if time.monotonic() > end:
                if self.known and names:
                    break
                raise FedkinError(f"After {patience:g} seconds {state}.")
            time.sleep(0.5)
        seats = max(count, len(self.known))
        # Who took part before keeps a seat.
        seated = sorted(self.members, key=lambda name: (name not in self.known, name))[:seats]
        present = {name: self.members[name] for name in seated}
        away = {
            name: Member(name, identity, key=self.keys.get(name, ""))
            for name, identity in self.known.items()
            if name not in present
        }
        self.members = dict(sorted((present | away).items()))
        self.known = {name: member.identity for name, member in self.members.items()}
        self.keys = {name: member.key for name, member in self.members.items()}
        return list(self.members.values())
