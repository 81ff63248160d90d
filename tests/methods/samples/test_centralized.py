"""The yardsticks see all samples, and say so."""

import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.centralized import KMeansMethod

CORNERS = 5 * torch.eye(3, 4)


def make_clients(count: int = 3, each: int = 20) -> list[Client]:
    rng = torch.Generator().manual_seed(1)
    return [Client(i, CORNERS[i % 3] + torch.randn(each, 4, generator=rng)) for i in range(count)]


def run(method, clients, **options):
    fed = LocalFederation(clients, 0, workers=1, **options)
    state = method.init(fed)
    records = []
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    return fed, state, records


def test_clients_that_fail_are_left_out_and_reported_in_the_end():
    clients = make_clients()
    records = run(KMeansMethod(n_clusters=3), clients, failures=[(2, 1)])[2]
    assert records[0].answered == [0, 2]
    assert records[0].missing == {1: "lost on purpose"}
    assert len(clients[1].state["clusters"]) == len(clients[1])


def test_if_nobody_answers_the_next_step_tries_again_but_not_for_ever():
    clients = make_clients(2)
    _, state, records = run(KMeansMethod(n_clusters=2), clients, failures=[(2, 0), (2, 1)])
    assert [record.answered for record in records] == [[], [0, 1]]
    assert state.finished
    with pytest.raises(FedkinError, match="No client answered KMeans in 20 attempts"):
        run(
            KMeansMethod(n_clusters=2), clients, failures=[(exchange, i) for exchange in range(2, 30) for i in range(2)]
        )
