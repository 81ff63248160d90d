"""What all methods of clustered federated learning share: averages, optimisers, choices, sums."""

from typing import Any

import pytest
import torch
from torch import Tensor

import planted
from fedkin.core import Client, FedkinError, State
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.clients.fedopt import FedOptMethod
from fedkin.methods.clients.ifca import IFCAMethod
from fedkin.secure_aggregation.sums import secure

ONE_ROUND = planted.FULL_BATCH | {"rounds": 1}


def update(done: planted.Run, site: int) -> torch.Tensor:
    """The update that a client owes in the first round."""
    start, client = done.states[0], done.fed.clients[site]
    return -0.5 * planted.gradient(start.module, start.models[0], client.x, client.y)


def moved(done: planted.Run) -> torch.Tensor:
    return done.states[1].models[0] - done.states[0].models[0]


def test_one_client_with_one_step_is_gradient_descent():
    done = planted.run(FedAvgMethod(**(planted.FULL_BATCH | {"rounds": 5})), [planted.client(0)])
    model, client = done.states[0].models[0], done.fed.clients[0]
    for state in done.states[1:]:
        model = model - 0.5 * planted.gradient(state.module, model, client.x, client.y)
        assert torch.allclose(state.models[0], model, atol=1e-6)


def test_updates_count_by_samples_or_all_the_same():
    clients = [planted.client(0, samples=12), planted.client(1, planted.LEVELS[3], samples=36)]
    by_samples = planted.run(FedAvgMethod(**ONE_ROUND), clients)
    by_clients = planted.run(FedAvgMethod(**ONE_ROUND, weighting="clients"), clients)
    one, other = update(by_samples, 0), update(by_samples, 1)
    assert torch.allclose(moved(by_samples), 0.25 * one + 0.75 * other, atol=1e-6)
    assert torch.allclose(moved(by_clients), 0.5 * one + 0.5 * other, atol=1e-6)
    assert not torch.allclose(moved(by_clients), moved(by_samples), atol=1e-3)


def test_the_proximal_term_pulls_towards_the_start():
    settings = ONE_ROUND | {"local_steps": 2}
    done = planted.run(FedAvgMethod(**settings, proximal=0.7), [planted.client(0)])
    start, client = done.states[0], done.fed.clients[0]
    first = start.models[0] - 0.5 * planted.gradient(start.module, start.models[0], client.x, client.y)
    pull = 0.7 * (first - start.models[0])
    second = first - 0.5 * (planted.gradient(start.module, first, client.x, client.y) + pull)
    assert torch.allclose(done.states[1].models[0], second, atol=1e-6)
    free = planted.run(FedAvgMethod(**settings), [planted.client(0)])
    assert moved(done).norm() < moved(free).norm()


ETA, BETA1, BETA2, TAU = 0.07, 0.8, 0.95, 0.01
SETTINGS = planted.FULL_BATCH | {
    "server_learning_rate": ETA,
    "decay": BETA1,
    "square_decay": BETA2,
    "adaptivity": TAU,
}


def by_hand(name: str, m: Tensor, v: Tensor, delta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One round of the algorithm: m, v and the step, in double precision."""
    if name == "momentum":
        m = BETA1 * m + delta
        return m, v, ETA * m
    m = BETA1 * m + (1 - BETA1) * delta
    v = {
        "adagrad": v + delta**2,
        "yogi": v - (1 - BETA2) * delta**2 * torch.sign(v - delta**2),
        "adam": BETA2 * v + (1 - BETA2) * delta**2,
    }[name]
    return m, v, ETA * m / (v**0.5 + TAU)


@pytest.mark.parametrize("name", ["adam", "yogi", "adagrad", "momentum"])
def test_two_rounds_follow_the_formulas(name):
    done = planted.run(FedOptMethod(**SETTINGS, rounds=2, server_optimizer=name), [planted.client(0)])
    client, model = done.fed.clients[0], done.states[0].models[0].double()
    m, v = torch.zeros_like(model), torch.full_like(model, TAU**2)
    for state in done.states[1:]:
        delta = -0.5 * planted.gradient(state.module, model.float(), client.x, client.y).double()
        m, v, step = by_hand(name, m, v, delta)
        model = model + step
        assert torch.allclose(state.models[0].double(), model, atol=2e-6)
        assert torch.allclose(state.mean[0].double(), m, atol=1e-6)
        if name != "momentum":
            assert torch.allclose(state.square[0].double(), v, atol=1e-6)


def federation(clients: list[Client], **engine: object) -> LocalFederation:
    return LocalFederation(clients, workers=1, **engine)


def test_clients_without_a_cluster_join_that_of_the_model_with_the_lowest_loss():
    fed = federation(planted.clients([0, 3, 0], planted.LEVELS), failures=[(2, 2)])
    method = FedAvgMethod(**planted.LEARNING)
    state = method.init(fed)
    models = torch.randn(3, state.models.shape[1], generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([-1, -1, -1])
    assert list(method.place_by_loss(fed, state.next(models=models), [0, 1, 2], labels)) == [2]
    assert labels[2] == -1
    for client in (0, 1):
        own = fed.clients[client]
        found = planted.losses(state.module, models, own.x, own.y)
        assert labels[client] == found.index(min(found))


@pytest.mark.parametrize(("participation", "count"), [(1.0, 7), (0.5, 4), (0.3, 2), (0.001, 1)])
def test_participants_are_drawn_anew_in_every_round_and_from_the_seed(participation, count):
    sites = planted.clients([0] * 7)
    method = FedAvgMethod(participation=participation)
    drawn = [method.participants(federation(sites, seed=1), State(steps=steps)) for steps in range(40)]
    assert all(len(set(ids)) == count and ids == sorted(ids) for ids in drawn)
    assert {client for ids in drawn for client in ids} == set(range(7))
    assert drawn == [method.participants(federation(sites, seed=1), State(steps=steps)) for steps in range(40)]


ROUNDS = planted.LEARNING | {"rounds": 4}
SIZES = [12, 24, 18, 30, 24, 36]


def sites(clusters: list[int]) -> list[Any]:
    return [
        planted.client(i, planted.OPPOSITE[cluster], size)
        for i, (cluster, size) in enumerate(zip(clusters, SIZES, strict=False))
    ]


@pytest.mark.parametrize(
    "method",
    [
        FedAvgMethod(**ROUNDS),
        FedAvgMethod(**ROUNDS, weighting="clients"),
        FedAvgMethod(**(ROUNDS | {"module": "planted:normalised"})),
        FedOptMethod(**ROUNDS),
        IFCAMethod(**ROUNDS, n_clusters=3),
        IFCAMethod(**(ROUNDS | {"module": "planted:normalised"}), n_clusters=3, shared_layers=1, weighting="clients"),
        IFCAMethod(**ROUNDS, n_clusters=3, identity="batch"),
    ],
    ids=repr,
)
def test_models_are_those_of_the_sums_in_the_open(method):
    clusters = [0, 1, 0, 1, 0, 1]
    plain, hidden = (planted.run(method, sites(clusters), secure_sums=secret, seed=1) for secret in (False, True))
    if isinstance(method, IFCAMethod):  # neither cluster is too small for a sum
        assert planted.same_partition(plain.labels, clusters)
    for open_, secret in zip(plain.states, hidden.states, strict=True):
        torch.testing.assert_close(secret.models, open_.models, rtol=0, atol=1e-6)
        assert torch.equal(secret.labels, open_.labels)
    assert not torch.equal(plain.states[0].models, plain.states[-1].models)
    for open_, secret in zip(plain.records, hidden.records, strict=True):
        assert secret.answered == open_.answered
        assert secret.values["loss"] == pytest.approx(open_.values["loss"], abs=1e-6)
        assert secret.values["losses"] == {}  # nobody knows them
        assert len(open_.values["losses"]) == 6


def test_where_too_few_are_left_the_model_stays():
    done = planted.run(FedAvgMethod(**ROUNDS), sites([0] * 3), secure_sums=True, failures=[(3, 1)])
    assert torch.equal(done.states[1].models, done.states[0].models)
    assert done.records[0].answered == []
    assert done.values[0]["loss"] is None
    assert done.records[0].missing == {
        0: "fewer than 3 clients to sum over",
        1: "lost on purpose",
        2: "fewer than 3 clients to sum over",
    }
    assert done.records[1].answered == [0, 1, 2]


def test_too_small_a_share_is_refused():
    fed = LocalFederation(sites([0] * 6), workers=1)
    method = FedAvgMethod(**ROUNDS, participation=0.3)
    secure(fed)
    with pytest.raises(FedkinError, match="needs at least 3 clients, but only 2 would take part"):
        method.step(fed, method.init(fed))
