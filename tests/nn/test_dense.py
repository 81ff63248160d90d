"""Gradients written by hand for perceptrons are autograd's."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from fedkin.core.seeds import derive_generator
from fedkin.nn.resident import DenseResident, Resident, is_dense, vector_of


def dense(widths, flatten=True):
    """Linear layers with ReLUs between them, drawn from the number of units."""
    layers = [nn.Flatten()] if flatten else []
    for at, (inputs, outputs) in enumerate(pairwise(widths)):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        rng = derive_generator(0, "dense", at)
        with torch.no_grad():
            for parameter in layers[-2].parameters():
                parameter.normal_(0, 0.5, generator=rng)
    return nn.Sequential(*layers[:-1])


def tied():
    first, last = nn.Linear(4, 4), nn.Linear(4, 4)
    last.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), last)


def frozen():
    module = dense((4, 5, 3))
    module[1].requires_grad_(False)
    return module


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=5),
    st.integers(1, 12),
    st.floats(0.1, 30.0),
    st.integers(0, 999),
)
def test_the_gradient_by_hand_is_autograds(widths, n, spread, seed):
    module = dense(widths)
    rng = derive_generator(seed, "batch")
    x = spread * torch.randn(n, widths[0], generator=rng)
    y = torch.randint(widths[-1], (n,), generator=rng)
    resident = DenseResident(copy.deepcopy(module))
    loss = cross_entropy(module(x), y)
    loss.backward()
    for _ in range(2):  # nothing is left over from the first time
        torch.testing.assert_close(resident.gradient(x, y), loss.detach(), rtol=1e-4, atol=1e-5)
        expected = torch.cat([parameter.grad.flatten() for parameter in module.parameters()])
        torch.testing.assert_close(resident.grad, expected, rtol=1e-4, atol=1e-4 * spread)


def test_steps_by_hand_are_autograds():
    module, rng = dense((12, 5, 3)), derive_generator(0, "images")
    x, y = torch.randn(10, 3, 2, 2, generator=rng), torch.arange(10) % 3
    before, order = x.clone(), torch.randperm(10, generator=rng)
    plain, resident = Resident(module, False), DenseResident(module)
    found, expected = (one.train_batches(x, y, order.split(4), 0.5) for one in (resident, plain))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(resident.vector(), plain.vector())
    assert not torch.equal(resident.vector(), vector_of(module))
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(4, 3),
        nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 3)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 3)),
        nn.Sequential(type("Half", (nn.Linear,), {})(4, 3), nn.Linear(3, 3)),
        tied(),
        frozen(),
    ],
)
def test_nothing_else_is_taken_for_one(module):
    assert not is_dense(module)
