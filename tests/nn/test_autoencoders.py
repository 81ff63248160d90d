"""The networks of encoders: their sizes, and which one suits a shape."""

import pytest
import torch

from fedkin.core.seeds import derive_generator
from fedkin.nn.encoder import build_autoencoder

pytestmark = pytest.mark.usefixtures("seeded_torch")

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


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
def test_the_papers_sizes(name, shape, count, width):
    module = build_autoencoder(name, shape)
    assert parameters(module) == count
    x = inputs(3, shape)
    assert module.encoder(x).shape == (3, width)
    assert module(x).shape == x.shape
    assert torch.equal(module.eval()(x), module.decoder(module.encoder(x)))
