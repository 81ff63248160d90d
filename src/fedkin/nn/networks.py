"""Perceptrons, small convolutional networks of the papers on clustered federated learning, and residual networks.

Every function takes the shape of one sample and the number of classes, and returns a flat `torch.nn.Sequential` that
turns float32 samples ``(n, *shape)`` into logits ``(n, classes)``. Weights are drawn as torch draws them; residual
networks are of basic blocks (He et al. 2016, section 4.1, Table 1), with torchvision's initialisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from fedkin.core.errors import FedkinError
from fedkin.core.payload import counts_to

# Layers that networks share.


UNITS = counts_to(2**16)
"""Units of a layer in a payload."""


def linear_layers(widths: Sequence[int]) -> list[nn.Module]:
    """Return linear layers of these widths, input first, with ReLU in between."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return layers[:-1]


def normalised_layer(inputs: int, units: int) -> list[nn.Module]:
    """Return a linear layer followed by batch normalisation and ReLU."""
    return [nn.Linear(inputs, units), nn.BatchNorm1d(units), nn.ReLU()]


def takes_convolutions(shape: Sequence[int]) -> bool:
    """Whether samples of `shape` are images of 8 x 8 pixels or more."""
    return len(shape) == 3 and min(shape[1:]) >= 8


Norm = Callable[[int], nn.Module]


def perceptron(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Return IFCA's network for MNIST: one hidden layer of 200 ReLU units (Ghosh et al. 2020, section 6)."""
    return _dense(math.prod(shape), 200, classes)


def gradient_loss_mlp(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Return a perceptron with 512 and 128 hidden ReLU units, for colour 2048 and 512 (Lin et al., Fig. 3)."""
    hidden = (2048, 512) if len(shape) == 3 and shape[0] > 1 else (512, 128)
    return _dense(math.prod(shape), *hidden, classes)


def gradient_loss_cnn(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Return the convolutional network of Lin et al., Fig. 3, for grey images or for images with colour.

    Convolutions are not padded. Raises FedkinError if `shape` is no image, or smaller than 6 x 6 pixels (grey)
    or 16 x 16 (colour).
    """
    if len(shape) == 3 and shape[0] > 1:
        channels, height, width = image_shape("gradient-loss-cnn", shape, min_side=16)
        return nn.Sequential(
            nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            *_dense(16 * _after_valid(height) * _after_valid(width), 120, 84, classes),
        )  # fmt: skip
    channels, height, width = image_shape("gradient-loss-cnn", shape, min_side=6)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        *_dense(64 * ((height - 4) // 2) * ((width - 4) // 2), 128, classes),
    )  # fmt: skip


LENET_MIN_SIDE = 4
"""Minimum height and width of images for `lenet5`."""


def lenet5(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Return the LeNet-5 of Prigent et al., wider than LeCun's, with tanh.

    Two 5 x 5 convolutions of 16 and 32 channels, each followed by pooling, then 120 and 84 units. The paper's
    convolutions are not padded; images with a side below 16 are padded by 2 before both. Raises FedkinError if `shape`
    is no image, or smaller than 4 x 4 pixels.
    """
    channels, height, width = image_shape("lenet5", shape, min_side=LENET_MIN_SIDE)
    padded = min(height, width) < 16
    pixels = (height // 4) * (width // 4) if padded else _after_valid(height) * _after_valid(width)
    padding = 2 if padded else 0
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, padding=padding), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=padding), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * pixels, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, classes),
    )  # fmt: skip


def image_shape(model: str, shape: tuple[int, ...], min_side: int) -> tuple[int, int, int]:
    """Check that `shape` is that of an image, and return it as (channels, height, width).

    Raises FedkinError if it does not have three numbers, or height or width is below `min_side`; the message names
    `model`.
    """
    if len(shape) != 3 or min(shape[1:]) < min_side:
        raise FedkinError(
            f"Model '{model}' takes images (channels, height, width) of at least {min_side} x {min_side} pixels, and "
            f"the samples have the shape {tuple(shape)}; 'perceptron' takes any."
        )
    channels, height, width = shape
    return channels, height, width


def _dense(*widths: int) -> nn.Sequential:
    """Return a flattening layer, then linear layers with ReLU in between."""
    return nn.Sequential(nn.Flatten(), *linear_layers(widths))


def _after_valid(side: int) -> int:
    """Return the side length after two unpadded 5 x 5 convolutions, each followed by pooling."""
    return ((side - 4) // 2 - 4) // 2


def resnet(
    shape: tuple[int, ...],
    classes: int,
    *,
    name: str,
    blocks: Sequence[int] = (2, 2, 2, 2),
    norm: Norm = nn.BatchNorm2d,
    stem: Literal["small", "imagenet"] = "small",
) -> nn.Sequential:
    """Return a residual network of basic blocks, from images ``(n, channels, height, width)`` of any size to logits.

    `blocks` are those with 64, 128, 256 and 512 channels, by default ResNet-18's (He et al. 2016, Table 1). Batch
    normalisation needs batches of two samples or more where an image has shrunk to one pixel, other normalisations
    (`norm`) do not. The small stem is a 3 x 3 convolution, as is usual for CIFAR; that of ImageNet a 7 x 7 one with
    stride 2 and pooling. Convolutions' weights are drawn from N(0, 2 / fan-out) (He et al. 2015). Raises FedkinError,
    which calls the model `name`, if `shape` is no image.
    """
    channels, _, _ = image_shape(name, shape, min_side=1)
    widths = (64, 128, 256, 512)
    small = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
    layers: list[nn.Module] = [small, norm(widths[0]), nn.ReLU()]
    if stem == "imagenet":
        layers[0] = nn.Conv2d(channels, widths[0], 7, stride=2, padding=3, bias=False)
        layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    inputs = widths[0]
    for stage, (outputs, count) in enumerate(zip(widths, blocks, strict=True)):
        for index in range(count):
            layers.append(Block(inputs, outputs, 2 if stage > 0 and index == 0 else 1, norm))
            inputs = outputs
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return network


class TwoEncoders(nn.Module):
    """Two encoders of one architecture, and a linear layer over the outputs of both (FedDAG; Pramanik et al. 2026).

    `factory` makes a network for samples of `shape`, a sequence that ends in a linear layer; an encoder is all before.
    Raises FedkinError for other networks.
    """

    def __init__(self, factory: Callable[[tuple[int, ...], int], nn.Module], shape: tuple[int, ...], classes: int):
        super().__init__()
        networks = [factory(shape, classes) for _ in range(2)]
        for network in networks:
            if not isinstance(network, nn.Sequential) or not isinstance(network[-1], nn.Linear):
                raise FedkinError("A model with two encoders is made of an nn.Sequential that ends in an nn.Linear.")
        self.first, self.second = (network[:-1] for network in networks)  # type: ignore[index]
        self.head = nn.Linear(2 * networks[0][-1].in_features, classes)  # type: ignore[index]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.cat([self.first(x), self.second(x)], dim=1))
        return logits


class Block(nn.Module):
    """Residual basic block: two 3 x 3 convolutions and a shortcut, a 1 x 1 convolution where the shape changes.

    `stride` is that of the first convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            norm(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.residual(x) + self.shortcut(x)
        return added.relu()
