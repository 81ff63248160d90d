"""Adam (Kingma and Ba 2015) on a flat vector, with moments that can be kept from one round to the next."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor

_NAMES = ("adam_mean", "adam_square", "adam_steps")


@dataclass
class AdamMoments:
    """What Adam remembers.

    Attributes
    ----------
    mean, square : Tensor
        float32 ``(parameters,)``, running means of the gradient and of its square.
    steps : Tensor
        float32 scalar, steps done.
    """

    mean: Tensor
    square: Tensor
    steps: Tensor

    @classmethod
    def new(cls, parameters: int) -> AdamMoments:
        """Those of an optimiser that has done nothing yet."""
        return cls(torch.zeros(parameters), torch.zeros(parameters), torch.zeros(()))

    @classmethod
    def kept(cls, state: MutableMapping[str, Tensor], parameters: int) -> AdamMoments:
        """A copy of those that a client's `state` holds, or new ones."""
        if _NAMES[0] not in state:
            return cls.new(parameters)
        return cls(*(state[name].clone() for name in _NAMES))

    def move(self, device: torch.device | str) -> None:
        """To a device."""
        self.mean, self.square, self.steps = (part.to(device) for part in (self.mean, self.square, self.steps))

    def keep(self, state: MutableMapping[str, Tensor]) -> None:
        """Write them into a client's `state`."""
        state.update(zip(_NAMES, (self.mean, self.square, self.steps), strict=True))

    @staticmethod
    def forget(state: MutableMapping[str, Tensor]) -> None:
        """Take them out of a client's `state`, if they are there."""
        for name in _NAMES:
            state.pop(name, None)

    def step(self, values: Tensor, slopes: Tensor, rate: float) -> None:
        """Move `values` ``(parameters,)`` in place, by their gradient `slopes`; betas 0.9 and 0.999, epsilon 1e-8."""
        self.steps += 1
        torch._fused_adam_(
            [values],
            [slopes],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
