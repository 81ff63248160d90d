"""Training of many small models on different data at once.

A stack of K autoencoders of one shape is a single tensor of parameters ``(K, size)``. The backward pass is written out
by hand, because with models this small autograd's bookkeeping costs about as much as the arithmetic. On a CPU two
models share the overhead of every call into torch; many more do not fit in the cache. On an accelerator as many train
at once as its memory holds. Each model has its own epochs, and none waits for another's longer epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedkin.core.device import device
from fedkin.core.payload import MANY, Expected, ListOf, counts_to, positive
from fedkin.nn.descent import adam_step
from fedkin.nn.networks import UNITS
from fedkin.nn.resident import ONE_AT_A_TIME, batch_lengths, stack_memory

WIDTHS = ListOf(UNITS)
"""Widths of an autoencoder's layers in a payload."""


@dataclass(frozen=True)
class Autoencoder:
    """Shape of a mirrored autoencoder with ReLU on every hidden layer, the code included.

    `widths` are those of input, hidden layers and code; the decoder mirrors them. FedCRef (Table 2) uses ``(784, 100,
    64, 32)``. The output "sigmoid" is for data in [0, 1], "linear" for standardised data.
    """

    widths: tuple[int, ...]
    output: str = "sigmoid"

    @property
    def layers(self) -> list[tuple[int, int]]:
        """Sizes (inputs, outputs) of every layer, encoder then decoder."""
        return list(pairwise([*self.widths, *reversed(self.widths[:-1])]))

    @property
    def size(self) -> int:
        """Number of parameters of one model."""
        return sum(inputs * outputs + outputs for inputs, outputs in self.layers)

    def initial(self, rngs: Sequence[torch.Generator]) -> Tensor:
        """Return one model per generator, Glorot-uniform weights and zero biases: ``(len(rngs), size)`` float32."""
        stack = torch.zeros(len(rngs), self.size)
        for row, rng in zip(stack, rngs, strict=True):
            for weight, _ in self.split(row[None]):
                bound = math.sqrt(6.0 / (weight.shape[1] + weight.shape[2]))
                weight.uniform_(-bound, bound, generator=rng)
        return stack

    def split(self, stack: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return views of a stack as (weights ``(K, inputs, outputs)``, biases ``(K, 1, outputs)``) per layer."""
        parts = iter(stack.split([n for inputs, outputs in self.layers for n in (inputs * outputs, outputs)], dim=1))
        return [(next(parts).unflatten(1, layer), next(parts).unsqueeze(1)) for layer in self.layers]

    def errors(self, stack: Tensor, x: Tensor) -> Tensor:
        """Return the mean squared reconstruction error of every model ``(K, size)`` on every sample: ``(K, n)``.

        `x` is ``(n, features)``, seen by all models, or ``(K, n, features)`` for samples of their own. Errors are on
        the CPU.
        """
        stack, x = stack.to(device()), x.to(device())
        x = x.expand(len(stack), *x.shape[-2:])
        together = 1  # on a CPU, for a stack's activations would not stay in the cache
        if stack.device.type != "cpu":
            widest = max(outputs for _, outputs in self.layers)
            together = max(1, stack_memory() // (4 * 4 * max(1, x.shape[-2]) * widest))
        errors = []
        for part, samples in zip(stack.split(together), x.split(together), strict=True):
            *inner, last = self.split(part)
            hidden = samples
            for weight, bias in inner:
                hidden = torch.baddbmm(bias, hidden, weight).relu_()
            output = torch.baddbmm(last[1], hidden, last[0])
            if self.output == "sigmoid":
                output.sigmoid_()
            errors.append(output.sub_(samples).square_().mean(2))
        return torch.cat(errors).cpu()


class Gradient:
    """Gradient of a stack of autoencoders on one batch per model, with all working memory allocated once.

    The parameters `stack` ``(K, size)`` are read at every call; the optimiser updates them in place between calls.
    """

    def __init__(self, model: Autoencoder, stack: Tensor, batch_size: int) -> None:
        self.model, self.gradient = model, torch.zeros_like(stack)
        self.batch = stack.new_zeros(len(stack), batch_size, model.widths[0])
        # Views are made once: making them at every step costs as much as a layer.
        self._parameters, self._gradients = model.split(stack), model.split(self.gradient)
        self._outputs = [stack.new_empty(len(stack), batch_size, units) for _, units in model.layers]
        self._inputs = [self.batch, *self._outputs[:-1]]
        self._deltas = [torch.empty_like(output) for output in self._outputs]
        self._transposed = [
            (weight.mT, inputs.mT) for (weight, _), inputs in zip(self._parameters, self._inputs, strict=True)
        ]

    def __call__(self, weights: Tensor) -> None:
        """Write the gradient of the mean loss of each model into `gradient`.

        `weights` is ``(K, batch_size, 1)``: 1/batch length for a sample, 0 for padding, so a short last batch counts
        as the mean over its own samples.
        """
        last = len(self._outputs) - 1
        for number, ((weight, bias), output) in enumerate(zip(self._parameters, self._outputs, strict=True)):
            torch.baddbmm(bias, self._inputs[number], weight, out=output)
            if number < last:
                output.relu_()
        output, delta = self._outputs[last], self._deltas[last]
        if self.model.output == "sigmoid":
            output.sigmoid_()
        torch.sub(output, self.batch, out=delta).mul_(weights)
        if self.model.output == "sigmoid":
            torch.ops.aten.sigmoid_backward(delta, output, grad_input=delta)
        delta.mul_(2.0 / self.model.widths[0])
        for number in range(last, -1, -1):
            delta, (weight_gradient, bias_gradient) = self._deltas[number], self._gradients[number]
            weight_transposed, inputs_transposed = self._transposed[number]
            torch.bmm(inputs_transposed, delta, out=weight_gradient)
            torch.sum(delta, dim=1, keepdim=True, out=bias_gradient)
            if number:
                below = self._deltas[number - 1]
                torch.bmm(delta, weight_transposed, out=below)
                torch.ops.aten.threshold_backward(below, self._inputs[number], 0.0, grad_input=below)


def widths_for(features: int) -> tuple[int, ...]:
    """Return layer widths for `features` columns: FedCRef's 784-100-64-32 (Table 2), narrower for narrower data."""
    code = min(32, max(1, round(features**0.5) + 4), max(1, features // 2))
    return (features, min(100, 4 * code), min(64, 2 * code), code)


@dataclass(frozen=True)
class StackTraining:
    """Settings of a stack's training: Adam on the mean squared error of shuffled mini-batches.

    Small data sets get more epochs to reach `min_steps` optimiser steps.
    """

    epochs: int = 20
    min_steps: int = 0
    batch_size: int = 32
    learning_rate: float = 1e-3

    def steps(self, samples: int) -> int:
        """Return the number of optimiser steps in one epoch."""
        return math.ceil(samples / self.batch_size)

    def total_steps(self, samples: int) -> int:
        """Return the number of optimiser steps in all epochs."""
        steps = self.steps(samples)
        return steps * max(self.epochs, math.ceil(self.min_steps / steps))


STACK_TRAINING: Expected = {
    "epochs": counts_to(MANY, 0), "min_steps": counts_to(MANY, 0), "batch_size": counts_to(MANY),
    "learning_rate": positive,
}  # fmt: skip


def fit(
    model: Autoencoder, stack: Tensor, data: Sequence[Tensor], rngs: Sequence[torch.Generator],
    training: StackTraining, stack_size: int | None = None, rows: Sequence[Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """Train every model of `stack` on its own data; the result is as if each were trained alone.

    `stack`, float32 ``(K, size)``, is not modified. Return the trained parameters ``(K, size)``, on the processor.

    For each model, `data` are samples ``(n_k, *shape)`` float32, which models may share; `rngs` shuffle them; and
    `rows`, int64 ``(m_k,)``, m_k >= 1, are those that it learns from, all by default. `stack_size` is the number of
    models per stack, on which only speed depends: by default two, and on an accelerator as many as its memory holds.
    """
    rows = [torch.arange(len(x)) for x in data] if rows is None else rows
    order = sorted(range(len(stack)), key=lambda k: (-training.total_steps(len(rows[k])), k))
    with nullcontext() if device().type == "cpu" else ONE_AT_A_TIME:
        trained = stack.to(device(), copy=True)
        # Two were measured best on CPUs with 1 MiB of second-level cache per core whose third level is shared.
        size = stack_size or (2 if device().type == "cpu" else _fitting(model, rows, training))
        for first in range(0, len(order), size):
            members = order[first : first + size]
            places = torch.tensor(members).to(device())
            of_members = [data[k] for k in members], [rows[k] for k in members], [rngs[k] for k in members]
            trained[places] = _Stack(model, trained[places], *of_members, training).train()
    return trained.cpu()


def _fitting(model: Autoencoder, rows: Sequence[Tensor], training: StackTraining) -> int:
    """Return the number of models that fit in the free memory of the device together, at least 1."""
    longest = max(training.total_steps(len(chosen)) for chosen in rows)
    outputs = model.widths[0] + 2 * sum(outputs for _, outputs in model.layers)
    samples = max(map(len, rows)) * model.widths[0]
    # Of each parameter: before, in training and when done; gradient; two moments.
    floats = 6 * model.size + training.batch_size * outputs + samples + training.batch_size * longest
    return max(1, stack_memory() // (4 * floats + 8 * training.batch_size * longest))


class _Stack:
    """Some models in training, longest first, with the rows of every batch drawn in advance."""

    def __init__(
        self, model: Autoencoder, stack: Tensor, data: Sequence[Tensor], rows: Sequence[Tensor],
        rngs: Sequence[torch.Generator], training: StackTraining,
    ) -> None:  # fmt: skip
        self.trained, self.training = stack, training
        self.totals = [training.total_steps(len(chosen)) for chosen in rows]
        sources = {id(x): x for x in data}
        self.x = torch.cat([x.flatten(1) for x in sources.values()]).to(device())
        first = dict(zip(sources, accumulate(map(len, sources.values()), initial=0), strict=False))
        chosen = [first[id(x)] + of_model for x, of_model in zip(data, rows, strict=True)]
        batches, weights = self._schedule(chosen, rngs)
        self.batches, self.weights = batches.to(stack.device), weights.to(stack.device)
        self.model, self.values = model, stack.clone()
        self.moments = torch.zeros_like(stack), torch.zeros_like(stack)
        self.steps = torch.zeros(len(stack), device=stack.device)

    def _schedule(self, rows: Sequence[Tensor], rngs: Sequence[torch.Generator]) -> tuple[Tensor, Tensor]:
        """Return batch rows, int64 ``(steps, models, batch)``, and weights of the same size: 0 for padding."""
        size = self.training.batch_size
        batches = torch.zeros(self.totals[0], len(rows), size, dtype=torch.int64)
        weights = torch.zeros(self.totals[0], len(rows), size, 1)
        for k, (of_model, rng, total) in enumerate(zip(rows, rngs, self.totals, strict=True)):
            epoch = self.training.steps(len(of_model))
            padding = (0, epoch * size - len(of_model))
            for step in range(0, total, epoch):
                order = of_model[torch.randperm(len(of_model), generator=rng)]
                batches[step : step + epoch, k] = pad(order, padding).view(epoch, size)
            lengths = batch_lengths(len(of_model), size).view(epoch, 1)
            parts = torch.where(torch.arange(size) < lengths, 1 / lengths, 0.0)
            weights[:total, k, :, 0] = parts.repeat(total // epoch, 1)
        return batches, weights

    def train(self) -> Tensor:
        """Train the models to the end, and return them."""
        active = count = len(self.totals)
        gradient, tensors = self._workspace(count)
        for step in range(self.totals[0]):
            rows = self.batches[step, :count].flatten()
            torch.index_select(self.x, 0, rows, out=gradient.batch.flatten(0, 1))
            gradient(self.weights[step, :count])
            # Adam's epsilon is that of the framework that FedCRef was written in.
            params, grads, means, squares, counts = tensors
            adam_step(params, grads, means, squares, counts, self.training.learning_rate, epsilon=1e-7)
            longer = sum(total > step + 1 for total in self.totals)
            self.trained[longer:active] = self.values[longer:active]
            active = longer
            # Models that are done go on with the others, as working memory for fewer is allocated anew.
            if 0 < active <= count // 2:
                count = active
                gradient, tensors = self._workspace(count)
        return self.trained

    def _workspace(self, count: int) -> tuple[Gradient, list[list[Tensor]]]:
        """Return the gradient of the first `count` models, and the tensors that `adam_step` takes for them."""
        gradient = Gradient(self.model, self.values[:count], self.training.batch_size)
        values = self.values[:count], gradient.gradient, *(moment[:count] for moment in self.moments)
        if self.steps.device.type == "cpu":  # each by itself, since Adam rounds the ends of tensors in another way
            return gradient, [*map(list, values), list(self.steps[:count])]
        return gradient, [*([part] for part in values), [self.steps[0]]]
