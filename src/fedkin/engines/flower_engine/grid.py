"""Federation over Flower: clients are nodes of a Flower grid, simulated or real."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flwr.app import Message

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.payload import owned, to_bytes
from fedkin.core.replies import Failure
from fedkin.engines.flower_engine.roster import NOWHERE, Roster
from fedkin.engines.flower_engine.transport import KEEP, TASK, TYPE, content, in_one_line, poll, push, read
from fedkin.engines.site import Request, WatchedSites

_LOOK_EVERY = 5.0
"""Seconds between two checks whether a client that owes a reply was restarted."""
_REPORT_EVERY = 30.0
"""Seconds without a reply after which the server reports the clients it waits for, and between two reports."""
_RETRY, _LONGEST_RETRY = 3.0, 60.0
"""Seconds before a client that the run cannot continue without is asked again, at first and at most."""


class FlowerFederation(Federation):
    """Federation whose clients are reached over a Flower grid.

    A client that was killed and restarted while it owed a reply is asked again, with its memory as it was before the
    exchange. A client that stays away is missing once Flower gives it up, after a minute or less, or after `timeout`.

    An exchange that does not need all replies ends once a `quorum` of clients has replied. A reply that comes later is
    refused, or counts in the next exchange of the same task, for which its client is not asked again, if `counts_late`.

    The members of the `roster` are the clients, with ids in order of their names, or in that of `order`, where a run is
    resumed. `run` is the token of the run, hexadecimal; `timeout` is in seconds; `classes` are in the order of their
    numbers, the same at all clients. `watched` are the clients, if they run on this machine. `on_progress` is called
    with (clients done, clients asked) during an exchange. So many `newcomers` may still join; they have the ids
    after `order`. `quorum` is a fraction of the clients asked, in (0, 1]. `names` are those of the sites, in order of
    id; a free seat has a name that no site has. `common` are as of `Federation`.
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
        newcomers: int = 0,
        quorum: float = 1.0,
        counts_late: bool = False,
        **common: Any,
    ) -> None:
        taken = list(order) or sorted(roster.members)
        seats = range(len(taken) + newcomers)
        super().__init__(seats, seed, free=seats[len(taken) :], **common)
        self.watched = watched
        self.clients = watched.clients if watched else {}
        self.names = [*taken, *(f"free seat {seat + 1}" for seat in range(newcomers))]
        self.client_names = common.get("names", self.names)
        self._taken, self.quorum, self.counts_late = len(taken), quorum, counts_late
        self._late: dict[str, tuple[int, str]] = {}
        self._left: set[str] = set()
        self.roster, self.grid, self.run = roster, roster.grid, run
        self.refused = roster.refused
        self.timeout, self.classes, self.on_progress = timeout, list(classes), on_progress

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        request = Request(self.run, 0, self.seed, self.exchange, self.settled, task.name, self.classes)
        uses = Counter(id(payload) for payload in payloads.values())
        shared = {id(payload): payload for payload in payloads.values() if uses[id(payload)] > 1}
        packed = {number: to_bytes(owned(payload)) for number, payload in shared.items()}  # once

        def message(client: int) -> Message:
            facts = {"kind": TASK, "request": replace(request, client=client).to_json()}
            content = packed.get(id(payloads[client])) or to_bytes(owned(payloads[client]))
            return self._message(client, content, facts)

        ready: dict[int, Payload | str] = {}
        waiting = sorted(payloads)
        for count, (client, reply) in enumerate(self._exchanged(sorted(payloads), message, task.name), 1):
            ready[client] = reply
            if self.on_progress:
                self.on_progress(count, len(payloads))
            while waiting and waiting[0] in ready:
                yield waiting[0], ready.pop(waiting.pop(0))

    def conclude(self, results: Mapping[int, Payload]) -> dict[int, str]:
        """Have clients save their part of the result; return the clients that did not, and why."""
        request = Request(self.run, 0, self.seed, self.exchange + 1, self.settled, "", self.classes)

        def message(client: int) -> Message:
            facts = {"kind": KEEP, "request": replace(request, client=client).to_json()}
            return self._message(client, to_bytes(owned(results[client])), facts)

        replies = self._exchanged(sorted(results), message)
        return {client: reply for client, reply in sorted(replies, key=lambda item: item[0]) if isinstance(reply, str)}

    def arrived(self) -> list[int]:
        """Assign seats to sites that have joined, and return the ids of those that do not take part yet."""
        self.roster.greet()
        taken = set(self.seats)
        for name in self.roster.members:
            if name not in taken:
                self.names[self._taken] = name
                self._taken += 1
        return [i for i in sorted(self.participation.free) if i < self._taken]

    @property
    def seats(self) -> list[str]:
        """Names of the sites that have a seat, in order of id."""
        return self.names[: self._taken]

    def refresh(self) -> None:
        """Load the clients' states from disk, where this process can read them."""
        if self.watched:
            self.watched.refresh()

    def pause(self, attempt: int) -> None:
        """Wait for clients to come back, and report it; simulated clients are never away."""
        if self.watched is None:
            seconds = min(_LONGEST_RETRY, _RETRY * 2**attempt)
            reasons = "; ".join(f"{self.names[client]}: {reason}" for client, reason in self.missing.items())
            self.roster.report(f"Asking again in {seconds:g} s ({reasons or 'without a reason'})")
            time.sleep(seconds)

    def _message(self, client: int, payload: bytes, facts: Mapping[str, str]) -> Message:
        node = self.roster.members[self.names[client]].node
        return Message(content(payload, **facts), node, TYPE, ttl=self.timeout, group_id=str(self.exchange))

    def _exchanged(
        self, clients: Sequence[int], message: Callable[[int], Message], task: str = ""
    ) -> Iterator[tuple[int, Payload | str]]:
        """Send each client its message, and yield (client, reply or reason) as replies arrive."""
        self.roster.greet()
        self._report_changes()
        late, self._late = self._late, {}
        owing = {number: client for number, (client, name) in late.items() if name == task and client in clients}
        owing = owing if self.counts_late and not self.needs_all else {}
        for client in clients:
            if client in owing.values():
                continue
            sent = self._push(client, message)
            owing |= sent
            if not sent:
                yield client, "not connected"
        began = reported = looked = time.monotonic()

        def between(arrived: bool) -> None:
            """Report now and then which clients the server waits for, and look for restarted clients."""
            nonlocal reported, looked
            clock = time.monotonic()
            silent = clock - reported > _REPORT_EVERY
            if silent and not arrived:
                names = ", ".join(self.names[client] for client in sorted(owing.values()))
                self.roster.report(f"Waiting for {names}, for {clock - began:.0f} s so far")
            if silent or arrived:
                reported = clock
            if clock - looked > _LOOK_EVERY:
                looked = clock
                self._ask_again(owing, message)

        used, enough = 0, len(clients) if self.needs_all or not task else math.ceil(self.quorum * len(clients))
        for client, reply in poll(self.grid, owing, self.timeout, between):
            answer = self._read(reply)
            used += not isinstance(answer, str)
            yield client, answer
            if used >= enough:
                break
        if used < enough or not owing:
            yield from ((client, f"no reply in {self.timeout:g} seconds") for client in owing.values())
            return
        self._late = {number: (client, task) for number, client in owing.items()}
        yield from ((client, f"late: {used} of {len(clients)} had replied") for client in owing.values())

    def _report_changes(self) -> None:
        """Report which sites have left since the last exchange, and which are back."""
        connected, seated = self.roster.there(), set(self.seats) - self.roster.forgotten
        away = seated - connected
        changed = [(name, "has left") for name in away - self._left] + [(name, "is back") for name in self._left - away]
        for name, word in sorted(changed):
            self.roster.report(f"Site '{name}' {word}; {len(seated & connected)} of {len(seated)} are there")
        self._left = away

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
                kind = answer.facts.get("failure")
                return Failure("refused" if kind == "refused" else "failed" if kind == "failed" else "declined", reason)
            spent = answer.facts.get("seconds", 0.0)
            self.seconds += spent if isinstance(spent, float) and 0 <= spent < float("inf") else 0.0
            return answer.tree()
        except FedkinError as error:
            return Failure("unusable", f"its reply was refused: {error}")
