"""Adam (Kingma and Ba 2015) as torch computes it, on flat vectors, with moments that can be kept between rounds."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adam import adam

from fedkin.nn.resident import Resident

_NAMES = ("adam_mean", "adam_square", "adam_steps")


@dataclass
class AdamMoments:
    """State of Adam: running means of the gradient and its square, and the number of steps.

    Means are ``(parameters,)``, and `steps` is a scalar; of many models they are ``(K, parameters)`` and ``(K,)``. All
    are float32.
    """

    mean: Tensor
    square: Tensor
    steps: Tensor

    @classmethod
    def new(cls, parameters: int) -> AdamMoments:
        """Return the moments of a new optimiser, all zero."""
        return cls(torch.zeros(parameters), torch.zeros(parameters), torch.zeros(()))

    @classmethod
    def like(cls, params: Tensor) -> AdamMoments:
        """Return zero moments for parameters ``(parameters,)`` or ``(K, parameters)``, on their device."""
        return cls(torch.zeros_like(params), torch.zeros_like(params), torch.zeros_like(params[..., 0]))

    def of(self, rows: Tensor) -> AdamMoments:
        """Return a copy of the moments of the models at `rows`."""
        return AdamMoments(self.mean[rows], self.square[rows], self.steps[rows])

    def put(self, rows: Tensor, part: AdamMoments) -> None:
        """Write `part`, the moments of the models at `rows`, back into these."""
        self.mean[rows], self.square[rows], self.steps[rows] = part.mean, part.square, part.steps

    @classmethod
    def kept(cls, state: MutableMapping[str, Tensor], parameters: int) -> AdamMoments:
        """Return a copy of the moments in a client's `state`, or new ones."""
        if _NAMES[0] not in state:
            return cls.new(parameters)
        return cls(*(state[name].clone() for name in _NAMES))

    def take(self, other: AdamMoments, laid: Callable[[Tensor], Tensor] = lambda values: values) -> None:
        """Take over the values of `other`, which may be on another device, its moments as `laid` returns them."""
        self.mean.copy_(laid(other.mean))
        self.square.copy_(laid(other.square))
        self.steps.copy_(other.steps)

    def keep(self, state: MutableMapping[str, Tensor]) -> None:
        """Store the moments in a client's `state`."""
        state.update(zip(_NAMES, (self.mean, self.square, self.steps), strict=True))

    @staticmethod
    def forget(state: MutableMapping[str, Tensor]) -> None:
        """Remove the moments from a client's `state`, if there are any."""
        for name in _NAMES:
            state.pop(name, None)

    def step(self, params: Tensor, grad: Tensor, rate: float) -> None:
        """Take one Adam step on `params` in place, with betas 0.9 and 0.999 and epsilon 1e-8."""
        if params.dim() == 1:
            adam_step([params], [grad], [self.mean], [self.square], [self.steps], rate, epsilon=1e-8)
        else:
            lists = list(params), list(grad), list(self.mean), list(self.square), list(self.steps)
            adam_step(*lists, rate, epsilon=1e-8)


def adam_step(
    params: list[Tensor], grads: list[Tensor], means: list[Tensor], squares: list[Tensor], steps: list[Tensor],
    rate: float, epsilon: float,
) -> None:  # fmt: skip
    """Take one step of torch's fused Adam in place, with betas 0.9 and 0.999; every tensor has its own step count."""
    adam(
        params, grads, means, squares, [], steps, fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=rate,
        weight_decay=0.0, eps=epsilon, maximize=False,
    )  # fmt: skip


def adam_for(resident: Resident, rate: float, betas: tuple[float, float] = (0.9, 0.999)) -> torch.optim.Adam:
    """Return torch's fused Adam for all parameters of a resident, as one tensor."""
    resident.params.grad = resident.grad
    return torch.optim.Adam([resident.params], lr=rate, betas=betas, fused=True)
