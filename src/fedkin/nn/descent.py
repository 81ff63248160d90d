"""Training of one client's model on its own data."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from fedkin.nn.architecture import Architecture
from fedkin.nn.recipes import recipe_of
from fedkin.nn.resident import Losses, Resident
from fedkin.nn.update_rule import Descent, UpdateRule

__all__ = ["Descent", "batch_orders", "descend", "steps_of"]


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
        if descent.recipe is None:
            optimizer = _Optimizer(resident, start[: architecture.parameters], descent)
        else:
            optimizer = _ByRecipe(resident, start[: architecture.parameters], descent, rng)
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
    """Optimiser steps on the trainable part of a resident's vector."""

    def __init__(self, resident: Resident, start: Tensor, descent: Descent) -> None:
        self.resident, self.params, self.grad, self.descent = resident, resident.params, resident.grad, descent
        self.rule = UpdateRule(resident.laid_out(start), descent, resident.frozen)

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

    def __init__(self, resident: Resident, start: Tensor, descent: Descent, rng: torch.Generator) -> None:
        super().__init__(resident, start, descent)
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
