"""What methods share that cluster synthetic samples."""

import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.sda_fc import SDAFCMethod
from fedkin.methods.samples.synthetic_samples import WARNING

QUICK = {"n_clusters": 2, "epochs": 2, "min_steps": 1, "noise": 3, "capacity": 0.1}
NETWORKS = {"generator", "discriminator", "epochs"}


def make_clients(*sizes):
    rng = torch.Generator().manual_seed(1)
    return [Client(i, torch.rand(size, 5, generator=rng)) for i, size in enumerate(sizes)]


def run(method, fed):
    state, records = method.init(fed), []
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    return state, records


def test_the_record_says_that_synthetic_samples_left_the_clients():
    clients = make_clients(7, 9)
    _, records = run(SDAFCMethod(**QUICK), LocalFederation(clients))
    assert [record.values["phase"] for record in records] == ["training", "training", "synthesis"]
    assert records[-1].values["synthetic_samples"] == 16
    assert records[-1].values["warning"] == WARNING
    assert all("warning" not in record.values for record in records[:-1])
    assert {"generator_loss", "discriminator_loss"} <= records[0].values.keys()


def test_a_client_makes_as_many_as_it_is_asked_for():
    _, records = run(SDAFCMethod(**QUICK, synthetic_samples=4), LocalFederation(make_clients(7, 9, 1)))
    assert records[-1].values["synthetic_samples"] == 8  # a single sample trains no network


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


def test_a_client_is_asked_again_for_its_samples():
    clients = make_clients(7, 9)
    fed = LocalFederation(clients, failures=[(4, 0), (4, 1), (5, 1)])
    _, records = run(SDAFCMethod(**QUICK), fed)
    assert records[-1].values["synthetic_samples"] == 16
    assert records[-1].missing == {}


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


def test_without_synthetic_samples_there_is_nothing_to_cluster():
    with pytest.raises(FedkinError, match="No client sent synthetic samples"):
        run(SDAFCMethod(**QUICK), LocalFederation(make_clients(1, 1)))
