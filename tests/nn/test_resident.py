import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedkin.core.seeds import derive_generator
from fedkin.nn.networks import Dropout
from fedkin.nn.resident import Resident, vector_of


def resident_rng(*path):
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
    return torch.rand(n, channels, 8, 8, generator=resident_rng("x")), torch.arange(n) % 3


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


def test_dropout_draws_from_the_generator_that_was_loaded():
    resident = Resident(nn.Sequential(nn.Flatten(), Dropout(0.5), nn.Linear(64, 3)).train(), channels_last=False)
    vector, (x, _) = resident.vector(), batch(1)

    def drawn(*path):
        resident.load(vector, resident_rng(*path))
        return resident.output(x).detach()

    before = torch.get_rng_state()
    assert torch.equal(drawn("a"), drawn("a"))
    assert not torch.equal(drawn("a"), drawn("b"))
    assert torch.equal(torch.get_rng_state(), before)
