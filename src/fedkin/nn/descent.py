"""Training of one client's model on its own data.

Update rules work on flat models, one or many at once: gradient descent, or Adam (Kingma and Ba 2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkin.nn.architecture import Architecture
from fedkin.nn.optimisers import AdamMoments
from fedkin.nn.recipes import recipe_of
from fedkin.nn.resident import Losses, Resident


@dataclass(frozen=True)
class Descent:
    """Settings of a client's training: shuffled mini-batches, the architecture's mean loss, a new optimiser each time.

    A number of `steps` of the optimiser replaces `epochs`. Adam has the usual betas 0.9 and 0.999 and epsilon 1e-8;
    `momentum` of "sgd" is in [0, 1). The gradient gains ``weight_decay * w``, and the loss ``mu / 2 * ||w -
    w_start||^2``, where `proximal` is FedProx's mu (Li et al. 2020, eq. 2). `recipe` names a custom optimiser and
    augmentation, see `fedkin.nn.recipes.recipe_of`.
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
        """Start again from other initial parameters of the same shape."""
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


def descend(
    architecture: Architecture, start: Tensor, x: Tensor, y: Tensor, rng: torch.Generator, descent: Descent
) -> tuple[Tensor, float]:
    """Train a model on one client's samples, from `start` ``(size,)``; return the new model and its mean training loss.

    `start` is not modified. `x` is ``(n, *shape)``, n >= 1; `y` are for a classifier int64 ``(n,)``, for an autoencoder
    the samples again. `rng` shuffles, and draws dropout. The loss is that over the last epoch, or over the last ``n /
    batch_size`` steps. It is NaN if there was nothing to train on, as for a batch norm and a single sample.
    """
    with architecture.loaded(start, rng, training=True) as resident:
        x, y = resident.placed(x), resident.placed(y)
        optimizer = _Optimizer(resident, descent) if descent.recipe is None else _ByRecipe(resident, descent, rng)
        total, per_epoch = steps_of(len(x), descent)
        epochs = [
            optimizer.through(x, y, order, descent.batch_size)
            for order in batch_orders(len(x), total, rng, descent.batch_size)
        ]
        losses, counts = (torch.cat(parts)[-per_epoch:] for parts in zip(*epochs, strict=True))
        return resident.vector(), float((losses * counts).sum() / counts.sum())


def steps_of(n: int, descent: Descent) -> tuple[int, int]:
    """Return the number of optimiser steps in all, and in one epoch."""
    per_epoch = math.ceil(n / descent.batch_size)
    return descent.steps if descent.steps is not None else descent.epochs * per_epoch, per_epoch


def batch_orders(n: int, total: int, rng: torch.Generator, batch_size: int) -> Iterator[Tensor]:
    """Yield row numbers of `total` batches, in a new order for every epoch; the last epoch may be cut short."""
    per_epoch = math.ceil(n / batch_size)
    for done in range(0, total, per_epoch):
        yield torch.randperm(n, generator=rng)[: (total - done) * batch_size]


class _Optimizer:
    """Optimiser steps on the trainable part of a resident's vector, from the model that is loaded."""

    def __init__(self, resident: Resident, descent: Descent) -> None:
        self.resident, self.params, self.grad, self.descent = resident, resident.params, resident.grad, descent
        self.rule = UpdateRule(resident.params.clone(), descent, resident.frozen)

    def through(self, x: Tensor, y: Tensor, order: Tensor, batch_size: int) -> Losses:
        """Take one step on every batch of `order`, as `Resident.descend` does."""
        if self.rule.is_plain:
            return self.resident.descend(x, y, order, batch_size, self.descent.learning_rate)
        return self.resident.through(x, y, order, batch_size, self.step)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """Take one step on a batch; return its loss before the step."""
        loss = self.regularised(x, y)
        self.rule.move(self.params, self.grad)
        return loss

    def regularised(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient of the loss and its penalties into `grad`; return the loss without penalties."""
        loss = self.resident.gradient(x, y)
        self.rule.regularise(self.params, self.grad)
        return loss


class _ByRecipe(_Optimizer):
    """Optimiser steps by a recipe's own optimiser and augmentation, on the module's own parameters."""

    def __init__(self, resident: Resident, descent: Descent, rng: torch.Generator) -> None:
        super().__init__(resident, descent)
        assert descent.recipe is not None
        self.rule.is_plain, self.rng, self.recipe = False, rng, recipe_of(descent.recipe)
        self.own = self.recipe.optimizer_for(resident.module, descent.learning_rate)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.recipe.augmented(x, self.rng)
        if self.own is None:
            return super().step(x, y)
        losses: list[Tensor] = []

        def closure() -> float:
            losses.append(self.regularised(x, y))
            return float(losses[-1])

        self.own.step(closure)
        return losses[0]
