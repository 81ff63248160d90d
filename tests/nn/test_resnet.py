import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.nn.resnet import Block, resnet

TINY = {"name": "tiny", "blocks": (1, 1, 1, 1)}


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("blocks", "options", "classes", "count"),
    [
        ((2, 2, 2, 2), {}, 10, 11_173_962),
        ((3, 4, 6, 3), {}, 10, 21_282_122),
        ((2, 2, 2, 2), {"norm": "group"}, 10, 11_173_962),
        ((3, 4, 6, 3), {"norm": "group"}, 10, 21_282_122),
        ((2, 2, 2, 2), {"stem": "imagenet"}, 10, 11_181_642),
        ((2, 2, 2, 2), {"stem": "imagenet"}, 1000, 11_689_512),
    ],
)
def test_sizes_are_the_known_ones(blocks, options, classes, count):
    with torch.device("meta"):
        assert parameters(resnet((3, 32, 32), classes, name="r", blocks=blocks, **options)) == count


@pytest.mark.parametrize(
    ("stem", "side", "seen"), [("small", 32, [32, 32, 16, 8, 4]), ("imagenet", 64, [16, 16, 8, 4, 2])]
)
def test_images_shrink_where_they_should(stem, side, seen):
    with torch.device("meta"):
        module = resnet((3, side, side), 5, stem=stem, **TINY)
        x, sides = torch.zeros(2, 3, side, side), []
        for layer in module:
            if isinstance(layer, Block) and not sides:
                sides.append(x.shape[-1])
            x = layer(x)
            if isinstance(layer, Block):
                sides.append(x.shape[-1])
    assert sides == seen
    assert x.shape == (2, 5)


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.sampled_from(["small", "imagenet"]))
def test_images_of_any_size_give_logits(channels, height, width, stem):
    with torch.device("meta"):
        module = resnet((channels, height, width), 4, stem=stem, norm="group", **TINY)
        assert module(torch.zeros(2, channels, height, width)).shape == (2, 4)


def test_group_normalisation_has_two_groups_no_buffers_and_treats_samples_alone():
    module = resnet((1, 8, 8), 3, norm="group", **TINY)
    norms = [layer for layer in module.modules() if isinstance(layer, nn.GroupNorm)]
    assert {layer.num_groups for layer in norms} == {2}
    assert not list(module.buffers())
    x = torch.rand(3, 1, 8, 8, generator=derive_generator(0))
    torch.testing.assert_close(module(x)[:1], module(x[:1]))


def test_batch_normalisation_learns_its_statistics_in_training_only():
    module = resnet((1, 8, 8), 3, **TINY)
    x = torch.rand(4, 1, 8, 8, generator=derive_generator(0))
    before = module[1].running_mean.clone()
    module.eval()(x)
    assert torch.equal(module[1].running_mean, before)
    module.train()(x)
    assert not torch.equal(module[1].running_mean, before)


def test_convolutions_start_with_variance_two_over_fan_out():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = resnet((3, 8, 8), 3, **TINY)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            fan_out = layer.out_channels * layer.kernel_size[0] * layer.kernel_size[1]
            assert layer.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)
            assert layer.bias is None


def test_a_block_adds_what_went_round_it():
    block = Block(2, 2, 1, nn.BatchNorm2d).eval()
    nn.init.zeros_(block.residual[3].weight)
    x = torch.randn(2, 2, 4, 4, generator=derive_generator(0))
    torch.testing.assert_close(block(x), x.relu())


def test_vectors_are_refused_by_the_models_name():
    with pytest.raises(FedkinError, match="'tiny' takes images"):
        resnet((64,), 3, **TINY)
