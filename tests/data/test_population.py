import dataclasses

import torch

from fedkin.core import Client
from fedkin.data.population import Population


class Tenfold:
    def apply(self, x, columns=None, where=""):
        return 10 * x


def test_preparing_reaches_all_tests_and_nothing_else():
    client = Client(0, torch.ones(2, 3), torch.zeros(2, dtype=torch.int64))
    labels = torch.tensor([1, 0])
    before = Population(
        [client], [client.y], ["a", "b"], tests=[(torch.ones(2, 3), labels)], common_test=(torch.ones(2, 3), labels)
    )
    after = before.prepared(Tenfold())
    assert torch.equal(after.tests[0][0], torch.full((2, 3), 10.0))
    assert torch.equal(after.common_test[0], torch.full((2, 3), 10.0))
    assert after.tests[0][1] is labels
    assert after.common_test[1] is labels
    assert torch.equal(after.clients[0].x, torch.ones(2, 3))
    assert torch.equal(before.tests[0][0], torch.ones(2, 3))


def test_without_tests_there_is_nothing_to_prepare():
    after = Population([Client(0, torch.ones(2, 1, 4, 5))], None, []).prepared(Tenfold())
    assert after.tests == []
    assert after.common_test is None
    assert after.kind == "image"
    assert after.image_shape == (1, 4, 5)


def test_some_clients_may_never_take_part():
    people = Population([Client(i, torch.ones(2, 3)) for i in range(10)], None, [])
    without = people.without(0.3, seed=5)
    assert len(without.absent) == 3
    assert without.away(0) == without.away(99) == set(without.absent)
    assert without.absent == people.without(0.3, seed=5).absent != people.without(0.3, seed=6).absent
    assert people.without(0.0, seed=5).absent == ()


def test_at_least_one_client_takes_part():
    people = Population([Client(i, torch.ones(2, 3)) for i in range(3)], None, [])
    assert len(people.without(0.99, seed=0).absent) == 2


def test_who_is_absent_and_who_is_late_are_both_away():
    people = Population([Client(i, torch.ones(2, 3)) for i in range(3)], None, [], arrivals=torch.tensor([0, 4, 0]))
    both = dataclasses.replace(people, absent=(2,))
    assert (both.away(0), both.away(4)) == ({1, 2}, {2})
