import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import fedkin
from fedkin.core.seeds import derive_generator
from fedkin.nn.networks import Dropout
from fedkin.nn.resident import Resident, pool_first, vector_of


def rng(*path):
    return derive_generator(0, "resident", *path)


def seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def convolutional(channels, activation=nn.ReLU):
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(channels, 4, 3),
            activation(),
            nn.MaxPool2d(2, padding=1),
            nn.Conv2d(4, 6, 2),
            nn.BatchNorm2d(6),
            activation(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(6, 3),
        )
    )


def batch(channels, n=16):
    return torch.rand(n, channels, 8, 8, generator=rng("x")), torch.arange(n) % 3


def plain_gradient(module, x, y):
    """Loss, gradient and the model after the batch, by autograd on an untouched copy."""
    module = copy.deepcopy(module)
    loss = cross_entropy(module(x), y)
    loss.backward()
    gradients = [torch.zeros_like(part) if part.grad is None else part.grad for part in module.parameters()]
    return loss.detach(), torch.cat([gradient.flatten() for gradient in gradients]), vector_of(module)


def assert_as_plain(module, x, y, channels_last):
    resident = Resident(module, channels_last)
    resident.load(vector_of(module))
    loss, gradients, after = plain_gradient(module, x, y)
    torch.testing.assert_close(resident.gradient(x, y), loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(resident.grad, gradients, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(resident.vector(), after, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, lambda: nn.ELU(-1.0)])
@pytest.mark.parametrize("n", [2, 16])
def test_layout_and_order_of_pooling_change_no_value(channels_last, channels, activation, n):
    assert_as_plain(convolutional(channels, activation).train(), *batch(channels, n), channels_last)


class Reversed(nn.Sequential):
    """A sequence that runs the other way round."""

    def forward(self, x):
        for part in reversed(self):
            x = part(x)
        return x


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Softmax(dim=1), nn.MaxPool2d(2)),
        nn.Sequential(nn.LeakyReLU(-0.5), nn.MaxPool2d(2)),
        nn.Sequential(nn.ReLU(), nn.AvgPool2d(2)),
        nn.Sequential(nn.ReLU(), nn.MaxPool2d(2, return_indices=True)),
        Reversed(nn.ReLU(), nn.MaxPool2d(2)),
    ],
)
def test_what_might_change_a_value_keeps_its_order(module):
    assert [type(part) for part in pool_first(copy.deepcopy(module))] == [type(part) for part in module]


def test_the_module_given_is_not_touched():
    module = convolutional(1)
    before, order = vector_of(module), [type(part) for part in module]
    resident = Resident(module, channels_last=True)
    resident.params.zero_()
    assert torch.equal(vector_of(module), before)
    assert [type(part) for part in module] == order


def test_loading_replaces_everything_counters_included():
    module = convolutional(1).train()
    resident = Resident(module, channels_last=False)
    start = vector_of(module)
    resident.gradient(*batch(1))
    assert resident.vector()[-1] == 1.0
    assert not torch.equal(resident.vector(), start)
    resident.load(start)
    assert torch.equal(resident.vector(), start)


def test_dropout_draws_from_the_generator_that_was_loaded():
    resident = Resident(nn.Sequential(nn.Flatten(), Dropout(0.5), nn.Linear(64, 3)).train(), channels_last=False)
    vector, (x, _) = resident.vector(), batch(1)

    def drawn(*path):
        resident.load(vector, rng(*path))
        return resident.output(x).detach()

    before = torch.get_rng_state()
    assert torch.equal(drawn("a"), drawn("a"))
    assert not torch.equal(drawn("a"), drawn("b"))
    assert torch.equal(torch.get_rng_state(), before)


class Functional(nn.Module):
    """Drops activations by a function, which draws from torch's global generator."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.last(nn.functional.dropout(self.first(x).relu(), training=self.training))


def test_what_a_module_draws_from_the_global_generator_is_seeded():
    x, y = torch.rand(40, 4, generator=rng("x")).numpy(), torch.arange(40).numpy() % 3
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        model = fedkin.FedAvg(module=Functional, rounds=3, random_state=0).fit([(x, y)] * 3)
        assert torch.equal(before, torch.get_rng_state())
        found.append(vector_of(model.models_[0]))
    assert torch.equal(*found)
    other = fedkin.FedAvg(module=Functional, rounds=3, random_state=1).fit([(x, y)] * 3)
    assert not torch.equal(found[0], vector_of(other.models_[0]))
