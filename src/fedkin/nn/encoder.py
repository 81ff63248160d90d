"""Autoencoders whose codes describe data, as flat vectors, and their way to a file and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from fedkin.core.errors import FedkinError
from fedkin.core.trees import load_tree, save_tree
from fedkin.nn.architecture import Architecture
from fedkin.nn.autoencoders import Autoencoding, Output, build_autoencoder

_BATCH = 500


class Encoder(Architecture):
    """An `Architecture` that compresses samples to codes and reconstructs them.

    Parameters
    ----------
    name : str
        See `fedkin.nn.autoencoders.build_autoencoder`.
    shape : tuple of int
        Of one sample.
    output : {"sigmoid", "linear"}
        "sigmoid" for data in [0, 1].

    Attributes
    ----------
    width : int
        Numbers in a code.
    """

    criterion = staticmethod(mse_loss)

    def __init__(self, name: str, shape: tuple[int, ...], output: Output = "sigmoid") -> None:
        self.output = output
        super().__init__(name, shape)
        self.width = self.codes(torch.zeros(self.size), torch.zeros(1, *shape)).shape[1]

    @staticmethod
    def of(spec: Mapping[str, Any]) -> Encoder:
        """The encoder of plain values ``{"name", "shape", "output"}``; always the same object."""
        return _shared(spec["name"], tuple(spec["shape"]), spec["output"])

    def spec(self) -> dict[str, Any]:
        """Plain values that `of` makes this encoder from."""
        return {"name": self.name, "shape": list(self.shape), "output": self.output}

    def build(self) -> nn.Module:
        """A new module."""
        return build_autoencoder(self.name, self.shape, self.output)

    def targets(self, x: Tensor) -> Tensor:
        """The samples themselves."""
        return x

    @torch.no_grad()
    def codes(self, vector: Tensor, x: Tensor, batch_statistics: bool = False) -> Tensor:
        """Codes ``(n, width)`` of samples ``(n, *shape)``.

        Parameters
        ----------
        vector : Tensor, (size,)
        x : Tensor
        batch_statistics : bool
            Normalise by the statistics of `x`, taken as one batch, instead of those remembered from training, where
            there is a batch norm; a single sample is normalised by itself.
        """
        if batch_statistics and len(x) == 1:  # torch refuses a channel of one number; twice the same has its statistics
            return self.codes(vector, torch.cat([x, x]), batch_statistics)[:1]
        with self.resident() as resident:
            resident.load(vector)
            module = cast(Autoencoding, resident.module).train(batch_statistics)
            parts = x.split(len(x) if batch_statistics else _BATCH) if len(x) else []
            made = [module.encoder(resident.laid(part)).cpu() for part in parts]
        return torch.cat(made) if made else torch.zeros(0, self.width)

    @torch.no_grad()
    def decoded(self, vector: Tensor, codes: Tensor) -> Tensor:
        """Samples ``(n, *shape)`` that the decoder makes of codes ``(n, width)``."""
        with self.resident() as resident:
            resident.load(vector)
            module = cast(Autoencoding, resident.module).eval()
            made = [module.decoder(resident.placed(part)).cpu() for part in codes.split(_BATCH)]
        return torch.cat(made).contiguous() if made else torch.zeros(0, *self.shape)

    def errors(self, vector: Tensor, x: Tensor) -> Tensor:
        """Mean squared reconstruction error of every sample ``(n,)``."""
        return (self.decoded(vector, self.codes(vector, x)) - x).square().flatten(1).mean(1)


@dataclass(frozen=True)
class Pretrained:
    """An encoder that has been trained, as a file holds it.

    Attributes
    ----------
    spec : dict
        Of the `Encoder`.
    vector : Tensor
        Its model.
    about : dict
        How it was trained, plain values.
    """

    spec: dict[str, Any]
    vector: Tensor
    about: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write it as one safetensors file."""
        save_tree(path, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: Path) -> Pretrained:
        """The inverse of `save`.

        Raises
        ------
        FedkinError
            If the file is absent or holds no encoder.
        """
        try:
            return cls(**load_tree(path))
        except (FedkinError, TypeError) as error:
            reason = str(error).rstrip(".")
            raise FedkinError(
                f"'{path}' holds no encoder ({reason}); make one with `fedkin pretrain DATA --out {path}`."
            ) from error

    def fitted_to(self, shape: tuple[int, ...], where: str) -> Encoder:
        """The encoder for samples of `shape`, which a convolutional one can take in other sizes than it was trained on.

        Raises
        ------
        FedkinError
            If it cannot take them, or has not been trained for an epoch yet.
        """
        if self.about.get("epochs") == 0:
            raise FedkinError(
                f"The encoder of '{where}' has not been trained for an epoch yet; let `fedkin pretrain` go on."
            )
        try:
            encoder = Encoder.of(self.spec | {"shape": list(shape)})
        except FedkinError as error:
            raise FedkinError(f"The encoder of '{where}' does not fit: {error}") from error
        if encoder.size != len(self.vector):
            trained = tuple(self.spec["shape"])
            raise FedkinError(
                f"The encoder of '{where}' was trained on samples of shape {trained}; the clients' have {shape}."
            )
        return encoder


@lru_cache(maxsize=8)
def _shared(name: str, shape: tuple[int, ...], output: Output) -> Encoder:
    return Encoder(name, shape, output)
