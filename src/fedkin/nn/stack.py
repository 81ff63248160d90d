"""Training of many small models on different data at once.

On a CPU a handful of small models trained as one stack share the cost of every call into torch; many more fall out of
the cache. So models train a few at a time, and each has its own epochs: none waits for another's longer epoch, and one
that is done leaves the stack, parameters and Adam moments untouched from then on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.nn.optimisers import adam_step
from fedkin.nn.stacked_autoencoder import Autoencoder, Gradient


@dataclass(frozen=True)
class StackTraining:
    """How models are trained: Adam on the mean squared error of shuffled mini-batches.

    Parameters
    ----------
    epochs : int
        Passes over the data.
    min_steps : int
        Smaller data get as many more epochs as make up this number of optimiser steps.
    batch_size : int
    learning_rate : float
    epsilon : float
        Adam's; 1e-7 is the default of the framework FedCRef was written in.
    """

    epochs: int = 20
    min_steps: int = 0
    batch_size: int = 32
    learning_rate: float = 1e-3
    epsilon: float = 1e-7

    def steps(self, samples: int) -> int:
        """Optimiser steps in one epoch."""
        return math.ceil(samples / self.batch_size)

    def total_steps(self, samples: int) -> int:
        """Optimiser steps in all epochs."""
        steps = self.steps(samples)
        return steps * max(self.epochs, math.ceil(self.min_steps / steps))


STACK = 2
"""Models per stack: measured best on CPUs with 1 MiB of second-level cache per core whose third level is shared."""


def fit(
    model: Autoencoder,
    stack: Tensor,
    data: Sequence[Tensor],
    rngs: Sequence[torch.Generator],
    training: StackTraining,
    stack_size: int = STACK,
) -> tuple[Tensor, Tensor]:
    """Train every row of `stack` on its own data; as if each were trained by itself.

    Parameters
    ----------
    model : Autoencoder
    stack : Tensor, (K, size) float32
        Initial parameters; not modified.
    data : sequence of K tensors, (n_k, features) float32, n_k >= 1
    rngs : sequence of K generators
        Each shuffles its own model's data.
    training : Training
    stack_size : int
        Models per stack; only speed depends on it.

    Returns
    -------
    stack : Tensor, (K, size)
        Trained parameters.
    losses : Tensor, (K,)
        Mean training error in the last epoch.
    """
    trained = stack.clone()
    losses = torch.zeros(len(stack))
    order = sorted(range(len(stack)), key=lambda k: (-training.total_steps(len(data[k])), k))
    for at in range(0, len(order), stack_size):
        rows = order[at : at + stack_size]
        part = _Part(model, trained[rows], [data[k] for k in rows], [rngs[k] for k in rows], training)
        losses[rows] = part.train()
        trained[rows] = part.stack
    return trained, losses


@dataclass(eq=False)
class _Part:
    """A few models in training, longest first; each walks through its own epochs at its own pace."""

    model: Autoencoder
    stack: Tensor
    data: list[Tensor]
    rngs: list[torch.Generator]
    training: StackTraining

    def __post_init__(self) -> None:
        self.gradient = Gradient(self.model, self.stack, self.training.batch_size)
        self.weights = torch.zeros(len(self.data), self.training.batch_size, 1)
        self.filled = [0] * len(self.data)
        self.orders = [torch.empty(0, dtype=torch.int64)] * len(self.data)
        self.losses = torch.zeros(len(self.data))

    def train(self) -> Tensor:
        """Train to the end; each model's mean error over its last epoch."""
        steps = [self.training.steps(len(x)) for x in self.data]
        totals = [self.training.total_steps(len(x)) for x in self.data]
        reported = min(total - epoch for total, epoch in zip(totals, steps, strict=True))
        gradient = self.gradient.gradient
        moments = torch.zeros_like(gradient), torch.zeros_like(gradient), torch.zeros(len(gradient))
        tensors = [list(part) for part in (self.stack, gradient, *moments)]
        for step in range(totals[0]):
            active = sum(total > step for total in totals)
            for k in range(active):
                self._load(k, step % steps[k])
            self.gradient(active, self.weights)
            if step >= reported:
                self.losses[:active] += self.gradient.losses(self.weights)
            params, grads, means, squares, steps_done = (part[:active] for part in tensors)
            adam_step(params, grads, means, squares, steps_done, self.training.learning_rate, self.training.epsilon)
        return self.losses / torch.tensor(steps)

    def _load(self, k: int, step: int) -> None:
        if step == 0:
            self.orders[k] = torch.randperm(len(self.data[k]), generator=self.rngs[k])
            self.losses[k] = 0.0
        rows = self.orders[k][step * self.training.batch_size : (step + 1) * self.training.batch_size]
        torch.index_select(self.data[k], 0, rows, out=self.gradient.batch[k, : len(rows)])
        if len(rows) != self.filled[k]:
            self.filled[k] = len(rows)
            self.weights[k, : len(rows)] = 1.0 / len(rows)
            self.weights[k, len(rows) :] = 0.0
