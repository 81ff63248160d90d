"""Local engine: all clients in this process, one worker thread per core."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import cache, partial
from itertools import islice
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, Task
from fedkin.core.client_array import ArrayReplies, Block, ClientArray, PerClient, single
from fedkin.core.device import on
from fedkin.core.federation import Exchange, Replies, ReplyStream, Wanted
from fedkin.core.payload import Expected, Failure, extremes, payload_bytes
from fedkin.core.seeds import derive_generator, derive_seeds
from fedkin.core.tasks import BlockFunction, run_task
from fedkin.secure_aggregation.sums import ClientSums

C = TypeVar("C")
R = TypeVar("R")


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict torch to one thread inside the context: on small tensors more threads cost more than they gain."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def keep_freed_memory() -> None:
    """Make the C library keep freed memory for reuse, where it is glibc.

    By default it hands the megabyte of a batch's activations back to the system and fetches it again at every step;
    the page faults cost small convolutional networks a good part of their time. It cannot be undone: only processes
    call it that are fedkin's own, such as those of the command line, and `fit` leaves its user's process as it is.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "gnu_get_libc_version"):
            trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # numbers of <malloc.h>
            library.mallopt(mmap_threshold, 32 << 20)  # the most it takes
            library.mallopt(trim_threshold, 512 << 20)
            library.mallopt(top_pad, 16 << 20)


def give_back_memory() -> None:
    """Return the memory that `keep_freed_memory` has kept to the system, as between two runs in one process."""
    gc.collect()
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)


class LocalFederation(Federation):
    """Federation of clients in this process, whose networks compute on the device of the thread that makes it.

    Clients are handed to a task a few at a time, so that their models train as small stacks, and chunks run on
    one single-threaded worker per core: with models this small, torch's own threads cost more than they give.

    `seconds` sums the processor time that workers spend inside tasks, a chunk's once for all clients in it. Waiting
    for other threads does not count, nor does the work of threads that a library starts by itself.

    Parameters
    ----------
    clients : sequence of Client, or ClientArray
        The clients; ids must be unique. Those of one array are asked a block at a time, where a task can do so; what
        they reply then may differ in the last digits.
    seed : int
        Seed of the run.
    chunk : int, optional
        Clients per call of a task; by default at least two, and as many as take some milliseconds, since each call
        has a fixed cost; on an accelerator 128, if their models can train together, or else one. The result does not
        depend on it, on an accelerator up to rounding.
    workers : int, optional
        Worker threads; by default one per available core, on an accelerator at most four. By default one thread works
        where that is as fast, which is tried when a task comes for the second time: with small networks threads mostly
        wait for Python's lock.
    drop_rate, failures : float, iterable of (int, int)
        Probability, in [0, 1), that a client is lost for one exchange, and pairs (exchange, client) that are lost on
        purpose; exchanges count from 1. For tests and studies.
    on_progress : callable, optional
        Called with (clients done, clients asked) during an exchange.
    device : torch.device, optional
        What tasks compute on; by default the processor.
    **common
        As of `Federation`.
    """

    def __init__(
        self,
        clients: Sequence[Client] | ClientArray,
        seed: int = 0,
        chunk: int | None = None,
        workers: int | None = None,
        drop_rate: float = 0.0,
        failures: Iterable[tuple[int, int]] = (),
        on_progress: Callable[[int, int], None] | None = None,
        device: torch.device | None = None,
        **common: Any,
    ) -> None:
        by_id = clients if isinstance(clients, ClientArray) else {client.id: client for client in clients}
        if len(by_id) != len(clients):
            raise ValueError("Two clients have the same id.")
        super().__init__(list(by_id), seed, **common)
        self.clients = by_id
        self.device = device or torch.device("cpu")
        self.chunk = chunk
        self.workers = workers or (cores() if self.device.type == "cpu" else min(cores(), 4))
        # One pool for all exchanges: new threads would fault all their memory in again.
        threads = 1 if self.device.type == "cpu" else torch.get_num_threads()
        self._pool = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(threads,))
        self._clock = Lock()
        self._paces: dict[str, _Pace] = {}
        self._try_one_thread = workers is None and self.device.type == "cpu"
        self.drop_rate = drop_rate
        self.on_progress = on_progress
        self.failures = {(int(exchange), int(client)) for exchange, client in failures}

    def ask(self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None) -> Replies[Payload]:
        is_array = isinstance(self.clients, ClientArray)
        if is_array and task.block and not callable(expected) and (shared := shared_payload(payloads)) is not None:
            return ArrayExchange(self, task, payloads, {}, shared).ask(task.block, expected)
        return super().ask(task, payloads, expected)

    def pools(
        self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None
    ) -> ReplyStream[list[int]]:
        if isinstance(self.clients, ClientArray) and task.pool and (shared := shared_payload(payloads)) is not None:
            pool = task.pool
            return ReplyStream(
                lambda missing: ArrayExchange(self, task, payloads, missing, shared).pools(pool, expected)
            )
        return super().pools(task, payloads, expected)

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        clients = sorted(payloads)
        _check(task, payloads.values())
        lost = {i for i in clients if self.is_lost(i)}
        present = [i for i in clients if i not in lost]
        pace = self._paces.setdefault(task.name, _Pace(self._chunk(task), self.workers, self._try_one_thread))
        pace.begin(len(present))
        seeds = dict(zip(present, derive_seeds(self.seed, "client", np.array(present), self.exchange), strict=True))

        def work(ids: list[int]) -> list[Payload]:
            members = [self.clients[i] for i in ids]
            for i, client in zip(ids, members, strict=True):
                client.rng = torch.Generator().manual_seed(seeds[i])
                client.noise = client.rng
                client.secret = partial(self._secret, i)
            spent = -time.thread_time()
            with nullcontext() if self.device.type == "cpu" else on(self.device):
                replies = run_task(task, members, [payloads[i] for i in ids])
            if isinstance(self.clients, ClientArray):
                for client in members:
                    self.clients.keep_of(client)
            spent += time.thread_time()
            with self._clock:
                self.seconds += spent
                pace.learn(len(ids), spent)  # and not the clock's time, which grows with what else runs here
            return replies

        yield from ((i, "lost on purpose") for i in sorted(lost))
        replied = len(lost)
        for ids, replies in self.in_order(work, pace.chunks(present), pace):
            yield from zip(ids, replies, strict=True)
            pace.replied(len(ids))
            replied += len(ids)
            if self.on_progress:
                self.on_progress(replied, len(clients))

    def in_order(self, work: Callable[[C], R], chunks: Iterator[C], pace: _Pace | None = None) -> Iterator[tuple[C, R]]:
        """Yield chunks of clients with what `work` makes of each, in order; few are computed before they are read."""
        waiting: deque[tuple[C, Future[R]]] = deque()
        with one_thread() if self.device.type == "cpu" else nullcontext():
            try:
                while True:
                    # With one thread at work none may wait, as another would take it up.
                    most = 1 if pace and pace.workers == 1 else 2 * self.workers
                    waiting.extend(
                        (chunk, self._pool.submit(copy_context().run, work, chunk))
                        for chunk in islice(chunks, max(0, most - len(waiting)))
                    )
                    if not waiting:
                        return
                    chunk, future = waiting.popleft()
                    yield chunk, future.result()
            finally:
                # What has begun must end here: it would go on changing clients while they are asked the next time.
                wait([future for _, future in waiting if not future.cancel()])

    def sums(self) -> ClientSums:
        """Return plain sums over the clients present."""
        return ClientSums(self)

    def _chunk(self, task: Task) -> int | None:
        if self.chunk is not None or self.device.type == "cpu":
            return self.chunk
        return 1 if task.one_by_one else 128  # whose models take about as long for a step as one

    def _secret(self, client: int, count: int) -> bytes:
        rng = derive_generator(self.seed, "secret", client, self.exchange)
        return bytes(torch.randint(256, (count,), generator=rng).tolist())

    def is_lost(self, client: int) -> bool:
        if (self.exchange, client) in self.failures:
            return True
        if self.drop_rate == 0.0:
            return False
        chance = torch.rand((), generator=derive_generator(self.seed, "drop", client, self.exchange))
        return bool(chance < self.drop_rate)


def _check(task: Task, payloads: Iterable[Payload]) -> None:
    """Check that payloads are what the task takes; a payload that clients share is checked once."""
    for payload in {id(payload): payload for payload in payloads}.values():
        if (reason := task.objection(payload)) is not None:
            raise FedkinError(f"Clients refuse task '{task.name}': {reason}.")


class _Pace:
    """Scheduler of a task: how many clients a call gets, `fixed` or by the time they take, and how many threads work.

    In the second exchange, when all is loaded, a tenth of the clients is asked by one thread and the others by all. One
    thread goes on if others hardly help: small networks mostly wait for Python's lock, which takes processor time.
    """

    fewest, most, seconds = 2, 64, 0.02  # that small models train as stacks; the seconds that a call should take

    def __init__(self, fixed: int | None, workers: int, try_one_thread: bool) -> None:
        self.fixed, self.workers, self._all = fixed, workers, workers
        self.size = fixed or self.fewest
        self._trial, self._exchanges, self._clients, self._replied = try_one_thread and workers > 1, 0, 0, 0
        self._spent = {1: (0, 0.0), workers: (0, 0.0)}  # clients and seconds of the second exchange, by threads

    def begin(self, clients: int) -> None:
        """Begin an exchange with so many clients."""
        self._exchanges += 1
        self._clients, self._replied = clients, 0
        if self._trial and self._exchanges == 2:
            self.workers, self._spent = 1, dict.fromkeys(self._spent, (0, 0.0))

    def chunks(self, clients: Sequence[int]) -> Iterator[list[int]]:
        """Yield `clients` in chunks of the current size; the last chunks are small, so that workers end together."""
        start = 0
        while start < len(clients):
            fair = max(
                self.fewest, (len(clients) - start) // (2 * self.workers)
            )  # no worker ends long after the others
            size = self.fixed or min(self.size, fair)
            yield list(clients[start : start + size])
            start += size

    def learn(self, count: int, seconds: float) -> None:
        """Adapt the size of chunks to the processor seconds that a call took for `count` clients."""
        self.size = max(self.fewest, min(self.most, int(count * self.seconds / max(seconds, 1e-6))))
        clients, spent = self._spent[self.workers]
        self._spent[self.workers] = clients + count, spent + seconds

    def replied(self, count: int) -> None:
        """Count clients that have replied, and choose the number of threads where that is tried."""
        self._replied += count
        if not self._trial or self._exchanges < 2:
            return
        if self.workers == 1 and self._replied >= self._clients / 10:
            self.workers = self._all
        if self._replied == self._clients:
            self._trial = False
            (alone, spent_alone), (together, spent) = self._spent[1], self._spent[self._all]
            # Beside it threads wait: with .8 as much processor time for each of n clients, n threads are no faster.
            if alone and together and spent / together > 0.8 * self._all * spent_alone / alone:
                self.workers = 1


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Exchange with clients of one array: a task does them a block at a time, and no reply is made for any of them.


_DECLINED = Failure("failed", "its privacy budget allows it to send nothing")


def shared_payload(payloads: Mapping[int, Payload]) -> Payload | None:
    """Return the payload that all clients share; ``None`` if there is none."""
    first = next(iter(payloads.values()), None)
    return first if all(payload is first for payload in payloads.values()) else None


class ArrayExchange(Exchange):
    """One exchange of a local federation with clients of one array, all sent the same payload."""

    fed: LocalFederation

    def __init__(
        self,
        fed: LocalFederation,
        task: Task,
        payloads: Mapping[int, Payload],
        missing: dict[int, str],
        shared: Payload,
    ) -> None:
        super().__init__(fed, task, payloads, missing)
        _check(task, [shared])
        self.payload, self.clients = shared, cast("ClientArray", fed.clients)
        missing |= {client: "lost on purpose" for client in self.requests if fed.is_lost(client)}
        present = [client for client in sorted(self.requests) if missing[client] == "no reply"]
        self.ids = torch.tensor(present, dtype=torch.int64)

    def ask(self, run: BlockFunction, expected: Expected | None) -> Replies[Payload]:
        """Return the usable replies."""
        parts = [self._usable(*replied, expected) for replied in self._replied(run)]
        self.end()
        return ArrayReplies.join(parts, self.fed.missing)

    def pools(self, run: BlockFunction, expected: Wanted | None) -> Iterator[tuple[list[int], Payload]]:
        """Yield the clients of each block with their common reply."""
        for ids, reply in self._replied(run):
            if self.takes(clients := ids.tolist(), reply, expected):
                yield clients, reply
        self.end()

    def _replied(self, run: BlockFunction) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """Yield the clients of each block that reply, and the entries of their replies."""

        def work(block: Block) -> tuple[dict[str, Any], float]:
            began = time.thread_time()
            block.rows = self.clients.encode(block.rows)
            entries = dict(run(block, self.payload))
            return entries, time.thread_time() - began

        seeds = derive_seeds(self.fed.seed, "client", self.ids.numpy(), self.fed.exchange)
        replied = 0
        # With 64 numbers in each row 4 MB, which two cores' caches about hold beside what is computed of them.
        blocks = self.clients.blocks(self.ids, seeds, rows=2**14)
        for block, (entries, seconds) in self.fed.in_order(work, blocks):
            self.fed.seconds += seconds
            replied += len(block)
            if self.fed.on_progress:
                self.fed.on_progress(replied, len(self.ids))
            self.missing |= dict.fromkeys(block.ids[block.declined].tolist(), _DECLINED)
            if not block.declined.all():
                yield block.ids[~block.declined], entries

    def _usable(self, ids: Tensor, entries: dict[str, Any], expected: Expected | None) -> ArrayReplies:
        """Count and check the replies of a block; return the usable ones."""
        replies = ArrayReplies(ids, entries)
        lengths = [part.sizes for part in entries.values() if isinstance(part, PerClient)]
        longest = int(torch.stack(lengths).sum(0).argmax()) if lengths else 0
        self.count(_bytes_of(entries, len(ids)), payload_bytes(single(entries, longest)))
        if self.task.refusal(single(entries, 0), expected) is not None or not all(map(_is_small, entries.values())):
            # Else blocks have replies of one form, which the first one shows.
            reasons = [self.task.refusal(single(entries, place), expected) for place in range(len(ids))]
            self.missing |= {i: reason for i, reason in zip(ids.tolist(), reasons, strict=True) if reason is not None}
            replies = replies.take(torch.tensor([reason is None for reason in reasons]).nonzero()[:, 0])
        self.take(replies.ids.tolist())
        return replies


def _is_small(entry: Any) -> bool:
    """Return whether an entry needs no closer look: its numbers are finite, and none is near a bound of replies."""
    values = entry.values if isinstance(entry, PerClient) else entry
    if not isinstance(values, Tensor) or not values.is_floating_point() or not values.numel():
        return True
    lowest, highest = extremes(values)
    return lowest >= -1e10 and highest <= 1e10  # the least bound of `fedkin.core.payload`; beyond, each is looked at


def _bytes_of(entries: Mapping[str, Any], clients: int) -> int:
    """Return the size of all replies when sent, as `payload_bytes` counts them."""
    total = payload_bytes(single(entries, 0)) * clients
    for entry in entries.values():
        if isinstance(entry, PerClient):
            total += entry.values.nbytes - clients * entry[0].nbytes
        elif isinstance(entry, tuple) or (isinstance(entry, Tensor) and entry.ndim == 1):
            texts = map(json.dumps, entry if isinstance(entry, tuple) else entry.tolist())
            total += sum(map(len, texts)) - clients * len(json.dumps(single({"": entry}, 0)[""]))
    return total
