import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.nn.networks import Dropout, set_generator, takes_convolutions, with_own_dropout


def with_generator(layer, seed=0):
    set_generator(layer, derive_generator(seed))
    return layer


def test_training_without_a_generator_is_refused():
    with pytest.raises(RuntimeError, match="set_generator"):
        Dropout(0.5)(torch.ones(3))


def test_nothing_is_dropped_in_evaluation_or_at_zero():
    x = torch.ones(5, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@given(st.floats(0.05, 0.95), st.integers(0, 2**31))
def test_what_is_kept_keeps_the_mean(p, seed):
    y = with_generator(Dropout(p), seed)(torch.ones(20_000))
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1 / (1 - p)).item()}
    spread = (p / (1 - p) / len(y)) ** 0.5
    assert abs(y.mean().item() - 1) < 7 * spread


def test_everything_may_be_dropped():
    assert not with_generator(Dropout(1.0))(torch.ones(10)).any()


def test_whole_channels_are_dropped_or_kept():
    y = with_generator(Dropout(0.5, whole_channels=True))(torch.ones(8, 16, 3, 3))
    assert torch.equal(y, y[:, :, :1, :1].expand_as(y))
    assert 0 < (y == 0).float().mean() < 1


def test_gradients_pass_where_values_did():
    x = torch.ones(50, requires_grad=True)
    y = with_generator(Dropout(0.4))(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_only_its_own_generator_is_drawn_from():
    before = torch.get_rng_state()
    first, second = (with_generator(Dropout(0.5), seed=3) for _ in range(2))
    x = torch.ones(100)
    once = first(x)
    assert not torch.equal(first(x), once)
    assert torch.equal(second(x), once)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_copy_has_no_generator():
    layer = with_generator(Dropout(0.5))
    assert copy.deepcopy(layer).generator is None
    assert layer.generator is not None


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_shares_outside_of_0_to_1_are_refused(p):
    with pytest.raises(FedkinError, match="0 to 1"):
        Dropout(p)


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


def test_a_layer_used_twice_by_one_parent_is_replaced_twice():
    drop = nn.Dropout(0.2)
    net = with_own_dropout(nn.Sequential(nn.Linear(2, 2), drop, nn.Linear(2, 2), drop))
    assert isinstance(net[1], Dropout)
    assert net[3] is net[1]


def test_a_lone_dropout_is_returned_as_another():
    made = with_own_dropout(nn.Dropout(0.2).eval())
    assert isinstance(made, Dropout)
    assert not made.training


def test_replacing_again_changes_nothing():
    net = with_own_dropout(nn.Sequential(nn.Dropout(0.2)))
    layer = net[0]
    assert with_own_dropout(net)[0] is layer


@pytest.mark.parametrize(
    "layer", [nn.AlphaDropout(0.1), nn.RReLU(), nn.LSTM(2, 2, 2, dropout=0.1), nn.MultiheadAttention(2, 1, dropout=0.1)]
)
def test_layers_with_hidden_random_numbers_are_refused_by_name(layer):
    with pytest.raises(FedkinError, match=rf"'1' \({type(layer).__name__}\)"):
        with_own_dropout(nn.Sequential(nn.Linear(2, 2), layer))


def test_the_same_layers_without_dropout_are_welcome():
    with_own_dropout(nn.Sequential(nn.LSTM(2, 2), nn.MultiheadAttention(2, 1)))


def test_a_generator_reaches_every_dropout_and_can_be_taken_away():
    net = nn.Sequential(Dropout(0.1), nn.Sequential(Dropout(0.2)))
    generator = derive_generator(0)
    set_generator(net, generator)
    assert net[0].generator is generator
    assert net[1][0].generator is generator
    set_generator(net, None)
    assert net[1][0].generator is None


def test_small_sides_and_vectors_are_no_images():
    assert takes_convolutions((1, 8, 8))
    assert not takes_convolutions((1, 8, 7))
    assert not takes_convolutions((64,))
