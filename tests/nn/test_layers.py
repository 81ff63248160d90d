"""Layers whose random numbers are a client's own, and Adam's steps."""

import pytest
import torch
from torch import nn

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.nn.descent import AdamMoments
from fedkin.nn.networks import Dropout, set_generator, with_own_dropout


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


@pytest.mark.parametrize(
    "layer", [nn.AlphaDropout(0.1), nn.RReLU(), nn.LSTM(2, 2, 2, dropout=0.1), nn.MultiheadAttention(2, 1, dropout=0.1)]
)
def test_layers_with_hidden_random_numbers_are_refused_by_name(layer):
    with pytest.raises(FedkinError, match=rf"'1' \({type(layer).__name__}\)"):
        with_own_dropout(nn.Sequential(nn.Linear(2, 2), layer))


def test_steps_are_those_of_torch_and_go_on_from_what_was_kept():
    rng = torch.Generator().manual_seed(0)
    params, gradients = torch.randn(7, generator=rng), torch.randn(5, 7, generator=rng)
    theirs = params.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    state: dict[str, torch.Tensor] = {}
    for gradient in gradients:
        moments = AdamMoments.of_client(state, 7)
        moments.step(params, gradient, 0.1)
        moments.keep(state)
        theirs.grad = gradient.clone()
        optimizer.step()
    assert torch.allclose(params, theirs.detach(), atol=1e-6)
    assert float(state["adam_steps"]) == 5
