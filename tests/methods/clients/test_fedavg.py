"""Federated averaging is told by hand: with full batches and one step it is gradient descent."""

import pytest
import torch

import planted
from fedkin.methods.clients.fedavg import FedAvgMethod, LocalMethod

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


@pytest.mark.parametrize(("participation", "count"), [(0.5, 4), (0.01, 1), (1.0, 8)])
def test_a_fraction_of_the_clients_takes_part_drawn_from_the_seed(participation, count):
    method = FedAvgMethod(**(planted.FULL_BATCH | {"rounds": 6}), participation=participation)
    asked, again, other = (
        [record.answered for record in planted.run(method, planted.clients([0] * 8), seed=seed).records]
        for seed in (3, 3, 4)
    )
    assert {len(round_) for round_ in asked} == {count}
    assert asked == again
    if count < 8:
        assert asked != other
        assert len(set(map(tuple, asked))) > 1


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


def test_a_lost_client_does_not_count():
    sites = planted.clients([0, 3, 3])
    done = planted.run(FedAvgMethod(**ONE_ROUND), sites, failures=[(2, 1)])
    assert list(done.records[0].missing) == [1]
    assert done.records[0].answered == [0, 2]
    assert torch.allclose(moved(done), (update(done, 0) + update(done, 2)) / 2, atol=1e-6)


def test_a_round_without_any_answer_changes_nothing():
    done = planted.run(FedAvgMethod(**ONE_ROUND), planted.clients([0, 1]), failures=[(2, 0), (2, 1)])
    assert torch.equal(done.states[1].models, done.states[0].models)
    assert done.values[0]["loss"] is None
    assert done.records[0].answered == []


def test_alone_every_client_trains_as_if_there_were_no_other():
    sites = planted.clients([0, 1, 2])
    together = planted.run(LocalMethod(**(planted.FULL_BATCH | {"rounds": 3})), sites)
    assert together.labels == [0, 1, 2]
    assert together.exchanges == [1, 1, 1]
    for number, client in enumerate(sites):
        alone = planted.run(FedAvgMethod(**(planted.FULL_BATCH | {"rounds": 3})), planted.permuted([client], [0]))
        assert torch.allclose(together.states[-1].models[number], alone.states[-1].models[0], atol=1e-6)
