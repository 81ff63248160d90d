"""Labelled clients in planted clusters, and models small enough that a method can be computed by hand.

Samples are noisy corners of a cube, one corner per class. Clusters agree on the samples and swap some of the labels, so
that one model cannot serve two of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from fedkin.core import Client, Record
from fedkin.engines.local import LocalFederation
from fedkin.nn.modules import Classifier
from fedkin.secure_aggregation.sums import secure

CLASSES = 6
LEVELS: dict[int, list[tuple[int, int]]] = {
    0: [],
    1: [(4, 5)],
    2: [(0, 1), (2, 3)],
    3: [(0, 1), (2, 3), (4, 5)],
}
"""Swapped labels by cluster: 0 and 1 differ in two classes, and both from 2 and 3 in four, so these two part first."""
OPPOSITE = {0: LEVELS[0], 1: LEVELS[3]}
"""Two clusters that agree on nothing."""

FULL_BATCH: dict[str, Any] = {
    "module": "planted:linear",
    "local_steps": 1,
    "batch_size": 1000,
    "learning_rate": 0.5,
}
"""Training without any randomness: a client's id does not matter."""
LEARNING = FULL_BATCH | {"local_steps": 5}


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Softmax regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], classes))


def zeros(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Softmax regression that starts with given weights."""
    made = linear(shape, classes)
    for own in made.parameters():
        nn.init.zeros_(own)
    return made


def normalised(shape: tuple[int, ...], classes: int) -> nn.Module:
    """With a batch norm, and so with running statistics and a counter."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(shape[0]), nn.Linear(shape[0], classes))


def client(number: int, swaps: Sequence[tuple[int, int]] = (), samples: int = 24, seed: int | None = None) -> Client:
    """One client; its samples depend on `seed`, by default its number."""
    rng = torch.Generator().manual_seed(number if seed is None else seed)
    corner = torch.arange(samples) % CLASSES
    x = 2.0 * one_hot(corner, CLASSES).float() + 0.3 * torch.randn(samples, CLASSES, generator=rng)
    y = corner.clone()
    for one, other in swaps:
        y[corner == one], y[corner == other] = other, one
    return Client(number, x, y)


def clients(
    clusters: Sequence[int], swaps: dict[int, list[tuple[int, int]]] = LEVELS, samples: int = 24
) -> list[Client]:
    """Clients 0..n-1 of the given clusters."""
    return [client(number, swaps[cluster], samples) for number, cluster in enumerate(clusters)]


def permuted(people: Sequence[Client], order: Sequence[int]) -> list[Client]:
    """The same clients under new ids: client ``order[i]`` becomes client i."""
    return [Client(new, people[old].x, people[old].y) for new, old in enumerate(order)]


@dataclass(frozen=True)
class Run:
    """A method from beginning to end; `states` has one more than `records`."""

    fed: LocalFederation
    states: list[Any]
    records: list[Record]
    exchanges: list[int]
    result: dict[str, Any]

    @property
    def labels(self) -> list[int]:
        return self.states[-1].labels.tolist()

    @property
    def values(self) -> list[dict[str, Any]]:
        return [record.values for record in self.records]


def run(method: Any, people: Sequence[Client], secure_sums: bool = False, **engine: Any) -> Run:
    """Do all rounds of `method`, with sums alone if wanted."""
    fed = LocalFederation(people, workers=1, **engine)
    if secure_sums:
        secure(fed)
    states, records, exchanges = [method.init(fed)], [], []
    while not states[-1].finished:
        before = fed.exchange
        state, record = method.step(fed, states[-1])
        states.append(state)
        records.append(record)
        exchanges.append(fed.exchange - before)
    return Run(fed, states, records, exchanges, method.result(states[-1]))


def gradient(spec: dict[str, Any], vector: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of the mean loss by autograd, ``(parameters,)``; apart from all of the library's own training."""
    module = Classifier.of(spec).module(vector).train()
    cross_entropy(module(x), y).backward()
    return torch.cat([part.grad.flatten() for part in module.parameters() if part.grad is not None])


def losses(spec: dict[str, Any], models: Tensor, x: Tensor, y: Tensor) -> list[float]:
    """Mean loss of each model."""
    return [float(cross_entropy(Classifier.of(spec).module(model)(x), y).detach()) for model in models]


def same_partition(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two labellings tell the same clusters, whatever their numbers."""
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


def outlives_losses(method: Callable[..., Any], rounds: int = 4, **options: Any) -> None:
    """Assert that a method does all its rounds, harms no model and says who was missing, whoever is lost."""
    clusters = [0, 1, 2, 3, 0, 1, 2, 3]
    exchanges = range(2, rounds + 4)
    losses = [(3, 0), (3, 5), (4, 1), *((exchange, 7) for exchange in exchanges), *((5, lost) for lost in range(8))]
    done = run(method(rounds=rounds, **(LEARNING | options)), clients(clusters), failures=losses, drop_rate=0.2)
    assert len(done.records) == rounds
    assert bool(done.states[-1].models.isfinite().all())
    assert any(record.missing for record in done.records)
    for record in done.records:
        assert not set(record.answered) & set(record.missing)
        trained = {int(client) for client in record.values["losses"]}  # some may have been lost afterwards
        assert set(record.answered) == trained - set(record.missing)
        assert {"loss", "clusters", "sizes", "labels", "losses"} <= set(record.values)
    assert {"n_clusters", "labels", "models", "module"} <= set(done.result)
    assert done.result["labels"].shape == (8,)
    assert done.result["models"].shape == (done.result["n_clusters"], done.states[0].models.shape[1])
