"""The local engine: all clients in this process, one worker thread per core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from fedkin.core import Client, Federation, Payload, Task
from fedkin.core.seeds import derive_generator


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch inside: on small tensors its own threads cost far more than they give."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class LocalFederation(Federation):
    """Clients that live in this process.

    Clients are handed to a task a few at a time, so that their models train as small stacks, and chunks run on
    one single-threaded worker per core: with models this small, torch's own threads cost more than they give.

    Parameters
    ----------
    clients : sequence of Client
        The sites; ids must be unique.
    seed : int
        Seed of the run.
    chunk : int, optional
        Clients per call of a task. The result does not depend on it.
    workers : int, optional
        Worker threads; by default one per available core.
    drop_rate : float
        Probability, in [0, 1), that a client is lost for one exchange. For tests and studies.
    failures : iterable of (int, int)
        Pairs (exchange, client) that are lost on purpose; exchanges count from 1.
    on_progress : callable, optional
        Called with (clients done, clients asked) as an exchange goes on.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        seed: int = 0,
        chunk: int = 2,
        workers: int | None = None,
        drop_rate: float = 0.0,
        failures: Iterable[tuple[int, int]] = (),
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__([client.id for client in clients], seed)
        self.clients = {client.id: client for client in clients}
        if len(self.clients) != len(clients):
            raise ValueError("Two clients have the same id.")
        self.chunk = chunk
        self.workers = workers or _cores()
        self.drop_rate = drop_rate
        self.on_progress = on_progress
        self.failures = {(int(exchange), int(client)) for exchange, client in failures}

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> dict[int, Payload | str]:
        answers: dict[int, Payload | str] = {i: "lost on purpose" for i in payloads if self._is_lost(i)}
        present = [i for i in sorted(payloads) if i not in answers]
        for i in present:
            self.clients[i].rng = derive_generator(self.seed, "client", i, self.exchange)
        chunks = [present[at : at + self.chunk] for at in range(0, len(present), self.chunk)]

        def work(ids: list[int]) -> list[Payload]:
            return task.run([self.clients[i] for i in ids], [payloads[i] for i in ids])

        with one_thread():
            pool = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,))
            try:
                for ids, replies in zip(chunks, pool.map(work, chunks), strict=True):
                    answers.update(zip(ids, replies, strict=True))
                    if self.on_progress:
                        self.on_progress(len(answers), len(payloads))
            finally:
                pool.shutdown(cancel_futures=True)
        return answers

    def _is_lost(self, client: int) -> bool:
        if (self.exchange, client) in self.failures:
            return True
        if self.drop_rate == 0.0:
            return False
        chance = torch.rand((), generator=derive_generator(self.seed, "drop", client, self.exchange))
        return bool(chance < self.drop_rate)


def _cores() -> int:
    """Cores this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
