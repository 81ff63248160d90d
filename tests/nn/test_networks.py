"""The networks of encoders: their sizes, and which one suits a shape."""

import pytest
import torch

from fedkin.core.seeds import derive_generator
from fedkin.nn import networks
from fedkin.nn.encoder import build_autoencoder

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("factory", "shape", "classes", "count"),
    [
        (networks.perceptron, GREY, 10, 159_010),
        (networks.perceptron, (784,), 10, 159_010),
        (networks.gradient_loss_mlp, GREY, 10, 468_874),
        (networks.gradient_loss_mlp, COLOUR, 8, 3072 * 2048 + 2048 + 2048 * 512 + 512 + 512 * 8 + 8),
        (networks.gradient_loss_cnn, GREY, 10, 1_199_882),
        (networks.gradient_loss_cnn, COLOUR, 10, 62_006),
        (networks.lenet5, GREY, 10, 85_822),
        (networks.lenet5, GREY, 62, 90_242),
    ],
)
def test_networks_have_the_papers_sizes(factory, shape, classes, count):
    with torch.device("meta"):
        assert parameters(factory(shape, classes)) == count


pytestmark = pytest.mark.usefixtures("seeded_torch")


def inputs(n, shape):
    return torch.rand(n, *shape, generator=derive_generator(0, "autoencoders"))


@pytest.mark.parametrize(
    ("name", "shape", "count", "width"),
    [
        ("dense-autoencoder", GREY, 81_304, 20),
        ("dense-autoencoder", (784,), 81_304, 20),
        ("conv-autoencoder", COLOUR, 47_601, 768),
        ("conv-autoencoder", (3, 64, 64), 47_601, 3_072),
        ("conv-autoencoder", (3, 8, 24), 47_601, 144),
    ],
)
def test_autoencoders_have_the_papers_sizes(name, shape, count, width):
    module = build_autoencoder(name, shape)
    assert parameters(module) == count
    x = inputs(3, shape)
    assert module.encoder(x).shape == (3, width)
    assert module(x).shape == x.shape
    assert torch.equal(module.eval()(x), module.decoder(module.encoder(x)))
