"""What a fifth of hostile clients does to methods that average, by the way they aggregate.

``python benchmarks/robust_aggregation.py``: the 1,797 embedded digits, a fifth of them held out, over 20 clients, 4 of
which send another update than they computed. For methods that cluster clients, half of the clients call a 0 a 9, a 1
an 8 and so on. Printed is the accuracy on the digits held out, by the models of the honest clients' clusters: mean and
standard deviation over seeds. A run that ends with an error is counted, and what it says stands below the table.
Everything else is the method's default, in a few rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, Task
from fedkin.core.runner import do_step
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method
from sources import spread

CLIENTS, HOSTILE = 20, 4
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "ifca": {"n_clusters": 2, "start": "kmeans"},
    "ocfl": {},
    "embedding": {"pretraining_rounds": 5, "min_size": 4},
}
AGGREGATIONS = ("mean", "median", "trimmed-mean")

Attack = Callable[[Tensor, Tensor], Tensor]
"""What a hostile client sends, by its own update ``(size,)`` and those of the honest clients that are asked with it and
label as it does, ``(honest, size)``."""


def within_the_spread(own: Tensor, honest: Tensor) -> Tensor:
    """The honest mean less 1.5 standard deviations, number by number: an update like any other (Baruch et al. 2019)."""
    return honest.mean(0) - 1.5 * honest.std(0) if len(honest) > 1 else own


ATTACKS: dict[str, Attack] = {
    "none": lambda own, _: own,
    "× -1": lambda own, _: -own,
    "× -5": lambda own, _: -5 * own,
    "× 50": lambda own, _: 50 * own,
    "all 0.1": lambda own, _: torch.full_like(own, 0.1),
    "all 10": lambda own, _: torch.full_like(own, 10.0),
    "within the spread": within_the_spread,
}


class Attacked(LocalFederation):
    """A federation whose last `HOSTILE` clients know all updates, and agree on what they send."""

    def __init__(self, clients: list[Client], seed: int, attack: Attack) -> None:
        super().__init__(clients, seed)
        self.attack = attack
        self.hostile = set(self.ids[-HOSTILE:])

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Deliver the honest replies as they are; the hostile ones with other updates."""
        replies = list(super().deliver(task, payloads))
        honest = {
            client: reply["update"]
            for client, reply in replies
            if client not in self.hostile and isinstance(reply, dict) and "update" in reply
        }
        for client, reply in replies:
            alike = [update for other, update in honest.items() if other % 2 == client % 2]
            if client in self.hostile and isinstance(reply, dict) and "update" in reply:
                own: Tensor = reply["update"]
                others = torch.stack(alike) if alike else own.new_zeros(0, len(own))
                reply = {**reply, "update": self.attack(own, others)}
            yield client, reply


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    print("| method | hostile updates | " + " | ".join(AGGREGATIONS) + " |\n|---|---|" + "---|" * len(AGGREGATIONS))
    errors: list[str] = []
    for method in METHODS:
        for attack in ATTACKS:
            cells = [cell(method, how, attack, given.rounds, given.seeds, errors) for how in AGGREGATIONS]
            print(f"| `{method}` | {attack} | " + " | ".join(cells) + " |", flush=True)
    print(*["", *errors], sep="\n")


def cell(method: str, how: str, attack: str, rounds: int, seeds: Sequence[int], errors: list[str]) -> str:
    """Accuracies of the runs that end, and how many end with an error; the errors are appended to `errors`."""
    found: list[float] = []
    for seed in seeds:
        try:
            found.append(accuracy(method, how, ATTACKS[attack], rounds, seed))
        except FedkinError as error:
            errors.append(f"{method}, {how}, {attack}, seed {seed}: {error}")
    stopped = f"{len(seeds) - len(found)} of {len(seeds)} stop" if len(found) < len(seeds) else ""
    return ", ".join(filter(None, (spread(found, 3) if found else "", stopped)))


def accuracy(name: str, how: str, attack: Attack, rounds: int, seed: int) -> float:
    """Mean accuracy of the honest clients' models on the digits held out."""
    clients, held_out = partitioned(seed, two_meanings=name != "fedavg")
    settings = {**METHODS[name], "rounds": rounds, "aggregation": how}
    method = checked_method(registry.resolve("method", name), settings)
    fed = Attacked(clients, seed, attack)
    state = method.init(fed)
    while not state.finished:
        state, _ = do_step(method, fed, state)
    result = method.result(state)
    honest = [client.id for client in clients if client.id not in fed.hostile]
    return mean(_right(method, result, client, *held_out[client % 2]) for client in honest)


def partitioned(seed: int, two_meanings: bool) -> tuple[list[Client], list[tuple[Tensor, Tensor]]]:
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
