import pytest
import torch
from torch import nn

from fedkin.core.seeds import derive_generator
from fedkin.nn.modules import Classifier
from fedkin.nn.resident import vector_of

IMAGE = (1, 8, 8)


def normed(shape, classes):
    """Batch norms of both kinds, with their statistics and counters."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6), nn.BatchNorm1d(6),
        nn.Linear(6, classes),
    )  # fmt: skip


class Viewing(nn.Module):
    """Calls `view` on activations, which fails where images lie channels last."""

    def __init__(self, channels, classes):
        super().__init__()
        self.convolution, self.head = nn.Conv2d(channels, 4, 3), nn.Linear(144, classes)

    def forward(self, x):
        return self.head(self.convolution(x).view(len(x), 144))


def viewing(shape, classes):
    return Viewing(shape[0], classes)


NORMED, VIEWING = f"{__name__}:normed", f"{__name__}:viewing"
NAMES = ["perceptron", "lenet5", "gradient-loss-cnn", NORMED, VIEWING]


def rng(*path):
    return derive_generator(0, "classifier", *path)


def used(classifier):
    """A module whose statistics and counters are not those it began with."""
    module = classifier.module(classifier.initial(rng("w"))).train()
    for _ in range(3):
        module(torch.rand(5, *classifier.shape, generator=rng("x")))
    return module.eval()


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_the_whole_model(name):
    classifier = Classifier(name, IMAGE, 3)
    module = used(classifier)
    vector = vector_of(module)
    assert vector.shape == (classifier.size,)
    assert vector.dtype == torch.float32
    state = classifier.module(vector).state_dict()
    assert state.keys() == module.state_dict().keys()
    assert all(torch.equal(state[key], value) for key, value in module.state_dict().items())
    with classifier.resident() as resident:
        resident.load(vector)
        assert torch.equal(resident.vector(), vector)


@pytest.mark.parametrize("name", NAMES)
def test_latents_are_what_the_last_linear_layer_is_given(name):
    network = Classifier.of({"name": name, "shape": IMAGE, "classes": 3})
    vector = network.initial(torch.Generator().manual_seed(0))
    x = torch.rand(5, *IMAGE, generator=torch.Generator().manual_seed(1))
    latents = network.latents(vector, x)
    last = [layer for layer in network.module(vector).modules() if isinstance(layer, nn.Linear)][-1]
    assert latents.shape == (5, last.in_features)
    assert torch.allclose(last(latents), network.logits(vector, x), atol=1e-5)
    assert torch.equal(network.latents(vector, x), latents)  # hooks are gone, or would be called twice
    with network.resident() as resident:
        assert not any(layer._forward_pre_hooks for layer in resident.module.modules())
