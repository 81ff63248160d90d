"""Contrastive networks."""

import pytest
import torch
from torch import nn

from fedkin.core import FedkinError
from fedkin.nn.contrastive import ContrastiveNetwork, Design
from fedkin.nn.contrastive_training import Contrastive


def test_the_network_for_mnist_is_that_of_the_authors_code():
    network = ContrastiveNetwork(Design((1, 28, 28)).decided())
    assert sum(parameter.numel() for parameter in network.parameters()) == 1_322_608
    x = torch.rand(4, 1, 28, 28)
    z = network.encoder(x)
    assert z.shape == (4, 256)
    assert torch.allclose(z.mean(0), torch.zeros(256), atol=1e-4)  # the last normalisation has no scale of its own
    assert network(x).shape == (4, 256)


@pytest.mark.parametrize(
    ("shape", "backbone"),
    [((1, 8, 8), "convolutions"), ((1, 9, 13), "convolutions"), ((3, 8, 8), "resnet18"), ((1, 5, 5), "perceptron"),
     ((12,), "perceptron")],
)  # fmt: skip
@pytest.mark.parametrize("normalization", ["batch", "group"])
def test_a_network_is_chosen_by_the_samples(shape, backbone, normalization):
    design = Design(shape, latent=6, normalization=normalization).decided()
    assert design.backbone == backbone
    assert Contrastive.of(design.spec()).design == design
    network = ContrastiveNetwork(design)
    assert network(torch.rand(3, *shape)).shape == (3, 6)
    assert any(isinstance(part, nn.GroupNorm) for part in network.modules()) == (normalization == "group")
    assert isinstance(network.encoder[-1], nn.BatchNorm1d)


def test_convolutions_need_images():
    with pytest.raises(FedkinError, match=r"method.backbone = 'convolutions' takes images .* shape \(12,\)"):
        Design((12,), "convolutions").decided()
