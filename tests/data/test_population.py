import dataclasses

import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.data.population import Drift, Population


def test_some_clients_may_never_take_part():
    people = Population([Client(i, torch.ones(2, 3)) for i in range(10)], None, [])
    without = people.without(0.3, seed=5)
    assert len(without.absent) == 3
    assert without.away(0) == without.away(99) == set(without.absent)
    assert without.absent == people.without(0.3, seed=5).absent != people.without(0.3, seed=6).absent
    assert people.without(0.0, seed=5).absent == ()


def people_with_everything():
    clients = [Client(i, torch.full((2, 3), float(i)), torch.tensor([0, 1]), {"n": torch.tensor(i)}) for i in range(3)]
    tests = [(torch.full((1, 3), float(i)), torch.tensor([1])) for i in range(3)]
    drift = Drift(2, torch.tensor([1, 2]), lambda i, x, y: (x, y), torch.zeros(3, dtype=torch.int64))
    arrivals = torch.tensor([0, 5, 0])
    truth = [client.y for client in clients]
    return Population(clients, truth, ["a", "b"], tests=tests, drift=drift, arrivals=arrivals)


def test_who_is_forgotten_has_nothing_and_is_away_for_good():
    people = people_with_everything()
    left = people.forgetting([1])
    assert left.forgotten == (1,)
    assert left.away(0) == left.away(99) == {1}
    assert [len(client) for client in left.clients] == [2, 0, 2]
    assert left.clients[1].state == {}
    assert [len(y) for y in left.truth] == [2, 0, 2]
    assert [len(y) for _, y in left.tests] == [1, 0, 1]
    assert left.drift.clients.tolist() == [2]
    assert left.arrivals.tolist() == [0, 0, 0]
    assert left.without(0.6, seed=0).away(0) >= {1}
    assert len(people.clients[1]) == 2
    assert people.forgetting([]) is people


def test_the_place_of_a_file_that_is_gone_is_kept():
    clients = [Client(i, torch.full((2, 3), float(i))) for i in range(2)]
    people = Population(clients, [torch.tensor([0, 1])] * 2, ["a", "b"], names=["a.npz", "c.npz"])
    left = people.forgetting(["b.npz"])
    assert left.names == ["a.npz", "b.npz", "c.npz"]
    assert [client.id for client in left.clients] == [0, 1, 2]
    assert left.forgotten == (1,)
    assert float(left.clients[2].x.mean()) == 1.0
    assert [len(y) for y in left.truth] == [2, 0, 2]
    with pytest.raises(FedkinError, match="has no place"):
        dataclasses.replace(people, tests=[(torch.ones(1, 3), torch.zeros(1))] * 2).forgetting(["b.npz"])
    with pytest.raises(FedkinError, match=r"names client 'b\.npz', which has no place"):
        dataclasses.replace(people, names=["c.npz", "a.npz"]).forgetting(["b.npz"])


def test_somebody_must_be_left():
    with pytest.raises(FedkinError, match="names all clients; at least one must be left"):
        people_with_everything().forgetting([0, 1, 2])
    with pytest.raises(FedkinError, match="names client 3; allowed: 0 to 2"):
        people_with_everything().forgetting([3])
