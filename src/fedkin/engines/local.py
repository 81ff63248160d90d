"""Local engine: all clients in this process, one worker thread per core."""

from __future__ import annotations

import ctypes
import gc
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
from typing import Any, TypeVar

import torch

from fedkin.core import Client, Federation, FedkinError, Payload, Task
from fedkin.core.client_array import ClientArray
from fedkin.core.device import device, on, records_steps
from fedkin.core.federation import Replies, ReplyStream, Wanted
from fedkin.core.seeds import derive_bytes, derive_generator
from fedkin.core.tasks import run_task
from fedkin.engines.array_exchange import ArrayExchange, shared_payload
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
        Worker threads; by default one per available core, on an accelerator at most four.
    drop_rate, failures : float, iterable of (int, int)
        Probability, in [0, 1), that a client is lost for one exchange, and pairs (exchange, client) that are lost on
        purpose; exchanges count from 1. For tests and studies.
    on_progress : callable, optional
        Called with (clients done, clients asked) during an exchange.
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
        **common: Any,
    ) -> None:
        by_id = clients if isinstance(clients, ClientArray) else {client.id: client for client in clients}
        if len(by_id) != len(clients):
            raise ValueError("Two clients have the same id.")
        super().__init__(list(by_id), seed, **common)
        self.clients = by_id
        self.device, self.records_steps = device(), records_steps()
        self.chunk = chunk
        self.workers = workers or (cores() if self.device.type == "cpu" else min(cores(), 4))
        # One pool for all exchanges: new threads would fault all their memory in again.
        threads = 1 if self.device.type == "cpu" else torch.get_num_threads()
        self._pool = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(threads,))
        self._clock = Lock()
        self.drop_rate = drop_rate
        self.on_progress = on_progress
        self.failures = {(int(exchange), int(client)) for exchange, client in failures}

    def ask(self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None) -> Replies[Payload]:
        if isinstance(self.clients, ClientArray) and task.block and not callable(expected):
            shared = shared_payload(payloads)
            if shared is not None:
                return ArrayExchange(self, task, shared, payloads).ask(expected)
        return super().ask(task, payloads, expected)

    def pools(
        self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None
    ) -> ReplyStream[list[int]]:
        shared = shared_payload(payloads) if isinstance(self.clients, ClientArray) and task.pool else None
        if shared is None:
            return super().pools(task, payloads, expected)
        return ReplyStream(ArrayExchange(self, task, shared, payloads).pools)

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        clients = sorted(payloads)
        _check(task, payloads)
        lost = {i for i in clients if self.is_lost(i)}
        present = [i for i in clients if i not in lost]
        pace = _Pace(self._chunk(task), self.workers)

        def work(ids: list[int]) -> list[Payload]:
            began = time.perf_counter()
            members = [self.clients[i] for i in ids]
            for i, client in zip(ids, members, strict=True):
                client.rng = derive_generator(self.seed, "client", i, self.exchange)
                client.noise = client.rng
                client.secret = partial(self._secret, i)
            before = [dict(client.state) for client in members]
            spent = -time.thread_time()
            with on(self.device, cuda_graphs=self.records_steps):
                replies = run_task(task, members, [payloads[i] for i in ids])
            if isinstance(self.clients, ClientArray):
                self.clients.keep_of(members, before)
            spent += time.thread_time()
            with self._clock:
                self.seconds += spent
            pace.learn(len(ids), time.perf_counter() - began)
            return replies

        yield from ((i, "lost on purpose") for i in sorted(lost))
        replied = len(lost)
        for ids, replies in self.in_order(work, pace.chunks(present)):
            yield from zip(ids, replies, strict=True)
            replied += len(ids)
            if self.on_progress:
                self.on_progress(replied, len(clients))
        if isinstance(self.clients, ClientArray):
            self.clients.settle()

    def in_order(self, work: Callable[[C], R], chunks: Iterator[C]) -> Iterator[tuple[C, R]]:
        """Yield chunks of clients with what `work` makes of each, in order, as workers come to them."""
        with one_thread() if self.device.type == "cpu" else nullcontext():
            yield from _in_order(self._pool, work, chunks, ahead=2 * self.workers)

    def sums(self) -> ClientSums:
        """Return plain sums over the clients present."""
        return ClientSums(self)

    def _chunk(self, task: Task) -> int | None:
        if self.chunk is not None or self.device.type == "cpu":
            return self.chunk
        return 1 if task.one_by_one else 128  # whose models take about as long for a step as one

    def _secret(self, client: int, count: int) -> bytes:
        return derive_bytes(count, self.seed, "secret", client, self.exchange)

    def is_lost(self, client: int) -> bool:
        if (self.exchange, client) in self.failures:
            return True
        if self.drop_rate == 0.0:
            return False
        chance = torch.rand((), generator=derive_generator(self.seed, "drop", client, self.exchange))
        return bool(chance < self.drop_rate)


def _check(task: Task, payloads: Mapping[int, Payload]) -> None:
    """Check that payloads are what the task takes; a payload that clients share is checked once."""
    for payload in {id(payload): payload for payload in payloads.values()}.values():
        if (reason := task.objection(payload)) is not None:
            raise FedkinError(f"Clients refuse task '{task.name}': {reason}.")


class _Pace:
    """Scheduler that chooses how many clients each call of a task gets: `fixed`, or by the time that clients take."""

    fewest, most, seconds = 2, 64, 0.02  # that small models train as stacks; the seconds that a call should take

    def __init__(self, fixed: int | None, workers: int) -> None:
        self.fixed, self.workers = fixed, workers
        self.size = fixed or self.fewest

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
        """Adapt the size of chunks to the seconds that a call took for `count` clients."""
        self.size = max(self.fewest, min(self.most, int(count * self.seconds / max(seconds, 1e-6))))


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[C], R], chunks: Iterator[C], ahead: int
) -> Iterator[tuple[C, R]]:
    """Yield chunks with their replies in order; at most `ahead` chunks are computed before they are read."""
    waiting: deque[tuple[C, Future[R]]] = deque()
    try:
        while True:
            waiting.extend(
                (chunk, pool.submit(copy_context().run, work, chunk)) for chunk in islice(chunks, ahead - len(waiting))
            )
            if not waiting:
                return
            chunk, future = waiting.popleft()
            yield chunk, future.result()
    finally:
        # What has begun must end here: it would go on changing clients while they are asked the next time.
        wait([future for _, future in waiting if not future.cancel()])


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
