"""Networks of a generative adversarial network: a generator and a discriminator.

For images those of SDA-FC (Yan et al. 2024, as in its authors' code): with 28 x 28 pixels the generator has fully
connected layers of 1,024 and 6,272 units and two transposed convolutions, the discriminator three convolutions of 64,
128 and 256 channels and a fully connected layer of 1,024 units. Vectors, and images with a side below 8, get small
fully connected networks, which are not of the paper.
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

from fedkin.nn.architecture import Architecture
from fedkin.nn.encoder import Output, last_layers
from fedkin.nn.layers import normalised_layer
from fedkin.nn.optimisers import adam_for
from fedkin.nn.resident import Resident

_SMALLEST_SIDE = 8
_GENERATOR_CHANNELS = (128, 64)
_DISCRIMINATOR_CHANNELS = (64, 128, 256)
_UNITS = 1024
_VECTOR_UNITS = 128
_LEAK = 0.2
_INITIAL_SPREAD = 0.02
_BETAS = (0.5, 0.999)
_BATCH = 500


def build_generator(shape: Sequence[int], latent: int, output: Output = "sigmoid", capacity: float = 1.0) -> nn.Module:
    """A new generator, from latents ``(n, latent)`` to samples ``(n, *shape)``, in training mode.

    Parameters
    ----------
    shape : sequence of int
        Shape of one sample: (channels, height, width) or (features,).
    latent : int
        Numbers that a sample is made of.
    output : {"sigmoid", "linear"}
        "sigmoid" for data in [0, 1], "linear" for standardised data.
    capacity : float
        Units and channels as a fraction of the paper's, above 0; of each layer at least one is left.
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
    """A new discriminator, from samples ``(n, *shape)`` to logits ``(n,)`` of their being real, in training mode.

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


def takes_convolutions(shape: Sequence[int]) -> bool:
    """Whether samples of `shape` are images of 8 x 8 pixels or more."""
    return len(shape) == 3 and min(shape[1:]) >= _SMALLEST_SIDE


class _Planes(nn.Module):
    """Rows ``(n, C * H * W)`` as images ``(n, C, H, W)``, channels last in memory as convolutions are fastest with."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        channels, height, width = self.shape
        return x.view(len(x), height, width, channels).permute(0, 3, 1, 2)


class _Cropped(nn.Module):
    """The upper left part of images: sides that are no multiples of 4 come out of the last layer too long."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : self.height, : self.width]


def _scaled(units: int, capacity: float) -> int:
    return max(1, round(units * capacity))


def _initialised(module: nn.Module, capacity: float) -> nn.Module:
    """Weights drawn from a normal distribution with standard deviation 0.02, biases 0, as in the authors' code.

    Fewer units have larger weights, so that what they add up to is as strong at the start.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, std=_INITIAL_SPREAD / math.sqrt(capacity))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module


@dataclass(frozen=True)
class Blueprint:
    """What both networks of a client are made from; plain values.

    Attributes
    ----------
    shape : tuple of int
        Shape of one sample.
    output : {"sigmoid", "linear"}
        "sigmoid" for data in [0, 1].
    noise : int
        Normal numbers in a latent.
    kinds : int
        Length of the one-hot part of a latent, of which each value is as frequent. Nothing ties it to a class; it lets
        a generator make unlike samples without a leap in the noise.
    capacity : float
        Units and channels as a fraction of the paper's.
    """

    shape: tuple[int, ...]
    output: Output = "sigmoid"
    noise: int = 62
    kinds: int = 10
    capacity: float = 1.0

    @staticmethod
    def of(spec: Mapping[str, Any]) -> Blueprint:
        """The inverse of `spec`."""
        return Blueprint(**{**spec, "shape": tuple(spec["shape"])})

    def spec(self) -> dict[str, Any]:
        """As a payload."""
        return {**self.__dict__, "shape": list(self.shape)}


@dataclass(frozen=True)
class Rates:
    """Learning rates of one epoch."""

    generator: float
    discriminator: float


class _Adversary(Architecture):
    """One of the two networks of a blueprint; a model is a flat vector."""

    criterion = staticmethod(binary_cross_entropy_with_logits)

    def __init__(self, name: str, shape: tuple[int, ...], blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        super().__init__(name, shape)


class Generator(_Adversary):
    """Makes samples of latents."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__("generator", (blueprint.noise + blueprint.kinds,), blueprint)

    def build(self) -> nn.Module:
        """A new module."""
        made = self.blueprint
        return build_generator(made.shape, self.shape[0], made.output, made.capacity)

    def targets(self, x: Tensor) -> Tensor:
        """Zeros of the samples' shape."""
        return torch.zeros(len(x), *self.blueprint.shape)


class Discriminator(_Adversary):
    """Distinguishes real samples from made ones."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__("discriminator", blueprint.shape, blueprint)

    def build(self) -> nn.Module:
        """A new module."""
        return build_discriminator(self.shape, self.blueprint.capacity)

    def targets(self, x: Tensor) -> Tensor:
        """Ones: all samples are real."""
        return torch.ones(len(x))


@dataclass(frozen=True)
class Adversaries:
    """Both architectures of a blueprint, to train and sample any client's models with."""

    generator: Generator
    discriminator: Discriminator

    @staticmethod
    def of(blueprint: Blueprint) -> Adversaries:
        """Those of `blueprint`; always the same object."""
        return _shared(blueprint)

    def latents(self, count: int, rng: torch.Generator) -> Tensor:
        """Random latents ``(count, noise + kinds)``: standard normal noise, then one-hot kinds in turn."""
        blueprint = self.generator.blueprint
        noise = torch.randn(count, blueprint.noise, generator=rng)
        kinds = torch.arange(count) % blueprint.kinds
        return torch.cat([noise, one_hot(kinds, blueprint.kinds).float()], dim=1)

    def epoch(
        self,
        generator: Tensor,
        discriminator: Tensor,
        x: Tensor,
        rng: torch.Generator,
        rates: Rates,
        batch_size: int,
        min_steps: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Train both for one pass over the samples, or as many as it takes to make `min_steps` steps.

        For every batch the discriminator takes a step of Adam (betas 0.5 and 0.999) on the binary cross entropy of real
        and made samples, each normalised as a batch of its own, and then the generator one on that of having other
        made samples taken for real. Adam's moments begin at zero in every epoch, as in the authors' code.

        Parameters
        ----------
        generator, discriminator : Tensor, (size,)
            Not modified.
        x : Tensor
            float32 ``(n, *shape)``, n >= 2. A last batch of a single sample is left out.
        rng : torch.Generator
            Shuffles, and draws latents.
        rates : Rates
        batch_size : int
            2 or more.
        min_steps : int

        Returns
        -------
        generator, discriminator : Tensor, (size,)
        losses : Tensor, (2,)
            Means over all batches' samples: the generator's, and the discriminator's mean over real and made ones.
        """
        with (
            self.generator.loaded(generator, training=True) as maker,
            self.discriminator.loaded(discriminator, training=True) as judge,
        ):
            game = _Game(maker, judge, rates)
            x = judge.placed(x)
            losses: list[Tensor] = []
            weights: list[float] = []
            while len(losses) < min_steps:
                for rows in torch.randperm(len(x), generator=rng).split(batch_size):
                    if len(rows) > 1:
                        losses.append(game.play(x[rows], *(self.latents(len(rows), rng) for _ in range(2))))
                        weights.append(float(len(rows)))
            return maker.vector(), judge.vector(), torch.tensor(weights) @ torch.stack(losses).cpu() / sum(weights)

    @torch.no_grad()
    def samples(self, generator: Tensor, count: int, rng: torch.Generator) -> Tensor:
        """So many made samples, float32 ``(count, *shape)``, with the batch norms' remembered statistics."""
        with self.generator.loaded(generator) as maker:
            made = [maker.output(part).contiguous().cpu() for part in self.latents(count, rng).split(_BATCH)]
        return torch.cat(made)


class _Game:
    """Both networks in training, with an optimiser each for one epoch."""

    def __init__(self, maker: Resident, judge: Resident, rates: Rates) -> None:
        self.maker, self.judge = maker, judge
        self.making = adam_for(maker, rates.generator, _BETAS)
        self.judging = adam_for(judge, rates.discriminator, _BETAS)

    def play(self, real: Tensor, to_judge: Tensor, to_make: Tensor) -> Tensor:
        """One step of each on a batch, and on samples made of these latents: their losses before it, ``(2,)``."""
        yes, no = real.new_ones(len(real)), real.new_zeros(len(real))
        with torch.no_grad():
            shown = self.judge.laid(self.maker.output(to_judge))
        self.judge.grad.zero_()
        doubt = self.judge.criterion(self.judge.output(real), yes) + self.judge.criterion(self.judge.module(shown), no)
        doubt.backward()
        self.judging.step()
        made = self.maker.output(to_make)
        shown = self.judge.laid(made.detach()).requires_grad_()
        loss = self.judge.criterion(self.judge.module(shown), yes)
        (towards,) = torch.autograd.grad(loss, shown)
        self.maker.grad.zero_()
        made.backward(towards)
        self.making.step()
        return torch.stack([loss.detach(), doubt.detach() / 2])


@lru_cache(maxsize=4)
def _shared(blueprint: Blueprint) -> Adversaries:
    return Adversaries(Generator(blueprint), Discriminator(blueprint))
