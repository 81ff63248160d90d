"""A client that lies: every field of every reply of a method's run, one lie at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedkin.core import Client, Payload, Task
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method

CLIENTS, LIAR = 6, 2


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Softmax regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


_TRAINING = {"rounds": 2, "local_steps": 1, "batch_size": 8, "module": "hostile:linear"}
SMALL: dict[str, dict[str, Any]] = {
    "kfed": {"n_clusters": 3, "local_clusters": 2},
    "mufc": {"n_clusters": 3},
    "afcl": {"seeds": 3, "rounds": 3},
    "feddp-kmeans": {"n_clusters": 3, "epsilon": 100.0},
    "kmeans": {"n_clusters": 3, "n_init": 2},
    "fuzzy-cmeans": {"n_clusters": 3},
    "kin-graph": {"min_members": 2, "neighbours": 4, "common_micro_clusters": False},
    "kin-graph private": {"min_members": 2, "neighbours": 4, "epsilon": 100.0},
    "ffcm": {"n_clusters": 3, "rounds": 2},
    "uifca": {"n_clusters": 2, "cluster_rounds": 1, "rounds": 2, "local_steps": 1, "width": 4, "depth": 1,
              "couplings": 1},
    "sda-fc": {"n_clusters": 3, "epochs": 1, "min_steps": 1, "noise": 4, "capacity": 0.02},
    "ppfc-gan": {"n_clusters": 3, "epochs": 1, "min_steps": 1, "noise": 4, "capacity": 0.02, "pretrain_epochs": 1,
                 "cluster_epochs": 1},
    "ccfc": {"n_clusters": 3, "pretrain_rounds": 1, "cluster_rounds": 1, "batch_size": 16, "latent": 4,
             "projector_units": 4, "predictor_units": 4},
    "scfc": {"n_clusters": 3, "pretrain_rounds": 1, "batch_size": 16, "latent": 4, "projector_units": 4,
             "predictor_units": 4},
    "fedcref": {"n_clusters": 2, "initial": "kmeans", "hidden": (3,), "local_epochs": 1, "rounds": 1, "first_epochs": 1,
                "min_steps": 1, "max_iterations": 2},
    "dec": {"n_clusters": 3, "hidden": (4,), "code": 2, "pretrain_steps": 2, "restarts": 1, "max_refreshes": 1},
    "fedavg": _TRAINING,
    "local": _TRAINING,
    "declared": {**_TRAINING, "groups": ("a", "b") * 3},
    "fedrep": {**_TRAINING, "head_tensors": 1},
    "ditto": _TRAINING,
    "fedopt": _TRAINING,
    "ocfl": _TRAINING,
    "hierarchical": {**_TRAINING, "clustering_round": 1},
    "sattler": _TRAINING,
    "ifca": {**_TRAINING, "n_clusters": 2},
    "ifca seeded": {**_TRAINING, "n_clusters": 2, "start": "kmeans"},
    "gradient-loss": {"rounds": 2, "n_clusters": 2, "batch_size": 8, "module": "hostile:linear"},
    "embedding": {**_TRAINING, "pretraining_rounds": 1, "pretraining_epochs": 1, "pretraining_steps": 1},
    "ladd": _TRAINING,
    "pacfl": _TRAINING,
    "feddag": {**_TRAINING, "module": "perceptron"},
    "flux": {**_TRAINING, "rounds": 3, "warm_up": 1},
    "feddrift": {**_TRAINING, "rounds": 3, "period": 1},
    "fedrc": {**_TRAINING, "n_clusters": 2},
    "clove": {**_TRAINING, "n_clusters": 2},
    "cfl-gp": {**_TRAINING, "n_clusters": 2, "coordinates": 5},
    "fesem": {**_TRAINING, "n_clusters": 2},
    "fedgroup": {**_TRAINING, "n_clusters": 2},
}  # fmt: skip
"""Methods that run in a moment, by name; what follows a space distinguishes settings of one method."""


def method_of(name: str) -> Any:
    """The method of this name in `SMALL`."""
    return checked_method(registry.resolve("method", name.split()[0]), dict(SMALL[name]))


def clients_for(name: str, count: int = CLIENTS) -> list[Client]:
    """Labelled clients with samples of two classes; images where the method needs them."""
    rng = torch.Generator().manual_seed(5)
    made = []
    for i in range(count):
        y = torch.arange(20) % 2
        x = 0.5 + 0.3 * (2.0 * y[:, None] - 1) * torch.tensor([1.0, -1.0, 1.0, -1.0]) * (1 if i % 2 else -1)
        x = (x + 0.05 * torch.randn(20, 4, generator=rng)).clamp(0, 1)
        if name == "ladd":
            x = x.repeat(1, 16).view(20, 1, 8, 8) * (0.5 if i % 2 else 1.0)
        made.append(Client(i, x, y))
    return made


@dataclass(frozen=True)
class Lie:
    """What one client says in one field of its replies to one task.

    Attributes
    ----------
    task, field : str
        Name of the task; and of the field, or "" for the whole reply.
    kind : str
        Which of `lies`.
    """

    task: str
    field: str
    kind: str


class LyingFederation(LocalFederation):
    """A local federation in which one client lies.

    Attributes
    ----------
    fields : dict of str to set of str
        By task, the fields of the liar's honest replies.
    lies : int
        How many lies it has told.
    """

    def __init__(self, clients: list[Client], lie: Lie | None = None, seed: int = 0) -> None:
        super().__init__(clients, seed=seed, workers=1)
        self.lie, self.lies = lie, 0
        self.fields: dict[str, set[str]] = {}

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        for client, reply in super().deliver(task, payloads):
            if client == LIAR and isinstance(reply, dict):
                self.fields.setdefault(task.name, set()).update(reply)
                if self.lie is not None and self.lie.task == task.name:
                    reply = self._with_lie(reply, self.lie)
            yield client, reply

    def _with_lie(self, reply: Payload, lie: Lie) -> Any:
        if lie.field == "":
            self.lies += 1
            return WHOLE[lie.kind]
        if lie.field in reply and (answer := dict(lies(reply[lie.field])).get(lie.kind, self)) is not self:
            self.lies += 1
            return {**reply, lie.field: answer}
        return reply


WHOLE: dict[str, Any] = {"nothing": {}, "a list": [1], "None": None, "a number": 3, "long keys": {"x" * 10_000: 1}}
"""Whole replies that are none."""


def lies(value: Any) -> Iterable[tuple[str, Any]]:
    """Lies in place of an honest value, by kind."""
    yield "absent", None
    yield "text", "x" * 100_000
    yield "surrogate", "\ud800"
    yield "huge int", 10**400
    yield "beyond 2^53", 2**53 + 1
    yield "negative", -1
    yield "million", 10**6
    yield "huge float", 1e308
    yield "NaN", math.nan
    yield "infinite", math.inf
    yield "true", True
    yield "list", [value, value]
    yield "nested", {"a": {"b": [value]}}
    yield "empty tensor", torch.zeros(0)
    yield "scalar tensor", torch.tensor(1.0)
    if isinstance(value, Tensor):
        yield from _of_tensors(value)
    if isinstance(value, int | float):
        yield "0", 0
        yield "large", 2**40
    if isinstance(value, list):
        yield "longer", [*value, 1]
        yield "empty", []
        yield "of text", ["x" for _ in value]
        yield "of zeros", [0 for _ in value]
        yield "of millions", [10**6 for _ in value]


def _of_tensors(value: Tensor) -> Iterable[tuple[str, Tensor]]:
    for dtype in (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool):
        if dtype != value.dtype:
            yield f"{dtype}", value.to(dtype)
    yield "complex", value.to(torch.complex64)
    yield "longer", torch.cat([value.flatten(), value.flatten()])
    yield "of one row more", torch.cat([value, value[:1]]) if value.ndim and len(value) else value[None]
    yield "of one row less", value[:-1] if value.ndim else value[None]
    yield "of one dimension more", value[None]
    yield "minus", -value.double() if value.dtype in (torch.uint8, torch.bool) else -value
    yield "zeros", torch.zeros_like(value)
    if value.is_floating_point():
        for kind, number in (
            ("NaNs", math.nan),
            ("infinities", -math.inf),
            ("3e38", 3e38),
            ("1e20", 1e20),
            ("1e9", 1e9),
        ):
            yield kind, torch.full_like(value, number)
    elif value.dtype != torch.bool:
        yield "greatest", torch.full_like(value, torch.iinfo(value.dtype).max)
        yield "least", torch.full_like(value, torch.iinfo(value.dtype).min)


def run(name: str, lie: Lie | None = None) -> tuple[LyingFederation, Any, list[Any]]:
    """A whole run of a method: the federation, the last state and the records."""
    method, fed = method_of(name), LyingFederation(clients_for(name), lie)
    state, records = method.init(fed), []
    for _ in range(60):
        if state.finished:
            break
        state, record = method.step(fed, state)
        records.append(record)
    assert state.finished
    return fed, method.result(state), records


def cases(name: str) -> list[Lie]:
    """Every lie that a client may tell in a run of this method."""
    fed, _, _ = run(name)
    found = [Lie(task, "", kind) for task in fed.fields for kind in WHOLE]
    kinds = [kind for kind, _ in lies(torch.zeros(2, 2))] + [
        kind for kind, _ in lies(torch.zeros(2, dtype=torch.int64))
    ]
    kinds += [kind for kind, _ in lies([1])] + [kind for kind, _ in lies(1)]
    return found + [
        Lie(task, field, kind)
        for task, fields in fed.fields.items()
        for field in sorted(fields)
        for kind in dict.fromkeys(kinds)
    ]
