"""Normalising flows: an invertible network whose density is known (RealNVP; Dinh, Sohl-Dickstein, Bengio 2017).

A sample ``x`` is mapped to a latent ``z``, and ``log p(x) = log N(z; 0, I) + log |det dz/dx|``. Every coupling changes
one half of the numbers by a scale and a shift that follow from the other half, which stays as it is; so the determinant
needs no more than what the map itself needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedkin.core.errors import FedkinError
from fedkin.core.payload import Expected, counts_to, is_shape
from fedkin.nn.networks import UNITS, linear_layers
from fedkin.nn.resident import Architecture


class Coupling(nn.Module):
    """Affine coupling layer: scales one half by ``exp(s)`` and shifts it by ``t``, both computed from the other half.

    `fixed` and `changed` are the lengths of both, `changed` at least 1. The network that computes s, bounded by a tanh,
    and t has `depth` hidden layers of `width` units.
    """

    def __init__(self, fixed: int, changed: int, width: int, depth: int) -> None:
        super().__init__()
        self.conditioner = nn.Sequential(*linear_layers([max(1, fixed), *[width] * depth]), nn.ReLU())
        self.scale, self.shift = nn.Linear(width, changed), nn.Linear(width, changed)

    def forward(self, fixed: Tensor, changed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the transformed half ``(n, changed)``, and the log-determinant of every sample ``(n,)``."""
        if not fixed.shape[1]:  # samples of one feature: the other half is empty
            fixed = fixed.new_zeros(len(fixed), 1)
        hidden = self.conditioner(fixed)
        # Bounded, or a few steps make exp(scale) overflow.
        scale = self.scale(hidden).tanh()
        return changed * scale.exp() + self.shift(hidden), scale.sum(1)


class RealNVP(nn.Module):
    """RealNVP flow: couplings that change the two halves in turn, from samples to standard normal latents.

    The halves of an image are the black and the white squares of a checkerboard; those of a vector are its even and its
    odd positions. A coupling's network, of `depth` hidden layers of `width` units, takes only the unchanged half and
    returns values only for the changed one: the same as masking, without work on what the mask removes.
    """

    def __init__(self, shape: Sequence[int], width: int = 512, depth: int = 3, couplings: int = 6) -> None:
        super().__init__()
        black = checkerboard(shape).flatten()
        self.halves = (black.nonzero().flatten(), (~black).nonzero().flatten())
        lengths = [len(half) for half in self.halves]
        self.turns = [turn % 2 for turn in range(couplings) if lengths[1 - turn % 2]]
        self.couplings = nn.ModuleList(
            Coupling(lengths[fixed], lengths[1 - fixed], width, depth) for fixed in self.turns
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density of samples ``(n, *shape)`` in nats: ``(n,)``."""
        z, log_determinant = self.latent(x)
        return log_determinant - 0.5 * (z.square().sum(1) + z.shape[1] * math.log(2 * math.pi))

    def latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents ``(n, d)`` of samples ``(n, *shape)``, and ``log |det dz/dx|`` ``(n,)``."""
        parts = [x.flatten(1).index_select(1, half.to(x.device)) for half in self.halves]
        log_determinant = x.new_zeros(len(x))
        for fixed, coupling in zip(self.turns, self.couplings, strict=True):
            parts[1 - fixed], change = coupling(parts[fixed], parts[1 - fixed])
            log_determinant = log_determinant + change
        places = torch.cat(self.halves).argsort().to(x.device)
        return torch.cat(parts, dim=1).index_select(1, places), log_determinant


def checkerboard(shape: Sequence[int]) -> Tensor:
    """Return a checkerboard, bool `shape`: True where row plus column is even, or at even positions of a vector.

    Raises FedkinError if `shape` is neither that of a vector nor that of an image.
    """
    if len(shape) == 1:
        return torch.arange(shape[0]) % 2 == 0
    if len(shape) != 3:
        raise FedkinError(
            f"Samples have shape {tuple(shape)}; flows take vectors, and images (channels, height, width)."
        )
    channels, height, width = shape
    board = (torch.arange(height)[:, None] + torch.arange(width)[None]) % 2 == 0
    return board.expand(channels, height, width)


def to_logits(x: Tensor, alpha: float, noise: Tensor | float = 0.5) -> Tensor:
    """Map 8-bit pixel values in [0, 1] to the real line by dequantisation and a logit (Dinh et al. 2017, section 4.1).

    Each of the 256 levels becomes an interval of width 1/256, in which `noise` in [0, 1) chooses a position; 0.5 is the
    middle. The resulting values in [0, 1] are scaled to [alpha, 1 - alpha], and their logits are returned.
    """
    return (alpha + (1 - 2 * alpha) * (x * 255 + noise) / 256).logit()


FLOW: Expected = {"shape": is_shape, "width": UNITS, "depth": counts_to(100), "couplings": counts_to(1000)}


class Flow(Architecture):
    """An `Architecture` of a `RealNVP`, which returns the log-density of samples, trained by maximum likelihood."""

    def __init__(self, shape: tuple[int, ...], width: int, depth: int, couplings: int) -> None:
        self.width, self.depth, self.couplings = width, depth, couplings
        super().__init__("realnvp", shape)

    @staticmethod
    def criterion(output: Tensor, target: Tensor) -> Tensor:
        """Return the mean negative log-likelihood, in nats; there are no targets."""
        return -output.mean()

    def build(self) -> nn.Module:
        return RealNVP(self.shape, self.width, self.depth, self.couplings)

    @torch.no_grad()
    def log_likelihoods(self, models: Tensor, x: Tensor) -> Tensor:
        """Return log-likelihoods, in nats, of samples ``(n, *shape)`` under flows ``(k, size)``: float32 ``(k, n)``."""
        table = torch.empty(len(models), len(x))
        with self.resident() as resident:
            for row, model in zip(table, models, strict=True):
                resident.load(model)
                for place, part in zip(row.split(500), x.split(500), strict=True):
                    place.copy_(resident.output(part))
        return table


def spread_levels(x: Tensor, alpha: float | None, rng: torch.Generator | None = None) -> Tensor:
    """Prepare samples for flows: dequantise images and map them by a logit; values beyond [0, 1] are clipped first.

    `alpha` is as in `to_logits`; None leaves samples as they are. Without a generator of the noise, every value is the
    middle of its level.
    """
    if alpha is None:
        return x
    noise = 0.5 if rng is None else torch.rand(x.shape, generator=rng)
    return to_logits(x.clamp(0, 1), alpha, noise)
