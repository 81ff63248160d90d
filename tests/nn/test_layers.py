"""Cheaper layers give the values and gradients of torch's."""

import copy

import pytest
import torch
from torch import nn

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.nn.descent import AdamMoments
from fedkin.nn.networks import (
    Dropout,
    PairwiseMaxPool,
    TanhBySigmoid,
    set_generator,
    with_cheap_layers,
    with_own_dropout,
)


def with_generator(layer, seed=0):
    set_generator(layer, derive_generator(seed))
    return layer


def test_only_its_own_generator_is_drawn_from():
    before = torch.get_rng_state()
    first, second = (with_generator(Dropout(0.5), seed=3) for _ in range(2))
    x = torch.ones(100)
    once = first(x)
    assert not torch.equal(first(x), once)
    assert torch.equal(second(x), once)
    assert torch.equal(torch.get_rng_state(), before)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)
        self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Dropout2d(0.1), nn.Sequential(self.drop, nn.Flatten()))
        self.head = nn.Linear(2, 2)
        self.absent = None
        self.register_module("nothing", None)


def test_every_dropout_is_replaced_in_place():
    net = Net()
    keys = list(net.state_dict())
    assert with_own_dropout(net) is net
    assert not any(isinstance(layer, nn.Dropout | nn.Dropout2d) for layer in net.modules())
    assert (net.drop.p, net.drop.whole_channels) == (0.3, False)
    assert (net.body[1].p, net.body[1].whole_channels) == (0.1, True)
    assert net.body[2][0] is net.drop
    assert list(net.state_dict()) == keys


@pytest.mark.parametrize(
    "layer", [nn.AlphaDropout(0.1), nn.RReLU(), nn.LSTM(2, 2, 2, dropout=0.1), nn.MultiheadAttention(2, 1, dropout=0.1)]
)
def test_layers_with_hidden_random_numbers_are_refused_by_name(layer):
    with pytest.raises(FedkinError, match=rf"'1' \({type(layer).__name__}\)"):
        with_own_dropout(nn.Sequential(nn.Linear(2, 2), layer))


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
def test_pooling_is_torchs(shape, last):
    cheap, plain = PairwiseMaxPool(2), nn.MaxPool2d(2)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    if last and len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(cheap(x), plain(x))
    x[..., 0, 0] = torch.nan
    assert torch.equal(cheap(x).isnan(), plain(x).isnan())
    x.requires_grad_()
    assert cheap(x).grad_fn.name() == plain(x).grad_fn.name()


def test_only_layers_of_the_same_value_are_replaced():
    other = [nn.MaxPool2d(3), nn.MaxPool2d(2, stride=1), nn.MaxPool2d(2, padding=1), nn.MaxPool2d(2, ceil_mode=True)]
    other += [nn.MaxPool2d(2, dilation=2), nn.AvgPool2d(2), nn.MaxPool2d(2, return_indices=True)]
    module = nn.Sequential(nn.Sequential(nn.Tanh(), nn.MaxPool2d((2, 2))), *other)
    kinds = [type(part) for part in module[1:]]
    found = with_cheap_layers(copy.deepcopy(module))
    assert [type(part) for part in found[0]] == [TanhBySigmoid, PairwiseMaxPool]
    assert [type(part) for part in found[1:]] == kinds
    assert isinstance(with_cheap_layers(nn.Tanh()), TanhBySigmoid)


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
