"""Normalising flows as flat vectors, and samples' log-likelihoods under many of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from fedkin.nn.architecture import Architecture
from fedkin.nn.flow import RealNVP, to_logits

_BATCH = 500


class Flow(Architecture):
    """An `Architecture` whose module gives the log-density of samples and learns by making it large.

    Parameters
    ----------
    shape : tuple of int
        Of one sample.
    width, depth, couplings : int
        See `fedkin.nn.flow.RealNVP`.
    """

    def __init__(self, shape: tuple[int, ...], width: int, depth: int, couplings: int) -> None:
        self.width, self.depth, self.couplings = width, depth, couplings
        super().__init__("realnvp", shape)

    @staticmethod
    def criterion(output: Tensor, target: Tensor) -> Tensor:
        """Mean negative log-likelihood, in nats."""
        return -output.mean()

    @staticmethod
    def of(spec: Mapping[str, Any]) -> Flow:
        """The flow of plain values ``{"shape", "width", "depth", "couplings"}``; always the same object."""
        return _shared(tuple(spec["shape"]), spec["width"], spec["depth"], spec["couplings"])

    def spec(self) -> dict[str, Any]:
        """Plain values that `of` makes this flow from."""
        return {"shape": list(self.shape), "width": self.width, "depth": self.depth, "couplings": self.couplings}

    def build(self) -> nn.Module:
        """A new module."""
        return RealNVP(self.shape, self.width, self.depth, self.couplings)

    def targets(self, x: Tensor) -> Tensor:
        """The samples themselves; there is nothing else to learn."""
        return x

    @torch.no_grad()
    def log_likelihoods(self, models: Tensor, x: Tensor) -> Tensor:
        """Log-likelihood, in nats, of samples ``(n, *shape)`` under flows ``(k, size)``: float32 ``(k, n)``."""
        table = torch.empty(len(models), len(x))
        with self.resident() as resident:
            for row, model in zip(table, models, strict=True):
                resident.load(model)
                for place, part in zip(row.split(_BATCH), x.split(_BATCH), strict=True):
                    place.copy_(resident.output(part))
        return table


def spread_levels(x: Tensor, alpha: float | None, rng: torch.Generator | None = None) -> Tensor:
    """Samples as flows take them. Values of images beyond [0, 1], which have no logit, count as 0 or 1.

    Parameters
    ----------
    x : Tensor
        float32 ``(n, *shape)``.
    alpha : float or None
        See `fedkin.nn.flow.to_logits`; None leaves samples as they are.
    rng : torch.Generator, optional
        Where the noise comes from; without one, every value is the middle of its level.

    Returns
    -------
    Tensor
        Of the shape of `x`.
    """
    if alpha is None:
        return x
    noise = 0.5 if rng is None else torch.rand(x.shape, generator=rng)
    return to_logits(x.clamp(0, 1), alpha, noise)[0]


@lru_cache(maxsize=8)
def _shared(shape: tuple[int, ...], width: int, depth: int, couplings: int) -> Flow:
    return Flow(shape, width, depth, couplings)
