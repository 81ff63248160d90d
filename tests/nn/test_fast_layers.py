"""Cheaper layers give the values and gradients of torch's."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedkin.nn.client_stack import with_products
from fedkin.nn.descent import AdamMoments
from fedkin.nn.networks import PairwiseAvgPool, PairwiseMaxPool, TanhBySigmoid, with_cheap_layers


@pytest.mark.parametrize("n", [10, 20_000])
def test_tanh_is_torchs_up_to_rounding(n):
    x = torch.linspace(-12, 12, n).requires_grad_()
    plain, cheap = nn.Tanh()(x), TanhBySigmoid()(x)
    torch.testing.assert_close(cheap, plain, rtol=0, atol=2e-7)
    gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (plain, cheap)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(TanhBySigmoid()(x.detach()), plain.detach(), rtol=0, atol=2e-7)


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 1, 7, 5), (3, 6, 6)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("cheap", "plain"), [(PairwiseMaxPool(2), nn.MaxPool2d(2)), (PairwiseAvgPool(2), nn.AvgPool2d(2))]
)
def test_pooling_is_torchs(shape, last, cheap, plain):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    if last and len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(cheap(x), plain(x), rtol=0, atol=1e-6 * isinstance(plain, nn.AvgPool2d))
    x[..., 0, 0] = torch.nan
    assert torch.equal(cheap(x).isnan(), plain(x).isnan())
    x.requires_grad_()
    assert cheap(x).grad_fn.name() == plain(x).grad_fn.name()


def test_only_layers_of_the_same_value_are_replaced():
    other = [nn.MaxPool2d(3), nn.MaxPool2d(2, stride=1), nn.MaxPool2d(2, padding=1), nn.MaxPool2d(2, ceil_mode=True)]
    other += [nn.MaxPool2d(2, dilation=2), nn.AvgPool2d(3), nn.AvgPool2d(2, 1), nn.AvgPool2d(2, divisor_override=3)]
    module = nn.Sequential(
        nn.Sequential(nn.Tanh(), nn.MaxPool2d((2, 2)), nn.AvgPool2d(2)), nn.MaxPool2d(2, return_indices=True), *other
    )
    kinds = [type(part) for part in module[1:]]
    found = with_cheap_layers(copy.deepcopy(module))
    assert [type(part) for part in found[0]] == [TanhBySigmoid, PairwiseMaxPool, PairwiseAvgPool]
    assert [type(part) for part in found[1:]] == kinds
    assert isinstance(with_cheap_layers(nn.Tanh()), TanhBySigmoid)


PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(kernel=PAIRS, stride=PAIRS, dilation=PAIRS, padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
       channels=PAIRS, bias=st.booleans(), sides=st.tuples(st.integers(7, 9), st.integers(7, 9)))  # fmt: skip
def test_products_have_the_values_and_gradients_of_a_convolution(
    kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], padding: tuple[int, int],
    channels: tuple[int, int], bias: bool, sides: tuple[int, int],
) -> None:  # fmt: skip
    x = torch.rand(3, channels[0], *sides, generator=torch.Generator().manual_seed(0)).double()
    layer = nn.Conv2d(*channels, kernel, stride, padding, dilation, bias=bias).double()
    expected = layer(x)
    expected.square().sum().backward()
    gradients = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    found = with_products(layer)(x)
    found.square().sum().backward()
    assert torch.allclose(found, expected)
    for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert gradient is not None
        assert torch.allclose(parameter.grad, gradient)


def test_steps_are_those_of_torch_and_go_on_from_what_was_kept():
    rng = torch.Generator().manual_seed(0)
    params, gradients = torch.randn(7, generator=rng), torch.randn(5, 7, generator=rng)
    theirs = params.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    state: dict[str, torch.Tensor] = {}
    for gradient in gradients:
        moments = AdamMoments.kept(state, 7)
        moments.step(params, gradient, 0.1)
        moments.keep(state)
        theirs.grad = gradient.clone()
        optimizer.step()
    assert torch.allclose(params, theirs.detach(), atol=1e-6)
    assert float(state["adam_steps"]) == 5
