"""What methods share that cluster synthetic samples."""

import torch

from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.sda_fc import SDAFCMethod

QUICK = {"n_clusters": 2, "epochs": 2, "min_steps": 1, "noise": 3, "capacity": 0.1}
NETWORKS = {"generator", "discriminator", "epochs"}


def make_clients(*sizes):
    rng = torch.Generator().manual_seed(1)
    return [Client(i, torch.rand(size, 5, generator=rng)) for i, size in enumerate(sizes)]


def test_networks_stay_at_their_client_and_are_dropped_in_the_end():
    clients = make_clients(7, 9)
    fed = LocalFederation(clients)
    method = SDAFCMethod(**QUICK)
    state, _ = method.step(fed, method.init(fed))
    assert all(client.state.keys() == NETWORKS for client in clients)
    received = fed.traffic.received
    state, _ = method.step(fed, state)
    assert fed.traffic.received - received < 500
    method.step(fed, state)
    assert all(client.state.keys() == {"clusters", "confidence"} for client in clients)


def test_a_client_that_missed_an_epoch_goes_on_where_it_was():
    clients = make_clients(7, 9)
    fed = LocalFederation(clients, failures=[(2, 1)])
    method = SDAFCMethod(**{**QUICK, "epochs": 3})
    state, record = method.step(fed, method.init(fed))
    assert list(record.missing) == [1]
    while state.steps < 3:
        state, _ = method.step(fed, state)
    assert [int(client.state["epochs"]) for client in clients] == [3, 2]


def test_rates_fall_with_the_epochs_of_a_client():
    rates = {"generator_rate": 0.01, "discriminator_rate": 0.01}
    moved = []
    for decay in (1.0, 1e-9):
        clients = make_clients(8)
        fed, method = LocalFederation(clients), SDAFCMethod(**QUICK, **rates, rate_decay=decay)
        state, _ = method.step(fed, method.init(fed))
        before = clients[0].state["generator"].clone()
        method.step(fed, state)
        trained = clients[0].state["generator"] - before
        moved.append(float(trained[:10].abs().max()))  # leading numbers are weights of the first layer
    assert moved[0] > 1e-3
    assert moved[1] < 1e-6
