"""Sums in this process whose messages are watched and changed on their way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fedkin.core import Client, Payload, Task, task
from fedkin.core.seeds import Secret
from fedkin.engines.local import LocalFederation
from fedkin.secure_aggregation.client_tasks import Term

TERMS = [Term("x", (3,))]
Change = Callable[[Payload], Payload]


@task
def give(clients: Any, payloads: Any) -> list[Payload]:
    return [{"x": client.x[0]} for client in clients]


class Watched(LocalFederation):
    """Keeps what crosses, and has some clients lie.

    Parameters
    ----------
    clients : int
        Their number; client i gives i + 1, 10 (i + 1) and 0.5.
    lies : mapping of (str, int) to callable
        By name of a task and client, what becomes of its replies.
    """

    def __init__(self, clients: int, lies: Mapping[tuple[str, int], Change] | None = None, **options: Any) -> None:
        given = [Client(i, torch.tensor([[i + 1.0, 10 * (i + 1.0), 0.5]])) for i in range(clients)]
        super().__init__(given, workers=1, **options)
        self.lies = dict(lies or {})
        self.requests: dict[str, dict[int, Payload]] = {}
        self.replies: dict[str, dict[int, Payload]] = {}
        self.asked: list[str] = []
        self.answers = Counter[tuple[str, int]]()

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        name = task.name.rpartition(".")[2]
        self.asked.append(name)
        self.requests.setdefault(name, {}).update(payloads)
        for client, reply in super().deliver(task, payloads):
            if isinstance(reply, dict):
                reply = self.lies.get((name, client), lambda honest: honest)(reply)
                self.replies.setdefault(name, {})[client] = reply
                self.answers[name, client] += 1
            yield client, reply

    def as_real(self) -> None:
        """Have clients remember, as those in a real federation do, what they must not answer twice."""
        for client in self.clients.values():
            client.noise = Secret()

    def total(self, ids: list[int]) -> torch.Tensor:
        return torch.stack([self.clients[i].x[0] for i in ids]).double().sum(0)


def flipped(name: str, *place: int) -> Change:
    """The reply with one byte or number of a tensor changed."""

    def change(reply: Payload) -> Payload:
        tensor = reply[name].clone()
        tensor[place] ^= 1
        return reply | {name: tensor}

    return change
