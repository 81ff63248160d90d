from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.seeds import derive_generator
from fedkin.nn.stack import Autoencoder, Gradient, widths_for


def stack_of(model, count, seed=0):
    return model.initial([derive_generator(seed, k) for k in range(count)])


def by_hand(model, flat, x):
    """The same network written with autograd."""
    hidden = x
    parts = model.split(flat[None])
    for index, (weight, bias) in enumerate(parts):
        hidden = hidden @ weight[0] + bias[0]
        if index < len(parts) - 1:
            hidden = hidden.relu()
    made = hidden.sigmoid() if model.output == "sigmoid" else hidden
    return (made - x).square().mean(dim=1)


def test_models_are_glorot_uniform_with_zero_biases_and_their_own_draws():
    model = Autoencoder((784, 100, 64, 32))
    stack = stack_of(model, 2)
    (weight, bias), *_ = model.split(stack)
    assert weight.abs().max() <= (6 / 884) ** 0.5
    assert weight.std() == pytest.approx((2 / 884) ** 0.5, rel=0.02)
    assert not bias.any()
    assert not torch.equal(stack[0], stack[1])
    assert torch.equal(stack[1], model.initial([derive_generator(0, 1)])[0])


@pytest.mark.parametrize("output", ["sigmoid", "linear"])
def test_errors_and_gradients_are_autograds(output):
    model = Autoencoder((12, 7, 3), output)
    stack = stack_of(model, 3)
    x = torch.rand(3, 5, 12, generator=derive_generator(1))
    errors = model.errors(stack, x)
    gradient = Gradient(model, stack, 5)
    gradient.batch.copy_(x)
    weights = torch.full((3, 5, 1), 1 / 5)
    gradient(3, weights)
    for k in range(3):
        flat = stack[k].clone().requires_grad_()
        expected = by_hand(model, flat, x[k])
        expected.mean().backward()
        torch.testing.assert_close(errors[k], expected.detach())
        torch.testing.assert_close(gradient.gradient[k], flat.grad, rtol=1e-4, atol=1e-7)


@given(st.integers(1, 5000))
def test_widths_narrow_towards_a_code_smaller_than_the_data(features):
    first, *hidden = widths_for(features)
    assert first == features
    assert all(wide >= narrow for wide, narrow in pairwise(hidden))
    assert hidden[-1] < features or features == 1
    assert widths_for(784) == (784, 100, 64, 32)
