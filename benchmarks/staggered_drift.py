"""FedDrift beside other methods where clients drift one after another: digits under three ways to name them.

    python benchmarks/staggered_drift.py --seeds 0 1 2

Twelve clients of 100 samples train a perceptron for 24 rounds; all others of a client's samples are tests. In concept c
a digit d is called d + 3c modulo 10. Six clients begin in concept 0 and six in concept 1. At rounds 9, 13 and 17 two
clients each change, to a concept that others have or to one that is new. "oracle" is federated averaging within the
true clusters at every time. Accuracies are means over clients, and over all rounds from the first drift on or in the
last; with the standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
from statistics import mean
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.clients.feddrift import FedDriftMethod
from fedkin.methods.clients.ifca import IFCAMethod
from fedkin.methods.clients.ocfl import OCFLMethod
from grid import spread

CLIENTS, ROUNDS, TRAINING, CONCEPTS = 12, 24, 100, 3
BEGIN = [0] * 6 + [1] * 6
CHANGES = {9: {0: 1, 1: 1}, 13: {6: 2, 7: 2}, 17: {2: 2, 8: 0}}
"""By round, the clients that change and their new concepts."""
_COMMON: dict[str, Any] = {"module": "perceptron", "rounds": ROUNDS}
METHODS: dict[str, Any] = {
    "feddrift": FedDriftMethod(**_COMMON),
    "feddrift, held_out = 0": FedDriftMethod(**_COMMON, held_out=0.0),
    "ifca, given 3": IFCAMethod(**_COMMON, n_clusters=CONCEPTS),
    "ocfl": OCFLMethod(**_COMMON),
    "fedavg": FedAvgMethod(**_COMMON),
    "oracle": FedAvgMethod(**_COMMON),
}


def main() -> None:
    """Print a line for each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args()
    print("| method | accuracy from round 9 on | in the last | ARI at the end | clusters |\n|---|---|---|---|---|")
    for name in given.methods:
        runs = [followed(METHODS[name], seed, name == "oracle") for seed in given.seeds]
        figures = (
            [mean(one[0][min(CHANGES) - 1 :]) for one in runs],
            [one[0][-1] for one in runs],
            [adjusted_rand_score(one[1], one[2]) for one in runs],
        )
        cells = [spread(values, 3) for values in figures]
        print(f"| {name} | {' | '.join(cells)} | {', '.join(str(len(set(one[2]))) for one in runs)} |", flush=True)


def followed(method: Any, seed: int, knows: bool = False) -> tuple[list[float], list[int], list[int]]:
    """Return the accuracy after each round, the concepts at the end, and the clusters; `knows` gives them away."""
    world = World(seed)
    fed = LocalFederation(world.clients, seed=seed, workers=1)
    state, accuracies = method.init(fed), []
    while not state.finished:
        world.enter(state.steps + 1)
        if knows:
            models = state.models.expand(CONCEPTS, -1).clone() if len(state.models) == 1 else state.models
            state = dataclasses.replace(state, models=models, labels=torch.tensor(world.concepts))
        state, _ = method.step(fed, state)
        accuracies.append(world.accuracy(method, method.result(state)))
    return accuracies, world.concepts, state.labels.tolist()


class World:
    """The digits, partitioned, and the concept of each client."""

    def __init__(self, seed: int) -> None:
        x, y = (torch.from_numpy(part) for part in load_digits(return_X_y=True))
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        parts = [order[at::CLIENTS] for at in range(CLIENTS)]
        self.concepts = list(BEGIN)
        self._digits = [y[part].long() for part in parts]
        self._samples = [(x[part] / 16).float() for part in parts]
        self.clients = [Client(i, self._samples[i][:TRAINING], self.called(i)[:TRAINING]) for i in range(CLIENTS)]

    def called(self, client: int) -> Tensor:
        """Return what a client calls its digits now."""
        return (self._digits[client] + 3 * self.concepts[client]) % 10

    def enter(self, round_number: int) -> None:
        """Change the clients that drift in this round, counted from 1."""
        for client, concept in CHANGES.get(round_number, {}).items():
            self.concepts[client] = concept
            self.clients[client].y = self.called(client)[:TRAINING]

    def accuracy(self, method: Any, result: dict[str, Any]) -> float:
        """Return the mean accuracy of clients' models on their tests."""
        right = [
            method.predict(result, self._samples[i][TRAINING:], client=i) == self.called(i)[TRAINING:]
            for i in range(CLIENTS)
        ]
        return mean(float(one.double().mean()) for one in right)


if __name__ == "__main__":
    main()
