"""Training of many small models on different data at once.

On a CPU a handful of small models trained as one stack share the overhead of every call into torch; many more do not
fit in the cache. So models train a few at a time, and each has its own epochs: none waits for another's longer epoch,
and one that is done leaves the stack; its parameters and Adam moments are not touched from then on.

On an accelerator every call costs the same for one model as for hundreds. There as many train at once as its memory
holds, and the rows of their batches are drawn before and sent there once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.core.device import ONE_STACK, device, stack_memory
from fedkin.nn.optimisers import adam_step
from fedkin.nn.stacked_autoencoder import Autoencoder, Gradient


@dataclass(frozen=True)
class StackTraining:
    """Settings of a stack's training: Adam on the mean squared error of shuffled mini-batches.

    Parameters
    ----------
    epochs : int
        Passes over the data.
    min_steps : int
        Minimum number of optimiser steps; small data sets get more epochs to reach it.
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
        """Return the number of optimiser steps in one epoch."""
        return math.ceil(samples / self.batch_size)

    def total_steps(self, samples: int) -> int:
        """Return the number of optimiser steps in all epochs."""
        steps = self.steps(samples)
        return steps * max(self.epochs, math.ceil(self.min_steps / steps))


STACK = 2
"""Models per stack: measured best on CPUs with 1 MiB of second-level cache per core whose third level is shared."""

_FLOAT, _INDEX = 4, 8


def fit(
    model: Autoencoder,
    stack: Tensor,
    data: Sequence[Tensor],
    rngs: Sequence[torch.Generator],
    training: StackTraining,
    stack_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Train every model of `stack` on its own data; the result is as if each were trained by itself.

    Parameters
    ----------
    model : Autoencoder
    stack : Tensor, (K, size) float32
        Initial parameters; not modified.
    data : sequence of K tensors, (n_k, features) float32, n_k >= 1
    rngs : sequence of K generators
        Each shuffles its own model's data.
    training : Training
    stack_size : int, optional
        Models per stack; only speed depends on it. Two by default; on an accelerator, as many as its memory holds.

    Returns
    -------
    stack : Tensor, (K, size)
        Trained parameters, on the processor.
    losses : Tensor, (K,)
        Mean training error in the last epoch.
    """
    trained = stack.clone()
    losses = torch.zeros(len(stack))
    processor = device().type == "cpu"
    kind = _Part if processor else _Scheduled
    order = sorted(range(len(stack)), key=lambda k: (-training.total_steps(len(data[k])), k))
    with nullcontext() if processor else ONE_STACK:
        size = stack_size or (STACK if processor else _fitting(model, data, training))
        for at in range(0, len(order), size):
            rows = order[at : at + size]
            part = kind(model, trained[rows], [data[k] for k in rows], [rngs[k] for k in rows], training)
            losses[rows] = part.train().cpu()
            trained[rows] = part.stack.cpu()
    return trained, losses


def _fitting(model: Autoencoder, data: Sequence[Tensor], training: StackTraining) -> int:
    """Return the number of models that fit in the free memory of the device together, at least 1."""
    longest = max(training.total_steps(len(x)) for x in data)
    outputs = model.widths[0] + 2 * sum(outputs for _, outputs in model.layers)
    samples = max(len(x) for x in data) * model.widths[0]
    floats = 4 * model.size + training.batch_size * outputs + samples + training.batch_size * longest
    return max(1, stack_memory() // (_FLOAT * floats + _INDEX * training.batch_size * longest))


@dataclass(eq=False)
class _Part:
    """Some models of a stack in training, longest first; each goes through its own epochs."""

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
        """Train the models to the end; return each model's mean error over its last epoch."""
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


class _Scheduled(_Part):
    """Many models in training on an accelerator, with the rows of every batch drawn in advance and sent once."""

    def __post_init__(self) -> None:
        where = device()
        steps = [self.training.steps(len(x)) for x in self.data]
        totals = [self.training.total_steps(len(x)) for x in self.data]
        rows, weights = self._schedule(steps, totals)
        self.steps, self.totals = steps, totals
        self.rows, self.weights = rows.to(where), weights.to(where)
        self.flat = torch.cat(self.data).to(where)
        self.stack = self.stack.to(where)
        self.gradient = Gradient(self.model, self.stack, self.training.batch_size)

    def train(self) -> Tensor:
        """Train the models to the end; return each model's mean error over its last epoch."""
        gradient = self.gradient.gradient
        moments = torch.zeros_like(gradient), torch.zeros_like(gradient), torch.zeros_like(gradient[:, 0])
        tensors = [list(part) for part in (self.stack, gradient, *moments)]
        reported = min(total - epoch for total, epoch in zip(self.totals, self.steps, strict=True))
        losses = torch.zeros_like(self.weights[:, :, 0, 0])
        for step in range(self.totals[0]):
            active = sum(total > step for total in self.totals)
            self.gradient.batch[:active].copy_(self.flat[self.rows[step, :active]])
            self.gradient(active, self.weights[step])
            if step >= reported:
                losses[step, :active] = self.gradient.losses(self.weights[step])
            params, grads, means, squares, steps_done = (part[:active] for part in tensors)
            adam_step(params, grads, means, squares, steps_done, self.training.learning_rate, self.training.epsilon)
        errors = losses.cpu()
        return torch.stack(
            [
                errors[total - epoch : total, k].mean()
                for k, (total, epoch) in enumerate(zip(self.totals, self.steps, strict=True))
            ]
        )

    def _schedule(self, steps: Sequence[int], totals: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return batch rows in the joined data, int64 ``(steps, models, batch)``, and weights of the same size.

        Batches are those of `_Part`, and so are the numbers drawn.
        """
        size, models = self.training.batch_size, len(self.data)
        rows = torch.zeros(totals[0], models, size, dtype=torch.int64)
        weights = torch.zeros(totals[0], models, size, 1)
        first = 0
        for k, (x, epoch, total) in enumerate(zip(self.data, steps, totals, strict=True)):
            for at in range(0, total, epoch):
                order = first + torch.randperm(len(x), generator=self.rngs[k])
                for step, batch in enumerate(order.split(size), at):
                    rows[step, k, : len(batch)] = batch
                    weights[step, k, : len(batch)] = 1.0 / len(batch)
            first += len(x)
        return rows, weights
