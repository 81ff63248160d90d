"""What all methods of clustered federated learning share."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import planted
from fedkin.core import Client, State
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import ClientMethod, losses, renumbered
from fedkin.methods.clients.fedavg import FedAvgMethod


def federation(clients: list[Client], **engine: object) -> LocalFederation:
    return LocalFederation(clients, workers=1, **engine)


@given(st.lists(st.integers(-3, 9)))
def test_equal_partitions_get_equal_numbers(labels):
    numbers = renumbered(labels)
    assert planted.same_partition(labels, numbers)
    assert numbers == renumbered([-label for label in labels])
    seen: list[int] = []
    for number in numbers:
        assert number <= len(seen)
        if number == len(seen):
            seen.append(number)


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


def test_newcomers_get_the_model_of_least_loss():
    done = planted.run(FedAvgMethod(**(planted.LEARNING | {"rounds": 20})), [planted.client(0)])
    good = done.result["models"]
    new = planted.client(5)
    for at, models in ((1, torch.cat([-good, good])), (0, torch.cat([good, -good]))):
        result = done.result | {"models": models}
        assert ClientMethod.assign(result, new) == at
    diverged = done.result | {"models": torch.cat([torch.full_like(good, torch.nan), -good])}
    assert ClientMethod.assign(diverged, new) == 1


def test_losses_are_mean_cross_entropies():
    done = planted.run(FedAvgMethod(**planted.FULL_BATCH, rounds=2), planted.clients([0, 1]))
    models = torch.cat([state.models for state in done.states])
    client, module = done.fed.clients[1], done.states[0].module
    expected = planted.losses(module, models, client.x, client.y)
    (reply,) = losses.run([client], [{"module": module, "models": models}])
    assert reply["losses"].tolist() == pytest.approx(expected, rel=1e-5)
