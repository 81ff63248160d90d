"""Autoencoders whose codes describe a client's data (Prigent et al. 2024, section VI-A), and their files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.payload import Expected, is_name, is_shape, load_tree, one_of, save_tree
from fedkin.nn.networks import linear_layers
from fedkin.nn.resident import Architecture

Output = Literal["sigmoid", "linear"]
"""Activation of the last layer: "sigmoid" for data in [0, 1], "linear" for standardised data."""
OUTPUT = one_of("sigmoid", "linear")
ENCODER: Expected = {"name": is_name, "shape": is_shape, "output": OUTPUT}

_BATCH = 500  # samples at a time, which bounds the memory that codes take


class Autoencoding(nn.Module):
    """Autoencoder module: an encoder, from samples to codes ``(n, width)``, and its decoder; a call reconstructs."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, x: Tensor) -> Tensor:
        samples: Tensor = self.decoder(self.encoder(x))
        return samples


def dense(shape: Sequence[int], output: Output = "sigmoid") -> Autoencoding:
    """Return a fully connected autoencoder, 784-50-20-50-784 for images of 28 x 28 (81,304 parameters).

    Hidden layers have ReLU; the code is unbounded. Narrower data get a code of at most half their width.
    """
    features = math.prod(shape)
    code = min(20, max(1, features // 2))
    hidden = min(50, max(code, features))
    encoder = nn.Sequential(nn.Flatten(), *linear_layers((features, hidden, code)))
    decoder = linear_layers((code, hidden, features)) + last_layers(output)
    return Autoencoding(encoder, nn.Sequential(*decoder, nn.Unflatten(1, tuple(shape))))


def convolutional(shape: Sequence[int], output: Output = "sigmoid") -> Autoencoding:
    """Return an autoencoder of three strided 4 x 4 convolutions with batch normalisation, and their transposes.

    The code has 48 numbers for every 8 x 8 pixels; there are 47,601 parameters for colour, whatever the size. Raises
    FedkinError if samples are not images, or a side is not a multiple of 8.
    """
    if not _divides_by_8(shape):
        raise FedkinError(
            f"The autoencoder 'conv-autoencoder' was asked for samples of shape {tuple(shape)}; it needs images whose "
            "sides are multiples of 8."
        )
    channels, height, width = shape
    path = (channels, 12, 24, 48)
    code = (path[-1], height // 8, width // 8)
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for above, below in pairwise(path):
        down += [nn.Conv2d(above, below, 4, stride=2, padding=1), nn.BatchNorm2d(below), nn.ReLU()]
        activation = [nn.ReLU()] if above != channels else last_layers(output)
        up = [nn.ConvTranspose2d(below, above, 4, stride=2, padding=1), nn.BatchNorm2d(above), *activation, *up]
    return Autoencoding(nn.Sequential(*down, nn.Flatten()), nn.Sequential(nn.Unflatten(1, code), *up))


def _divides_by_8(shape: Sequence[int]) -> bool:
    """Whether samples are images whose sides three strided convolutions can halve."""
    return len(shape) == 3 and all(side and side % 8 == 0 for side in shape[1:])


def last_layers(output: Output) -> list[nn.Module]:
    """Return the decoder's output activation: a sigmoid, or none."""
    return [nn.Sigmoid()] if output == "sigmoid" else []


_FACTORIES: dict[str, Callable[[Sequence[int], Output], Autoencoding]] = {
    "dense-autoencoder": dense,
    "conv-autoencoder": convolutional,
}


def build_autoencoder(name: str, shape: Sequence[int], output: Output = "sigmoid") -> Autoencoding:
    """Return a new autoencoder for samples of `shape`, in training mode.

    Raises FedkinError if the name is unknown or the autoencoder cannot take such samples.
    """
    if name not in _FACTORIES:
        raise unknown_name("autoencoder", name, _FACTORIES)
    return _FACTORIES[name](shape, output)


def choose_autoencoder(shape: Sequence[int]) -> str:
    """Return what "auto" stands for: "conv-autoencoder" for colour images, otherwise "dense-autoencoder".

    Colour images with a side that is not a multiple of 8 also get "dense-autoencoder".
    """
    return "conv-autoencoder" if _divides_by_8(shape) and shape[0] > 1 else "dense-autoencoder"


class Encoder(Architecture):
    """An `Architecture` that compresses samples to codes of `width` numbers and reconstructs them.

    `name` is as in `build_autoencoder`; the output "sigmoid" is for data in [0, 1].
    """

    criterion = staticmethod(mse_loss)

    def __init__(self, name: str, shape: tuple[int, ...], output: Output = "sigmoid") -> None:
        self.output = output
        super().__init__(name, shape)
        self.width = self.codes(torch.zeros(self.size), torch.zeros(1, *shape)).shape[1]

    def build(self) -> nn.Module:
        return build_autoencoder(self.name, self.shape, self.output)

    @torch.no_grad()
    def codes(self, vector: Tensor, x: Tensor) -> Tensor:
        """Return codes ``(n, width)`` of samples ``(n, *shape)``."""
        with self.loaded(vector) as resident:
            encoder = cast(Autoencoding, resident.module).encoder
            codes = [encoder(resident.laid(part)).cpu() for part in x.split(_BATCH)] if len(x) else []
        return torch.cat(codes) if codes else torch.zeros(0, self.width)

    @torch.no_grad()
    def decoded(self, vector: Tensor, codes: Tensor) -> Tensor:
        """Decode codes ``(n, width)`` into samples ``(n, *shape)``."""
        with self.loaded(vector) as resident:
            decoder = cast(Autoencoding, resident.module).decoder
            parts = [decoder(resident.placed(part)).cpu() for part in codes.split(_BATCH)]
        return torch.cat(parts).contiguous() if parts else torch.zeros(0, *self.shape)


@dataclass(frozen=True)
class Pretrained:
    """A trained encoder, which can be saved to a file.

    `spec` has the arguments of the `Encoder`, `vector` is its model, and `about` has plain values that say how it was
    trained.
    """

    spec: dict[str, Any]
    vector: Tensor
    about: dict[str, Any]

    def save(self, path: Path) -> None:
        """Save the encoder as one safetensors file."""
        save_tree(path, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: Path) -> Pretrained:
        """Load an encoder from a file that `save` wrote.

        Raises FedkinError if the file is absent or has no encoder in it.
        """
        try:
            return cls(**load_tree(path))
        except (FedkinError, TypeError) as error:
            reason = str(error).rstrip(".")
            raise FedkinError(
                f"'{path}' holds no encoder ({reason}); make one with `fedkin pretrain DATA --out {path}`."
            ) from error

    def fitted_to(self, shape: tuple[int, ...], file: str) -> Encoder:
        """Return the encoder for samples of `shape`; a convolutional one also takes image sizes unseen in training.

        Raises FedkinError if it cannot take them, or has not been trained for an epoch yet.
        """
        if self.about.get("epochs") == 0:
            raise FedkinError(
                f"The encoder of '{file}' has not been trained for an epoch yet; continue `fedkin pretrain`."
            )
        try:
            encoder = Encoder.of(self.spec | {"shape": list(shape)})
        except FedkinError as error:
            raise FedkinError(f"The encoder of '{file}' does not fit: {error}") from error
        if encoder.size != len(self.vector):
            trained = tuple(self.spec["shape"])
            raise FedkinError(
                f"The encoder of '{file}' was trained on samples of shape {trained}; the clients' have {shape}."
            )
        return encoder
