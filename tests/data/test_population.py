import torch

from fedkin.core import Client
from fedkin.data.population import Population


class Tenfold:
    def apply(self, x):
        return 10 * x


def test_scaling_reaches_all_tests_and_nothing_else():
    client = Client(0, torch.ones(2, 3), torch.zeros(2, dtype=torch.int64))
    labels = torch.tensor([1, 0])
    before = Population(
        [client], [client.y], ["a", "b"], tests=[(torch.ones(2, 3), labels)], common_test=(torch.ones(2, 3), labels)
    )
    after = before.scaled(Tenfold())
    assert torch.equal(after.tests[0][0], torch.full((2, 3), 10.0))
    assert torch.equal(after.common_test[0], torch.full((2, 3), 10.0))
    assert after.tests[0][1] is labels
    assert after.common_test[1] is labels
    assert torch.equal(after.clients[0].x, torch.ones(2, 3))
    assert torch.equal(before.tests[0][0], torch.ones(2, 3))


def test_without_tests_there_is_nothing_to_scale():
    after = Population([Client(0, torch.ones(2, 1, 4, 5))], None, []).scaled(Tenfold())
    assert after.tests == []
    assert after.common_test is None
    assert after.kind == "image"
    assert after.image_shape == (1, 4, 5)
