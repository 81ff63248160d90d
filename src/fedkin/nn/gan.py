"""Training of a generative adversarial network, and samples from it; `gan_networks` has its two networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from fedkin.nn.architecture import Architecture
from fedkin.nn.encoder import Output
from fedkin.nn.gan_networks import build_discriminator, build_generator
from fedkin.nn.optimisers import adam_for
from fedkin.nn.resident import Resident

_BETAS = (0.5, 0.999)
_BATCH = 500


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
        and made samples, each normalised as a batch of its own. Then the generator takes one on the cross entropy of
        having other made samples taken for real. Adam's moments begin at zero in every epoch, as in the authors' code.

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
