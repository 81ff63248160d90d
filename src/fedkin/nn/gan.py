"""Generative adversarial networks (GAN): generator and discriminator, their training, and samples of them.

Images get the networks of SDA-FC (Yan et al. 2024, as in its authors' code): for 28 x 28 pixels the generator has fully
connected layers of 1,024 and 6,272 units and two transposed convolutions, the discriminator three convolutions of 64,
128 and 256 channels and a fully connected layer of 1,024 units. Vectors, and images with a side below 8, get small
fully connected networks, which are not from the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from fedkin.core.payload import Expected, is_shape, within
from fedkin.nn.descent import AdamMoments
from fedkin.nn.encoder import OUTPUT, Output, last_layers
from fedkin.nn.networks import UNITS, normalised_layer, takes_convolutions
from fedkin.nn.resident import Architecture, Resident

_UNITS, _VECTOR_UNITS = 1024, 128  # units of a fully connected layer for images, as in the paper, and for vectors
_LEAK = 0.2  # slope of the discriminator's leaky ReLU, as in the paper


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
    start = (_scaled(128, capacity), math.ceil(height / 4), math.ceil(width / 4))
    units, middle = _scaled(_UNITS, capacity), _scaled(64, capacity)
    return _initialised(
        nn.Sequential(
            *normalised_layer(latent, units),
            *normalised_layer(units, math.prod(start)),
            _Planes(*start),
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
    for channels in (64, 128, 256):
        below = _scaled(channels, capacity)
        layers += [nn.Conv2d(above, below, 4, stride=2, padding=1), nn.BatchNorm2d(below), nn.LeakyReLU(_LEAK)]
        above, height, width = below, height // 2, width // 2
    units = _scaled(_UNITS, capacity)
    layers += [nn.Flatten(), nn.Linear(above * height * width, units), nn.BatchNorm1d(units), nn.LeakyReLU(_LEAK)]
    return _initialised(nn.Sequential(*layers, nn.Linear(units, 1), nn.Flatten(0)), capacity)


class _Planes(nn.Module):
    """Reshape rows ``(n, C * H * W)`` to images ``(n, C, H, W)``, in the channels-last memory format."""

    def __init__(self, *shape: int) -> None:
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
            nn.init.normal_(part.weight, std=0.02 / math.sqrt(capacity))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module


@dataclass(frozen=True)
class Blueprint:
    """Settings of a client's generator and discriminator, as plain values.

    A latent has `noise` standard normal values and a one-hot part of length `kinds`, equally frequent, which lets a
    generator make distinct kinds of samples. `capacity` is the fraction of the paper's units and channels.
    """

    shape: tuple[int, ...]
    output: Output = "sigmoid"
    noise: int = 62
    kinds: int = 10
    capacity: float = 1.0

    @staticmethod
    def of(spec: Mapping[str, Any]) -> Blueprint:
        """Return the blueprint that `spec` describes."""
        return Blueprint(**{**spec, "shape": tuple(spec["shape"])})

    def spec(self) -> dict[str, Any]:
        """Return the blueprint as a payload."""
        return {**self.__dict__, "shape": list(self.shape)}


BLUEPRINT: Expected = {
    "shape": is_shape, "output": OUTPUT, "noise": UNITS, "kinds": UNITS, "capacity": within(1e-6, 100),
}  # fmt: skip


class Generator(Architecture):
    """An `Architecture` that generates samples from latents."""

    criterion = staticmethod(binary_cross_entropy_with_logits)

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        super().__init__("generator", (blueprint.noise + blueprint.kinds,))

    def build(self) -> nn.Module:
        blueprint = self.blueprint
        return build_generator(blueprint.shape, self.shape[0], blueprint.output, blueprint.capacity)

    def targets(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), *self.blueprint.shape)


class Discriminator(Architecture):
    """An `Architecture` that tells real samples from generated ones."""

    criterion = staticmethod(binary_cross_entropy_with_logits)

    def __init__(self, blueprint: Blueprint) -> None:
        self.capacity = blueprint.capacity
        super().__init__("discriminator", blueprint.shape)

    def build(self) -> nn.Module:
        return build_discriminator(self.shape, self.capacity)

    def targets(self, x: Tensor) -> Tensor:
        return torch.ones(len(x))


@dataclass(frozen=True)
class Adversaries:
    """Generator and discriminator of a blueprint, to train clients' models and to sample from them."""

    generator: Generator
    discriminator: Discriminator

    @staticmethod
    @lru_cache(maxsize=4)
    def of(blueprint: Blueprint) -> Adversaries:
        """Return the generator and discriminator of `blueprint`; equal blueprints give the same object."""
        return Adversaries(Generator(blueprint), Discriminator(blueprint))

    def latents(self, count: int, rng: torch.Generator) -> Tensor:
        """Draw random latents ``(count, noise + kinds)``: standard normal noise, then one-hot kinds in turn."""
        blueprint = self.generator.blueprint
        noise = torch.randn(count, blueprint.noise, generator=rng)
        kinds = torch.arange(count) % blueprint.kinds
        return torch.cat([noise, one_hot(kinds, blueprint.kinds).float()], dim=1)

    def epoch(
        self, generator: Tensor, discriminator: Tensor, x: Tensor, rng: torch.Generator, rates: tuple[float, float],
        batch_size: int, min_steps: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Train both networks for one pass over the samples, or for as many passes as make `min_steps` steps.

        For every batch the discriminator takes a step of Adam (betas 0.5 and 0.999) on the binary cross entropy of real
        and generated samples, each normalised by itself, then the generator one on that of new samples with the target
        real. Adam's moments begin at zero in every epoch, as in the authors' code.

        The given models ``(size,)`` are not modified. `x` has two samples or more; a last batch of one is left out.
        `rates` are the learning rates of generator and discriminator. Return the new models, and the mean losses
        ``(2,)`` of both.
        """
        with (
            self.generator.loaded(generator, training=True) as maker,
            self.discriminator.loaded(discriminator, training=True) as judge,
        ):
            moments = [AdamMoments.like(part.params) for part in (maker, judge)]
            x = judge.placed(x)
            losses: list[Tensor] = []
            weights: list[float] = []
            while len(losses) < min_steps:
                for rows in torch.randperm(len(x), generator=rng).split(batch_size):
                    if len(rows) > 1:
                        latents = [self.latents(len(rows), rng) for _ in range(2)]
                        losses.append(_step(maker, judge, moments, rates, x[rows], latents))
                        weights.append(float(len(rows)))
            return maker.vector(), judge.vector(), torch.tensor(weights) @ torch.stack(losses).cpu() / sum(weights)

    @torch.no_grad()
    def samples(self, generator: Tensor, count: int, rng: torch.Generator) -> Tensor:
        """Generate `count` samples, float32 ``(count, *shape)``, with batch normalisation's running statistics."""
        with self.generator.loaded(generator) as maker:
            parts = [maker.output(part).contiguous().cpu() for part in self.latents(count, rng).split(500)]
        return torch.cat(parts)


def _step(
    maker: Resident, judge: Resident, moments: Sequence[AdamMoments], rates: tuple[float, float], real: Tensor,
    latents: Sequence[Tensor],
) -> Tensor:  # fmt: skip
    """Take one step of each network on a real batch and generated ones; return their losses before it, ``(2,)``.

    The first `latents` are for the discriminator's step, the second for the generator's.
    """
    yes, no = real.new_ones(len(real)), real.new_zeros(len(real))
    with torch.no_grad():
        shown = judge.laid(maker.output(latents[0]))
    judge.grad.zero_()
    doubt = judge.criterion(judge.output(real), yes) + judge.criterion(judge.module(shown), no)
    doubt.backward()
    moments[1].step(judge.params, judge.grad, rates[1], beta=0.5)
    generated = maker.output(latents[1])
    shown = judge.laid(generated.detach()).requires_grad_()
    loss = judge.criterion(judge.module(shown), yes)
    (towards,) = torch.autograd.grad(loss, shown)
    maker.grad.zero_()
    (generated * towards).sum().backward()  # not generated.backward(towards), which imports sympy
    moments[0].step(maker.params, maker.grad, rates[0], beta=0.5)
    return torch.stack([loss.detach(), doubt.detach() / 2])
