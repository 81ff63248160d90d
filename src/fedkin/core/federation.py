"""Federation: the only interface through which methods reach clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError
from fedkin.core.payload import Expected, Failure, Payload, failure_kind, lasts, payload_bytes
from fedkin.core.seeds import derive_generator
from fedkin.core.tasks import Task

MAX_ATTEMPTS = 20
"""Attempts at an exchange, or at a step, that a run cannot continue without."""
_LEAST = ("least", "members", "min_members")  # questions call so the samples below which a client reports nothing

Wanted = Expected | Callable[[int], Expected]
"""What replies must contain, the same for all clients or a function of the client's id."""


V = TypeVar("V")
W = TypeVar("W")


class Replies(Mapping[int, V]):
    """Usable replies by client id, in order of id, or what is made of each.

    Attributes
    ----------
    missing : dict of int to str
        Clients that were asked and gave none, and why.
    """

    def __init__(self, values: Mapping[int, V], missing: Mapping[int, str]) -> None:
        self._values, self.missing = dict(values), dict(missing)

    def __getitem__(self, client: int) -> V:
        return self._values[client]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def each(self, name: str) -> list[Any]:
        """Return an entry of all replies, a plain number or a tensor each."""
        values: Iterable[Any] = self.values()
        return [reply[name] for reply in values]

    def cat(self, name: str) -> Tensor:
        """Return an entry of all replies, tensors that are joined along the first dimension."""
        return torch.cat(self.each(name))

    def owners(self, name: str) -> Tensor:
        """Return the client of each row of `cat`, int64."""
        sizes = torch.tensor([len(value) for value in self.each(name)])
        return torch.tensor(list(self), dtype=torch.int64).repeat_interleave(sizes)

    def map(self, function: Callable[[V], W]) -> Replies[W]:
        """Return the same with `function` of each value."""
        return Replies({client: function(value) for client, value in self.items()}, self.missing)


class ReplyStream(Iterator[tuple[V, Payload]]):
    """Usable replies as they come, (client, reply) in order of id, to hold few of them in memory at once.

    Attributes
    ----------
    missing : dict of int to str
        As of `Replies`; complete once the stream is exhausted, which must be before the next exchange begins.
    """

    def __init__(self, exchange: Callable[[dict[int, str]], Iterator[tuple[V, Payload]]]) -> None:
        self.missing: dict[int, str] = {}
        self._replies = exchange(self.missing)

    def __next__(self) -> tuple[V, Payload]:
        return next(self._replies)


def _is_refusal(reason: str) -> bool:
    return failure_kind(reason) == "refused"


class Federation(ABC):
    """Federation of clients: sends them tasks, counts every byte, and drops replies that cannot be used.

    An engine implements `deliver`; everything a method relies on is here, the same for every engine. Clients have
    stable `ids`, and `names` in messages, in order of id, if any. Every generator is derived from the run's `seed`.
    When others give no usable reply, a run goes on with at least `min_clients`, and `on_drop` is called with a sentence
    about every client that is dropped.

    Attributes
    ----------
    ids : list of int
        All clients, in order, so that everyone's position stays the same.
    joined : set of int
        Clients that take part, unless they are dropped. Nothing is sent to others, and an engine never hears of them.
    dropped : dict of int to str
        Clients that gave no usable reply when one was needed to go on, and why: they are out for the rest of the run.
        Part of a checkpoint.
    missing : dict of int to str
        Clients that gave no usable reply in the last exchange, and why.
    exchange : int
        Number of exchanges so far; part of a checkpoint, since clients' generators depend on it.
    settled : int
        The exchange after which the last checkpoint was written; a run never resumes before it.
    sent, received : int
        Bytes to and from clients, so far.
    seconds : float
        Computing time of all clients together, so far, where the engine measures it; no method may depend on it.
    refused : list of str
        A sentence about each node that was refused since the last record, which empties the list.
    requested, usable : int
        Requests made and usable replies received so far.
    by_task : dict of str to dict of str to int
        What clients were asked for so far, by the name of the task; for a secure sum that of the task whose replies are
        summed follows a colon. It has the number of "exchanges", the "bytes" of the largest reply and, where the
        question says below how many samples a client reports nothing, the "least" that was said. Part of a checkpoint.
    secure_sums : bool
        Whether methods may only learn sums over clients; set by `fedkin.secure_aggregation.sums.secure`.
    done : set of str
        Names of tasks that any client has done since this process began.
    keys : dict of int to dict
        Of clients that have been asked for it, the public ``key``, uint8 ``(32,)``, and where they sign, its ``signer``
        and ``signature``; part of a checkpoint.
    attempts, most_unusable : int
        Number of attempts at a client that gives no reply where all are needed, and at one whose replies are unusable.
    has_latecomers : bool
        Whether clients that are silent when all are needed may still take part later, rather than being dropped.
    clients : dict of int to Client
        The clients in this process, for the evaluator and the report only; empty where clients run elsewhere.
    """

    attempts: ClassVar[int] = MAX_ATTEMPTS
    most_unusable: ClassVar[int] = 5
    has_latecomers: ClassVar[bool] = False

    def __init__(
        self,
        ids: Sequence[int],
        seed: int = 0,
        *,
        names: Sequence[str] = (),
        min_clients: int = 2,
        on_drop: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.ids = sorted(ids)
        self.joined = set(self.ids)
        self.dropped: dict[int, str] = {}
        self.missing: dict[int, str] = {}
        self.client_names, self.min_clients, self.on_drop = names, min_clients, on_drop
        self.seed, self.exchange, self.settled = seed, 0, 0
        self.sent = self.received = 0
        self.seconds = 0.0
        self.requested = self.usable = 0
        self.secure_sums = False
        self.refused: list[str] = []
        self.keys: dict[int, Payload] = {}
        self.clients: Mapping[int, Client] = {}
        self.by_task: dict[str, dict[str, int]] = {}
        self.done: set[str] = set()

    @property
    def present(self) -> list[int]:
        """Ids of the clients that take part now, in order."""
        return [client for client in self.ids if client in self.joined and client not in self.dropped]

    def join(self, clients: Iterable[int]) -> None:
        """Have clients take part from now on."""
        self.joined.update(clients)

    def leave(self, clients: Iterable[int]) -> None:
        """Have clients take no part until they join."""
        self.joined.difference_update(clients)

    def ask(self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None) -> Replies[Payload]:
        """Send `task` to the clients in `payloads`, and return their replies by client id, in order of id.

        Clients that are not present, failed, timed out, or replied with NaN, infinities or anything that the task or
        `expected` does not allow are missing, and the replies say why.

        Raises
        ------
        FedkinError
            If everyone is asked and refuses for good, or a task that no client has done yet fails at all that are
            asked, most of those present, with the same kind of error.
        """
        stream = self.stream(task, payloads, expected)
        return Replies(dict(stream), stream.missing)

    def stream(self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None) -> ReplyStream[int]:
        """Do the same as `ask`, but return a stream of (client, reply)."""
        return ReplyStream(lambda missing: self._replies(task, payloads, expected, missing))

    def pools(
        self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None
    ) -> ReplyStream[list[int]]:
        """Do the same as `stream` for what is only added up: a stream of clients and one reply of them all together.

        Clients of one array are many in a pool, where the task has pools; any others are alone.
        """
        return ReplyStream(
            lambda missing: (([client], reply) for client, reply in self._replies(task, payloads, expected, missing))
        )

    def _replies(
        self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None, missing: dict[int, str]
    ) -> Iterator[tuple[int, Payload]]:
        """Yield usable replies, and put into `missing` who gave none."""
        exchange = Exchange(self, task, payloads, missing)
        for client, reply in self.deliver(task, exchange.requests):
            if isinstance(reply, str):
                missing[client] = reply
            elif exchange.takes([client], reply, expected):
                yield client, reply
        exchange.end()

    def sums(self) -> Any:
        """Return sums over the clients present, `fedkin.secure_aggregation.sums.ClientSums`, as the engine makes them.

        Plain ones in one process, where nobody is hidden from anybody; hidden ones between machines.
        """
        raise NotImplementedError(f"{type(self).__name__} makes no sums over clients.")

    def ask_again(
        self, task: Task, payloads: Mapping[int, Payload], attempts: int, expected: Wanted | None = None
    ) -> Replies[Payload]:
        """Send `task`, and send it again to clients without a usable reply, up to `attempts` times in all.

        A client that refuses for good is not asked again, nor, after five attempts, one whose reply is unusable. Of a
        task with pools, see `pools`, each reply is that of the first client in its pool; those in a pool without a
        usable reply are asked again one by one.
        """
        replies: dict[int, Payload] = {}
        given_up: dict[int, str] = {}
        waiting = dict(payloads)
        for attempt in range(attempts):
            if attempt:
                self.pause(attempt)
            if task.pool and not attempt:
                pools = self.pools(task, waiting, expected)
                answer = Replies({clients[0]: reply for clients, reply in pools}, pools.missing)
            else:
                answer = self.ask(task, waiting, expected)
            if not attempt and not answer.missing:
                return answer
            replies.update(answer)
            gives_up = lasts if attempt + 1 >= self.most_unusable else _is_refusal
            given_up |= {i: reason for i, reason in answer.missing.items() if gives_up(reason)}
            waiting = {i: payloads[i] for i in answer.missing if i not in given_up}
            if not waiting:
                break
        self.note_missing(given_up | {i: answer.missing[i] for i in waiting})
        return Replies(dict(sorted(replies.items())), self.missing)

    def note_missing(self, missing: Mapping[int, str]) -> None:
        """Set who gave no usable reply, and why, after what took several exchanges, such as a secure sum."""
        self.missing = dict(sorted(missing.items()))

    def ask_until_all_reply(
        self, task: Task, payload: Payload, clients: Iterable[int] | None = None, expected: Expected | None = None
    ) -> Replies[Payload]:
        """Send `task`, with the same payload, until every client has replied, for steps that need all of them.

        They are `clients` who are present, by default all. Those that give no usable reply are dropped. Raises
        FedkinError if fewer than `min_clients` gave one, or none of those asked.
        """
        everyone = self.present if clients is None else list(clients)
        replies = self.ask_again(task, dict.fromkeys(everyone, payload), self.attempts, expected)
        may_wait = self.has_latecomers and len(replies) > 0
        self.drop({i: reason for i, reason in replies.missing.items() if not may_wait or lasts(reason)})
        return replies

    def keep_majority(self, replies: Mapping[int, Payload], name: str = "shape") -> Replies[Payload]:
        """Return the replies that have the most common value of `name`; the other clients are dropped.

        Unless three clients and more than two thirds agree, all are returned: who is wrong is for the person at the
        keyboard to say.
        """
        replies = replies if isinstance(replies, Replies) else Replies(replies, {})
        values = Counter(map(str, replies.each(name)))
        common, count = values.most_common(1)[0] if values else ("", 0)
        if count == len(replies) or 3 * count <= 2 * len(replies) or count < max(3, self.min_clients):
            return replies
        odd = {i: reply[name] for i, reply in replies.items() if str(reply[name]) != common}
        self.drop({i: f"its {name} {value} is not the others' {common}" for i, value in odd.items()})
        return Replies({i: reply for i, reply in replies.items() if i not in odd}, replies.missing)

    def drop(self, reasons: Mapping[int, str]) -> None:
        """Go on without clients that gave no usable reply, for these reasons, for the rest of the run.

        Raises
        ------
        FedkinError
            If fewer than `min_clients` would remain, with the reason of the first.
        """
        if reasons and not self.can_spare(reasons):
            client, reason = next(iter(reasons.items()))
            how = "refuses" if _is_refusal(reason) else "gave no usable reply"
            raise FedkinError(f"{self.client_label(client)} {how}, and too few clients remain without it: {reason}")
        self.dropped |= {i: str(reason) for i, reason in reasons.items()}
        for client, reason in reasons.items():
            self.on_drop(f"{self.client_label(client)} is left out of the run: {reason.removesuffix('.')}.")

    def can_spare(self, clients: Collection[int]) -> bool:
        """Return whether the run can go on without these clients, with at least `min_clients` others."""
        remaining = [i for i in self.present if i not in clients]
        return len(remaining) >= min(self.min_clients, len(self.present))

    def client_label(self, client: int) -> str:
        """Return the client's name, or "Client" and its id if it has none, as the beginning of a sentence."""
        name = self.client_names[client] if client < len(self.client_names) else str(client)
        return f"Client {name.removeprefix('Client ')}"

    def refresh(self) -> None:  # noqa: B027
        """Update `clients`, where they are copies of clients that run elsewhere."""

    def pause(self, attempt: int) -> None:  # noqa: B027
        """Wait, if the engine does, before silent clients are asked again for the `attempt`-th time."""

    def all(self, **payload: object) -> dict[int, Payload]:
        """Return the same payload for every client present, shared by reference inside a process."""
        return dict.fromkeys(self.present, payload)

    def rng(self, *path: int | str) -> torch.Generator:
        """Return the server's generator for `path`, the names of a purpose and a step."""
        return derive_generator(self.seed, "server", *path)

    def tree(self) -> dict[str, Any]:
        """Return what a run needs of the federation to resume, by name in a checkpoint."""
        return {
            "exchange": self.exchange,
            "sent": self.sent,
            "received": self.received,
            "keys": {str(client): dict(key) for client, key in self.keys.items()},
            "left_out": {str(client): reason for client, reason in self.dropped.items()},
            "by_task": {task: dict(counts) for task, counts in self.by_task.items()},
        }

    def restore(self, tree: Mapping[str, Any]) -> None:
        """Go on from the `tree` of a checkpoint, whose tensors are taken over."""
        self.exchange = self.settled = tree["exchange"]
        self.sent, self.received = tree["sent"], tree["received"]
        self.keys = {int(client): key for client, key in tree["keys"].items()}
        self.dropped = {int(client): reason for client, reason in tree.get("left_out", {}).items()}
        self.by_task = {task: dict(counts) for task, counts in tree.get("by_task", {}).items()}

    @abstractmethod
    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterable[tuple[int, Payload | str]]:
        """Carry out one exchange: yield (client, reply) in order of id.

        For a client that failed, the reply is a `Failure`; a mere text is the reason of one that is absent.
        """


class Exchange:
    """One exchange of a federation: counts what crosses, judges replies, and ends a run that nobody can go on with.

    Its `requests` are the payloads of the clients that are present; all that were to be asked are `missing`, with the
    reason, until they reply.
    """

    def __init__(self, fed: Federation, task: Task, payloads: Mapping[int, Payload], missing: dict[int, str]) -> None:
        if not isinstance(task, Task):
            name = getattr(task, "__name__", type(task).__name__)
            raise FedkinError(f"Clients are asked for {name}, which is no task; decorate it with @client_task.")
        self.fed, self.task, self.missing = fed, task, missing
        fed.exchange += 1
        fed.missing = {}
        present = set(fed.present)
        self.requests = {client: payload for client, payload in payloads.items() if client in present}
        shared = {id(payload): payload for payload in self.requests.values()}
        try:  # one that clients share by reference is measured once
            sizes = {number: payload_bytes(payload) for number, payload in shared.items()}
        except FedkinError as error:
            raise FedkinError(f"Clients cannot be sent what task '{task.name}' is asked with: {error}") from error
        fed.sent += sum(sizes[id(payload)] for payload in self.requests.values())
        fed.requested += len(self.requests)
        question = next(iter(self.requests.values()), {})
        summed = question.get("task")
        self.counts = fed.by_task.setdefault(f"{task.name}:{summed}" if isinstance(summed, str) else task.name, {})
        self.counts["exchanges"] = self.counts.get("exchanges", 0) + 1
        for least in (question.get(name) for name in _LEAST):
            if type(least) is int:
                self.counts["least"] = min(least, self.counts.get("least", least))
        missing.update((i, "no reply" if i in self.requests else "not there yet") for i in sorted(payloads))

    def takes(self, clients: Sequence[int], reply: Payload, expected: Wanted | None) -> bool:
        """Return whether a reply can be used, which these clients gave together; if not, they are missing."""
        try:
            size = payload_bytes(reply)
            self.count(size * len(clients), size if reply else 0)
            fault = self.task.refusal(reply, expected(clients[0]) if callable(expected) else expected)
        except Exception as error:
            reason = str(error) if isinstance(error, FedkinError) else type(error).__name__
            fault = Failure("unusable", f"its reply cannot be read ({reason.removesuffix('.')})")
        if fault is None:
            self.take(clients)
            return True
        self.missing |= dict.fromkeys(clients, fault if len(clients) == 1 else Failure("unsummed", fault))
        return False

    def count(self, size: int, largest: int) -> None:
        """Count the bytes of replies, and of the largest of them."""
        self.fed.received += size
        self.counts["bytes"] = max(self.counts.get("bytes", 0), largest)

    def take(self, clients: Sequence[int]) -> None:
        """Note that these clients' replies are used."""
        for client in clients:
            del self.missing[client]
        self.fed.usable += len(clients)
        if clients:
            self.fed.done.add(self.task.name)

    def end(self) -> None:
        """End the exchange; raise FedkinError if all refuse for good, or the task itself is at fault."""
        fed, missing = self.fed, self.missing
        fed.note_missing(missing)
        refusals = list(filter(_is_refusal, missing.values()))
        if refusals and len(refusals) == len(fed.present):
            raise FedkinError(refusals[0])
        # A task that nobody has ever done and that fails everywhere in the same way has a fault of its own. A few
        # that lie cannot end a run: nothing is said of fewer clients than two, or than half of those present.
        is_most = len(missing) >= 2 and 2 * len(missing) > len(fed.present)
        if self.task.name not in fed.done and is_most and len(reasons := set(missing.values())) == 1:
            (reason,) = reasons
            if failure_kind(reason) == "failed":
                raise FedkinError(
                    f"Task '{self.task.name}' failed at all {len(missing)} clients asked: {reason.removesuffix('.')}."
                )
