import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.nn import networks

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
        (networks.lenet5_softmax, GREY, 10, 85_822),
        (networks.ocfl_cnn, GREY, 10, 25_404_240),
    ],
)
def test_networks_have_the_papers_sizes(factory, shape, classes, count):
    with torch.device("meta"):
        assert parameters(factory(shape, classes)) == count


@pytest.mark.parametrize(
    ("factory", "shape"),
    [
        (networks.lenet5, (1, 3, 9)),
        (networks.lenet5_softmax, (1, 9, 3)),
        (networks.gradient_loss_cnn, (3, 15, 28)),
        (networks.ocfl_cnn, (64,)),
    ],
)
def test_what_is_too_small_or_no_image_is_refused(factory, shape):
    with pytest.raises(FedkinError, match=r"takes images \(channels, height, width\) of at least \d+ x \d+ pixels"):
        factory(shape, 3)
