"""Training of a generative adversarial network (GAN), and sampling from it; its networks are in `gan_networks`."""

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
    """Settings of a client's generator and discriminator, as plain values.

    A latent has `noise` standard normal values and a one-hot part of length `kinds`, whose values are equally frequent.
    This part is not tied to a class; it lets a generator make distinct kinds of samples although the noise is
    continuous. `capacity` is the fraction of the paper's units and channels. The output "sigmoid" is for data in [0,
    1].
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


class _Adversary(Architecture):
    """Base of the generator and the discriminator as architectures."""

    criterion = staticmethod(binary_cross_entropy_with_logits)

    def __init__(self, name: str, shape: tuple[int, ...], blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        super().__init__(name, shape)


class Generator(_Adversary):
    """An `Architecture` that generates samples from latents."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__("generator", (blueprint.noise + blueprint.kinds,), blueprint)

    def build(self) -> nn.Module:
        made = self.blueprint
        return build_generator(made.shape, self.shape[0], made.output, made.capacity)

    def targets(self, x: Tensor) -> Tensor:
        """Return zeros of the samples' shape."""
        return torch.zeros(len(x), *self.blueprint.shape)


class Discriminator(_Adversary):
    """An `Architecture` that tells real samples from generated ones."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__("discriminator", blueprint.shape, blueprint)

    def build(self) -> nn.Module:
        return build_discriminator(self.shape, self.blueprint.capacity)

    def targets(self, x: Tensor) -> Tensor:
        """Return the target 1, real, for every sample."""
        return torch.ones(len(x))


@dataclass(frozen=True)
class Adversaries:
    """Generator and discriminator of a blueprint, to train clients' models and to sample from them."""

    generator: Generator
    discriminator: Discriminator

    @staticmethod
    def of(blueprint: Blueprint) -> Adversaries:
        """Return the generator and discriminator of `blueprint`; equal blueprints give the same object."""
        return _shared(blueprint)

    def latents(self, count: int, rng: torch.Generator) -> Tensor:
        """Draw random latents ``(count, noise + kinds)``: standard normal noise, then one-hot kinds in turn."""
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
        rates: tuple[float, float],
        batch_size: int,
        min_steps: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Train both networks for one pass over the samples, or for as many passes as make `min_steps` steps.

        For every batch the discriminator takes a step of Adam (betas 0.5 and 0.999) on the binary cross entropy of real
        and generated samples, each normalised as a batch of its own. Then the generator takes a step on the cross
        entropy of newly generated samples with the target 1, real. Adam's moments begin at zero in every epoch, as in
        the authors' code.

        The given models ``(size,)`` are not modified. `x` has two samples or more, and so has a batch: a last one of a
        single sample is left out. `rates` are the learning rates of the generator and of the discriminator. Return the
        new models, and the mean losses ``(2,)`` over all batches' samples: of the generator, and of the discriminator
        on real and generated ones.
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
        """Generate `count` samples, float32 ``(count, *shape)``, with batch normalisation's running statistics."""
        with self.generator.loaded(generator) as maker:
            made = [maker.output(part).contiguous().cpu() for part in self.latents(count, rng).split(_BATCH)]
        return torch.cat(made)


class _Game:
    """Generator and discriminator in training, each with an optimiser for one epoch."""

    def __init__(self, maker: Resident, judge: Resident, rates: tuple[float, float]) -> None:
        self.maker, self.judge = maker, judge
        self.making, self.judging = adam_for(maker, rates[0], _BETAS), adam_for(judge, rates[1], _BETAS)

    def play(self, real: Tensor, to_judge: Tensor, to_make: Tensor) -> Tensor:
        """Take one step of each network on a real batch and generated ones; return their losses before it, ``(2,)``."""
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
