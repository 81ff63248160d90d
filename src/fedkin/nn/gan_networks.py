"""The generator and the discriminator of a generative adversarial network (GAN).

Images get the networks of SDA-FC (Yan et al. 2024, as in its authors' code): for 28 x 28 pixels the generator has fully
connected layers of 1,024 and 6,272 units and two transposed convolutions, the discriminator three convolutions of 64,
128 and 256 channels and a fully connected layer of 1,024 units. Vectors, and images with a side below 8, get small
fully connected networks, which are not from the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from fedkin.nn.encoder import Output, last_layers
from fedkin.nn.layers import normalised_layer, takes_convolutions

_GENERATOR_CHANNELS = (128, 64)
_DISCRIMINATOR_CHANNELS = (64, 128, 256)
_UNITS = 1024
_VECTOR_UNITS = 128
_LEAK = 0.2
_INITIAL_SPREAD = 0.02


def build_generator(shape: Sequence[int], latent: int, output: Output = "sigmoid", capacity: float = 1.0) -> nn.Module:
    """Return a new generator, from latents ``(n, latent)`` to samples ``(n, *shape)``, in training mode.

    A sample is (channels, height, width) or (features,). The output "sigmoid" is for data in [0, 1], "linear" for
    standardised data. `capacity`, above 0, is the fraction of the paper's units and channels; of each layer at least
    one is left.
    """
    last = last_layers(output)
    if not takes_convolutions(shape):
        units, features = _scaled(_VECTOR_UNITS, capacity), math.prod(shape)
        hidden = [*normalised_layer(latent, units), *normalised_layer(units, units)]
        return nn.Sequential(*hidden, nn.Linear(units, features), nn.Unflatten(1, tuple(shape)), *last)
    channels, height, width = shape
    start = (_scaled(_GENERATOR_CHANNELS[0], capacity), math.ceil(height / 4), math.ceil(width / 4))
    units, middle = _scaled(_UNITS, capacity), _scaled(_GENERATOR_CHANNELS[1], capacity)
    return _initialised(
        nn.Sequential(
            *normalised_layer(latent, units),
            *normalised_layer(units, math.prod(start)),
            _Planes(start),
            nn.ConvTranspose2d(start[0], middle, 4, stride=2, padding=1),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.ConvTranspose2d(middle, channels, 4, stride=2, padding=1),
            _Cropped(height, width),
            *last,
        ),
        capacity,
    )


def build_discriminator(shape: Sequence[int], capacity: float = 1.0) -> nn.Module:
    """Return a new discriminator, from samples ``(n, *shape)`` to logits ``(n,)`` of being real, in training mode.

    `shape` and `capacity` are as in `build_generator`.
    """
    if not takes_convolutions(shape):
        units = _scaled(_VECTOR_UNITS, capacity)
        path = (math.prod(shape), units, units)
        hidden = [part for a, b in pairwise(path) for part in (nn.Linear(a, b), nn.LeakyReLU(_LEAK))]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(units, 1), nn.Flatten(0))
    above, (height, width) = shape[0], shape[1:]
    layers: list[nn.Module] = []
    for wanted in _DISCRIMINATOR_CHANNELS:
        below = _scaled(wanted, capacity)
        layers += [nn.Conv2d(above, below, 4, stride=2, padding=1), nn.BatchNorm2d(below), nn.LeakyReLU(_LEAK)]
        above, height, width = below, height // 2, width // 2
    units = _scaled(_UNITS, capacity)
    layers += [nn.Flatten(), nn.Linear(above * height * width, units), nn.BatchNorm1d(units), nn.LeakyReLU(_LEAK)]
    return _initialised(nn.Sequential(*layers, nn.Linear(units, 1), nn.Flatten(0)), capacity)


class _Planes(nn.Module):
    """Reshape rows ``(n, C * H * W)`` to images ``(n, C, H, W)``, in the channels-last memory format."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        channels, height, width = self.shape
        return x.view(len(x), height, width, channels).permute(0, 3, 1, 2)


class _Cropped(nn.Module):
    """Crop images to the upper left part, as transposed convolutions make sides in multiples of 4."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : self.height, : self.width]


def _scaled(units: int, capacity: float) -> int:
    return max(1, round(units * capacity))


def _initialised(module: nn.Module, capacity: float) -> nn.Module:
    """Draw weights from N(0, 0.02**2) and set biases to 0, as the authors' code does; return the module.

    With a `capacity` below 1 weights are larger, so that sums over fewer units have the same variance at the start.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, std=_INITIAL_SPREAD / math.sqrt(capacity))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module
