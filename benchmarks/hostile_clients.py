"""What a fifth of hostile clients does to methods that average, by the way they aggregate.

``python benchmarks/hostile_clients.py``: the 1,797 embedded digits, a fifth of them held out, over 20 clients, 4 of
which send another update than they computed. For methods that cluster clients, half of the clients call a 0 a 9, a 1
an 8 and so on. Printed is the accuracy on the digits held out, by the models of the honest clients' clusters: mean and
standard deviation over seeds. Everything else is the method's default, in a few rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from statistics import mean
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, Task
from fedkin.core.seeds import derive_generator
from fedkin.core.steps import do_step
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method
from grid import spread

CLIENTS, HOSTILE = 20, 4
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"rounds": 15},
    "ifca": {"rounds": 15, "n_clusters": 2, "start": "kmeans"},
    "ocfl": {"rounds": 15},
    "embedding": {"rounds": 15, "pretraining_rounds": 5, "min_size": 4},
}
ATTACKS = {"none": 1.0, "turned round": -1.0, "turned round, x 5": -5.0, "x 50": 50.0}
"""What a hostile client multiplies its update by."""
AGGREGATIONS = ("mean", "median", "trimmed-mean")


class Attacked(LocalFederation):
    """A federation whose clients in `hostile` multiply every update by a factor."""

    def __init__(self, clients: list[Client], seed: int, factor: float, hostile: set[int]) -> None:
        super().__init__(clients, seed)
        self.factor, self.hostile = factor, hostile

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        for client, reply in super().deliver(task, payloads):
            if client in self.hostile and isinstance(reply, dict) and "update" in reply:
                reply = {**reply, "update": reply["update"] * self.factor}
            yield client, reply


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    print("| method | hostile updates | " + " | ".join(AGGREGATIONS) + " |\n|---|---|" + "---|" * len(AGGREGATIONS))
    for method in options.methods:
        for attack, factor in ATTACKS.items():
            found = [
                spread([accuracy(method, aggregation, factor, seed) for seed in options.seeds], 3)
                for aggregation in AGGREGATIONS
            ]
            print(f"| `{method}` | {attack} | " + " | ".join(found) + " |", flush=True)


def accuracy(name: str, aggregation: str, factor: float, seed: int) -> float | None:
    """Mean accuracy of the honest clients' models on the digits held out; ``None`` if the run ends with an error."""
    clients, held_out = dealt(seed, two_meanings=name != "fedavg")
    hostile = set(range(CLIENTS - HOSTILE, CLIENTS))
    method = checked_method(registry.resolve("method", name), {**METHODS[name], "aggregation": aggregation})
    fed = Attacked(clients, seed, factor, hostile)
    try:
        state = method.init(fed)
        while not state.finished:
            state, _ = do_step(method, fed, state)
    except FedkinError as error:
        print(f"<!-- {name}, {aggregation}, seed {seed}: {error} -->")
        return None
    result = method.result(state)
    honest = [client.id for client in clients if client.id not in hostile]
    return mean(_right(method, result, client, *held_out[client % 2]) for client in honest)


def dealt(seed: int, two_meanings: bool) -> tuple[list[Client], list[tuple[Tensor, Tensor]]]:
    """The clients, and the digits held out with the labels that even and that odd clients give them."""
    digits, rng = load_digits(), derive_generator(seed, "hostile clients")
    order = torch.randperm(len(digits.data), generator=rng)
    x, y = torch.from_numpy(digits.data / 16).float()[order], torch.from_numpy(digits.target).long()[order]
    test = len(x) // 5
    meanings = (y, 9 - y if two_meanings else y)
    clients = [Client(i, x[test:][i::CLIENTS], meanings[i % 2][test:][i::CLIENTS]) for i in range(CLIENTS)]
    return clients, [(x[:test], labels[:test]) for labels in meanings]


def _right(method: Any, result: Mapping[str, Any], client: int, x: Tensor, y: Tensor) -> float:
    return float((method.predict(result, x, client=client) == y).float().mean())


if __name__ == "__main__":
    main()
