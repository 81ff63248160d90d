"""Autoencoders whose codes describe a client's data (Prigent et al. 2024, section VI-A)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from fedkin.core.errors import FedkinError, unknown_name

Output = Literal["sigmoid", "linear"]
"""Of the last layer: "sigmoid" for data in [0, 1], "linear" for standardised data."""

_DENSE_WIDTHS = (50, 20)
_CHANNELS = (12, 24, 48)
_SHRINKS = 2 ** len(_CHANNELS)


class Autoencoding(nn.Module):
    """An encoder and its decoder; calling it reconstructs samples ``(n, *shape)``.

    Parameters
    ----------
    encoder, decoder : nn.Module
        From samples to codes ``(n, width)``, and back.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, x: Tensor) -> Tensor:
        """The samples, reconstructed."""
        made: Tensor = self.decoder(self.encoder(x))
        return made


def dense(shape: Sequence[int], output: Output = "sigmoid") -> Autoencoding:
    """Fully connected, 784-50-20-50-784 for images of 28 x 28 (81,304 parameters), with ReLU but no bound on the code.

    Narrower data get a code of at most half their width.
    """
    features = math.prod(shape)
    code = min(_DENSE_WIDTHS[1], max(1, features // 2))
    hidden = min(_DENSE_WIDTHS[0], max(code, features))
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, code))
    decoder = [nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, features), *_last(output)]
    return Autoencoding(encoder, nn.Sequential(*decoder, nn.Unflatten(1, tuple(shape))))


def convolutional(shape: Sequence[int], output: Output = "sigmoid") -> Autoencoding:
    """Three halving 4 x 4 convolutions with batch normalisation, and their mirror: 47,601 parameters for colour.

    The code has 48 numbers for every 8 x 8 pixels: 768 for images of 32 x 32, 3,072 for 64 x 64. The parameters do not
    depend on the size of the image.

    Raises
    ------
    FedkinError
        If samples are no images, or a side is not a multiple of 8.
    """
    if len(shape) != 3 or any(side % _SHRINKS or not side for side in shape[1:]):
        raise FedkinError(
            f"The autoencoder 'conv-autoencoder' was asked for samples of shape {tuple(shape)}; it needs images whose "
            f"sides are multiples of {_SHRINKS}."
        )
    channels, height, width = shape
    path = (channels, *_CHANNELS)
    code = (path[-1], height // _SHRINKS, width // _SHRINKS)
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for above, below in pairwise(path):
        down += [nn.Conv2d(above, below, 4, stride=2, padding=1), nn.BatchNorm2d(below), nn.ReLU()]
        activation = [nn.ReLU()] if above != channels else _last(output)
        up = [nn.ConvTranspose2d(below, above, 4, stride=2, padding=1), nn.BatchNorm2d(above), *activation, *up]
    return Autoencoding(nn.Sequential(*down, nn.Flatten()), nn.Sequential(nn.Unflatten(1, code), *up))


def _last(output: Output) -> list[nn.Module]:
    return [nn.Sigmoid()] if output == "sigmoid" else []


_FACTORIES: dict[str, Callable[[Sequence[int], Output], Autoencoding]] = {
    "dense-autoencoder": dense,
    "conv-autoencoder": convolutional,
}


def build_autoencoder(name: str, shape: Sequence[int], output: Output = "sigmoid") -> Autoencoding:
    """A new autoencoder for samples of `shape`, in training mode.

    Raises
    ------
    FedkinError
        If the name is unknown or the autoencoder cannot take such samples.
    """
    if name not in _FACTORIES:
        raise unknown_name("autoencoder", name, _FACTORIES)
    return _FACTORIES[name](shape, output)


def choose_autoencoder(shape: Sequence[int]) -> str:
    """The name that "auto" stands for: convolutional for images with colour that it can take, else dense."""
    fits = len(shape) == 3 and shape[0] > 1 and all(side % _SHRINKS == 0 for side in shape[1:])
    return "conv-autoencoder" if fits else "dense-autoencoder"
