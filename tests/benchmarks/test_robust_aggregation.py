"""Hostile clients send what they are to send, honest ones what they computed, and runs that end early are counted."""

from types import ModuleType

import pytest
import torch

from fedkin.core import Payload
from fedkin.methods.clients.client_method import train
from fedkin.methods.clients.fedavg import FedAvgMethod


def updates_of(benchmark: ModuleType, attack: str) -> dict[int, torch.Tensor]:
    """The updates of the first round."""
    clients, _ = benchmark.partitioned(0, two_meanings=True)
    fed = benchmark.Attacked(clients, 0, benchmark.ATTACKS[attack])
    method = FedAvgMethod(rounds=1)
    state = method.init(fed)
    payload: Payload = method.training(state, dict.fromkeys(fed.ids, state.models[0]))[0]
    replies = dict(fed.deliver(train, dict.fromkeys(fed.ids, payload)))
    return {client: reply["update"] for client, reply in replies.items()}


@pytest.mark.parametrize("attack", ["× -5", "all 10", "within the spread"])
def test_the_last_four_of_twenty_clients_lie_and_nobody_else(benchmark: ModuleType, attack: str) -> None:
    honest, attacked = updates_of(benchmark, "none"), updates_of(benchmark, attack)
    changed = [client for client in honest if not torch.equal(honest[client], attacked[client])]
    assert changed == [16, 17, 18, 19]
    expected = {
        "× -5": lambda client: -5 * honest[client],
        "all 10": lambda client: torch.full_like(honest[client], 10.0),
        "within the spread": lambda client: _below(torch.stack([honest[i] for i in range(client % 2, 16, 2)])),
    }[attack]
    assert torch.equal(attacked[17], expected(17))


def _below(rows: torch.Tensor) -> torch.Tensor:
    return rows.mean(0) - 1.5 * rows.std(0)
