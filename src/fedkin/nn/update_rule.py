"""Update rules of flat models, one or many at once: gradient descent, or Adam (Kingma and Ba 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkin.nn.optimisers import AdamMoments


@dataclass(frozen=True)
class Descent:
    """Settings of a client's training: shuffled mini-batches, the architecture's mean loss, a new optimiser each time.

    Attributes
    ----------
    steps : int or None
        Number of optimiser steps, which replaces `epochs`.
    optimizer : {"sgd", "adam"}
        Adam with the usual betas 0.9 and 0.999 and epsilon 1e-8.
    momentum : float
        Momentum of "sgd", in [0, 1).
    weight_decay : float
        Added to the gradient as ``weight_decay * w``.
    proximal : float
        FedProx's mu: the loss gains ``mu / 2 * ||w - w_start||^2`` (Li et al. 2020, eq. 2).
    recipe : str or None
        Name of a custom optimiser and augmentation, see `fedkin.nn.recipes.recipe_of`.
    """

    epochs: int = 1
    steps: int | None = None
    batch_size: int = 32
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0
    recipe: str | None = None


class UpdateRule:
    """Update rule of a `Descent`: the penalties it adds to gradients, and the step it takes by them.

    `start` ``(parameters,)`` or ``(K, parameters)`` is on the device that trains; it is not modified, and must not be
    if `proximal` is set. `frozen` are positions of parameters that do not train. A step `is_plain` if it is the
    gradient times the learning rate and nothing else.
    """

    def __init__(self, start: Tensor, descent: Descent, frozen: Sequence[slice] = ()) -> None:
        self.descent, self.frozen = descent, frozen
        adam = descent.optimizer == "adam"
        self.start = start if descent.proximal else None
        self.velocity = torch.zeros_like(start) if descent.momentum and not adam else None
        self.moments = AdamMoments.like(start) if adam else None
        self.is_plain = not (adam or descent.momentum or descent.weight_decay or descent.proximal or frozen)

    @staticmethod
    def copies(descent: Descent) -> int:
        """Return the numbers in memory per parameter at most, model and gradient included, while some rows step."""
        remembered = 2 * (descent.optimizer == "adam") + bool(descent.momentum) + bool(descent.proximal)
        return 3 + 2 * remembered

    def restart(self, start: Tensor) -> None:
        """Begin anew from other initial parameters of the same shape."""
        if self.start is not None:
            self.start.copy_(start)
        if self.velocity is not None:
            self.velocity.zero_()
        if self.moments is not None:
            self.moments.take(AdamMoments.like(start))

    def of(self, rows: Tensor) -> UpdateRule:
        """Return the rule of the models at `rows`, with copies of their momentum and moments (see `put`)."""
        part = UpdateRule.__new__(UpdateRule)
        part.descent, part.frozen, part.is_plain = self.descent, self.frozen, self.is_plain
        part.start, part.velocity = (None if one is None else one[rows] for one in (self.start, self.velocity))
        part.moments = None if self.moments is None else self.moments.of(rows)
        return part

    def put(self, rows: Tensor, part: UpdateRule) -> None:
        """Write the momentum and moments of `part`, the rule of the models at `rows`, back into these."""
        if self.velocity is not None and part.velocity is not None:
            self.velocity[rows] = part.velocity
        if self.moments is not None and part.moments is not None:
            self.moments.put(rows, part.moments)

    def regularise(self, params: Tensor, grad: Tensor) -> None:
        """Add the gradients of the penalties to `grad` in place, and set those of frozen parameters to 0."""
        if self.descent.weight_decay:
            grad.add_(params, alpha=self.descent.weight_decay)
        if self.start is not None:
            grad.add_(params, alpha=self.descent.proximal).sub_(self.start, alpha=self.descent.proximal)
        for place in self.frozen:
            grad[..., place] = 0.0

    def move(self, params: Tensor, grad: Tensor) -> None:
        """Take one step on `params` in place, by a gradient that `regularise` has been applied to."""
        if self.moments is not None:
            self.moments.step(params, grad, self.descent.learning_rate)
            return
        direction = grad
        if self.velocity is not None:
            direction = self.velocity.mul_(self.descent.momentum).add_(grad)
        params.add_(direction, alpha=-self.descent.learning_rate)
