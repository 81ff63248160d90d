"""Residual networks of basic blocks (He et al. 2016, section 4.1, Table 1), with torchvision's initialisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from torch import Tensor, nn

from fedkin.nn.networks import image_shape

Norm = Callable[[int], nn.Module]

GROUPS = 2
"""Groups of channels in a group normalisation, as in the ResNet-18 of Reddi et al. (2021)."""

_WIDTHS = (64, 128, 256, 512)
RESNET18 = (2, 2, 2, 2)
"""Blocks of ResNet-18 with these channels."""


def resnet(
    shape: tuple[int, ...],
    classes: int,
    *,
    name: str,
    blocks: Sequence[int],
    norm: Literal["batch", "group"] = "batch",
    stem: Literal["small", "imagenet"] = "small",
) -> nn.Sequential:
    """Return a residual network of basic blocks, from images ``(n, channels, height, width)`` of any size to logits.

    Raises FedkinError if `shape` is no image.

    Parameters
    ----------
    name : str
        Name of the model in error messages.
    blocks : sequence of 4 ints
        Blocks with 64, 128, 256 and 512 channels: `RESNET18`, or (3, 4, 6, 3) for ResNet-34.
    norm : {"batch", "group"}
        Batch normalisation needs batches of two samples or more where an image has shrunk to one pixel; its running
        statistics are buffers. Group normalisation has neither, and two groups in every layer.
    stem : {"small", "imagenet"}
        A 3 x 3 convolution, as is usual for CIFAR; or a 7 x 7 one with stride 2 and pooling, as for ImageNet.
    """
    channels, _, _ = image_shape(name, shape, min_side=1)
    make_norm: Norm = nn.BatchNorm2d if norm == "batch" else partial(nn.GroupNorm, GROUPS)
    layers = _stem(channels, stem, make_norm)
    inputs = _WIDTHS[0]
    for stage, (outputs, count) in enumerate(zip(_WIDTHS, blocks, strict=True)):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            layers.append(Block(inputs, outputs, stride, make_norm))
            inputs = outputs
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
    _draw_convolutions(network)
    return network


class Block(nn.Module):
    """Residual basic block: two 3 x 3 convolutions and a shortcut, a 1 x 1 convolution where the shape changes.

    `stride` is that of the first convolution; `norm` turns a number of channels into a normalisation layer.
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
        """Map ``(n, inputs, height, width)`` to ``(n, outputs, height / stride, width / stride)``, rounded up."""
        added: Tensor = self.residual(x) + self.shortcut(x)
        return added.relu()


def _stem(channels: int, stem: Literal["small", "imagenet"], norm: Norm) -> list[nn.Module]:
    width = _WIDTHS[0]
    if stem == "small":
        return [nn.Conv2d(channels, width, 3, padding=1, bias=False), norm(width), nn.ReLU()]
    convolution = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
    return [convolution, norm(width), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]


def _draw_convolutions(network: nn.Module) -> None:
    """Draw convolutions' weights from N(0, 2 / fan-out) (He et al. 2015); other layers keep torch's defaults."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
