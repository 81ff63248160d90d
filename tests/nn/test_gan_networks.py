import pytest
import torch
from torch import nn

from fedkin.nn.gan_networks import build_discriminator, build_generator


def parameters(module):
    return sum(part.numel() for part in module.parameters())


def test_digits_get_the_networks_of_the_papers_code():
    generator, discriminator = build_generator((1, 28, 28), 72), build_discriminator((1, 28, 28))
    fully = [part.out_features for part in generator if isinstance(part, nn.Linear)]
    assert fully == [1024, 6272]
    up = [(part.in_channels, part.out_channels) for part in generator if isinstance(part, nn.ConvTranspose2d)]
    assert up == [(128, 64), (64, 1)]
    down = [part.out_channels for part in discriminator if isinstance(part, nn.Conv2d)]
    assert down == [64, 128, 256]
    norms = [part.num_features for part in discriminator if isinstance(part, nn.BatchNorm2d)]
    assert norms == down  # after the first layer, too
    fully = [(part.in_features, part.out_features) for part in discriminator if isinstance(part, nn.Linear)]
    assert fully == [(2304, 1024), (1024, 1)]
    weights = torch.cat([part.detach().flatten() for part in generator.parameters() if part.dim() > 1])
    assert float(weights.std()) == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (2, 9, 14), (1, 5, 5), (6,), (1,)])
@pytest.mark.parametrize("output", ["sigmoid", "linear"])
def test_any_shape_can_be_made_and_judged(shape, output):
    generator, discriminator = build_generator(shape, 12, output, 0.05), build_discriminator(shape, 0.05)
    made = generator(torch.randn(3, 12)).detach()
    assert made.shape == (3, *shape)
    assert discriminator(made).shape == (3,)
    if output == "sigmoid":
        assert 0 <= float(made.min()) <= float(made.max()) <= 1


def test_half_the_capacity_is_a_quarter_of_the_parameters():
    for build in (
        lambda c: build_generator((1, 28, 28), 72, capacity=c),
        lambda c: build_discriminator((1, 28, 28), c),
    ):
        assert parameters(build(0.5)) / parameters(build(1.0)) == pytest.approx(0.25, abs=0.02)
