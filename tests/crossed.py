"""What crosses in small runs of everything: for each task of the library, a request, the client, and its reply."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import fuzzing
import hostile
from fedkin.core import Client, Payload, Task
from fedkin.core.client import Column, Table
from fedkin.core.tasks import known_task
from fedkin.data.options import TableOptions
from fedkin.data.preparation import prepare
from fedkin.data.profile import profile_clusters
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method
from fedkin.secure_aggregation.sums import secure

_START = hostile.SMALL["fedcref"]
OTHERS: dict[str, dict[str, Any]] = {
    "kfed by local clusters": {**hostile.SMALL["kfed"], "assign": "induced"},
    "embedding by class sums": {**hostile.SMALL["embedding"], "message": "sums", "epsilon": 8.0},
    "ffcm of sums": {**hostile.SMALL["ffcm"], "aggregation": "mean", "start": "uniform"},
    "kin-graph of sums": {**hostile.SMALL["kin-graph"], "common_micro_clusters": True},
    "ifca of sums": hostile.SMALL["ifca"],
}
"""Settings beside those of `hostile.SMALL`; those "of sums" with secure sums."""


@dataclass(frozen=True)
class Crossing:
    """A request to a client, and its reply.

    Attributes
    ----------
    task : Task
    before : Client
        The client before it did the task; `client` is a copy that may be changed.
    payload, reply : dict
    """

    task: Task
    before: Client
    payload: Payload
    reply: Payload

    @property
    def client(self) -> Client:
        return _copied(self.before)


class Overheard(LocalFederation):
    """A federation that keeps the first crossing of every task."""

    def __init__(self, clients: list[Client]) -> None:
        super().__init__(clients, seed=0, workers=1)
        self.crossings: dict[str, Crossing] = {}

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        first = min(payloads, default=-1)
        before = _copied(self.clients[first]) if payloads else None
        for client, reply in super().deliver(task, payloads):
            if client == first and before is not None and isinstance(reply, dict):
                self._keep(task, before, payloads[client], reply)
            yield client, reply

    def _keep(self, task: Task, before: Client, payload: Payload, reply: Payload) -> None:
        self.crossings.setdefault(task.name, Crossing(task, before, dict(payload), dict(reply)))
        if "terms" in payload:  # a task whose reply is summed
            inner = known_task(payload["task"])
            if inner.name not in self.crossings:
                self._keep(inner, before, payload["payload"], inner.run([_copied(before)], [payload["payload"]])[0])


def _copied(client: Client) -> Client:
    """A copy with a memory and generators of its own."""
    made = copy.copy(client)
    made.state = {name: value.clone() for name, value in client.state.items()}
    made.rng = made.noise = torch.Generator().manual_seed(1)
    made.secret = bytes
    return made


def _method(name: str, settings: dict[str, Any]) -> dict[str, Crossing]:
    return _made(name, settings)[0].crossings


def _forgotten() -> dict[str, Crossing]:
    fed, state = _made("mufc", hostile.SMALL["mufc"])
    method = checked_method(registry.resolve("method", "mufc"), dict(hostile.SMALL["mufc"]))
    method.unlearned(fed, state, {0: torch.tensor([0, 2])})
    return fed.crossings


def _made(name: str, settings: dict[str, Any]) -> tuple[Overheard, Any]:
    method = checked_method(registry.resolve("method", name.split()[0]), dict(settings))
    fed = Overheard(hostile.clients_for(name))
    if name.endswith("of sums"):
        secure(fed)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    return fed, state


def _table(client: int, empty: bool = False) -> Client:
    """Two columns of numbers, of which one may have an empty cell, and one of categories."""
    rng = torch.Generator().manual_seed(client)
    values = torch.cat([torch.randn(20, 2, generator=rng), (torch.arange(20) % 2)[:, None]], 1).double()
    if empty:
        values[3, 1] = torch.nan
    columns = (Column("width"), Column("height"), Column("colour", "category", ("blue", "red")))
    made = Table(columns, values, "none")
    return Client(client, made.values.float(), table=made)


def _prepared(clients: list[Client], sums: bool = False, **options: Any) -> dict[str, Crossing]:
    fed = Overheard(clients)
    fed.secure_sums = sums
    preparation = prepare(fed, TableOptions(**options))
    for client in clients:
        client.state["clusters"] = torch.arange(len(client)) % 2
    if preparation.table is not None:
        profile_clusters(fed, preparation.table, 2)
    return fed.crossings


def _arrays() -> list[Client]:
    return [Client(client.id, 3 * client.x) for client in hostile.clients_for("kfed")]


def _outlying() -> list[Client]:
    """Arrays with a value far from all others."""
    clients = _arrays()
    clients[0].x[0, 0] = 1e5
    return clients


def _plain_tables() -> list[Client]:
    tables = [Table(_table(i).table.columns[:2], _table(i).table.values[:, :2], "none") for i in range(4)]
    return [Client(i, table.values.float(), table=table) for i, table in enumerate(tables)]


SOURCES: dict[str, Callable[[], dict[str, Crossing]]] = {
    **{name: functools.partial(_method, name, own) for name, own in {**hostile.SMALL, **OTHERS}.items()},
    "mufc forgets": _forgotten,
    "arrays": lambda: _prepared(_arrays()),
    "arrays with outliers": lambda: _prepared(_outlying()),
    "arrays by sums": lambda: _prepared(_arrays(), True, scaling="standard"),
    "tables": lambda: _prepared([_table(i, empty=True) for i in range(4)]),
    "tables by sums": lambda: _prepared([_table(i, empty=True) for i in range(4)], True, scaling="standard"),
    "tables of numbers": lambda: _prepared(_plain_tables(), scaling="none"),
}
"""Runs, by name."""


_QUICK = (
    "kfed", "kin-graph private", "kin-graph of sums", "ifca of sums", "gradient-loss", "embedding",
    "arrays", "tables", "tables by sums",
)  # fmt: skip


def tried() -> list[str]:
    """The runs whose messages are damaged: a few quick ones, or with FEDKIN_FUZZ all."""
    return list(SOURCES if fuzzing.CASES else _QUICK)


@functools.cache
def crossings(source: str) -> dict[str, Crossing]:
    """What crosses in a run, by name of the task."""
    return SOURCES[source]()
