"""Training of many small models on different data at once.

On a CPU a handful of small models trained as one stack share the overhead of every call into torch; many more do not
fit in the cache. So models train a few at a time, and each has its own epochs: none waits for another's longer epoch,
and one that is done leaves the stack; its parameters and Adam moments are not touched from then on.

On an accelerator every call costs the same for one model as for hundreds. There as many train at once as its memory
holds, and the rows of their batches are drawn before and sent there once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedkin.core.device import ONE_AT_A_TIME, device, placed, stack_memory
from fedkin.nn.client_stack import Recorded
from fedkin.nn.descent import adam_step
from fedkin.nn.resident import batch_lengths

#
# Stacks of many small fully connected autoencoders, which are trained and evaluated together.
#
# A stack of K autoencoders of one shape is a single tensor of parameters ``(K, size)``: one model is one row, a
# payload is a slice of rows, and averaging models is averaging rows. The backward pass is written out by hand,
# because with models this small autograd's bookkeeping costs about as much as the arithmetic.


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
        path = [*self.widths, *reversed(self.widths[:-1])]
        return list(pairwise(path))

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
        views, at = [], 0
        for inputs, outputs in self.layers:
            weight = stack[:, at : at + inputs * outputs].unflatten(1, (inputs, outputs))
            at += inputs * outputs
            views.append((weight, stack[:, at : at + outputs].unsqueeze(1)))
            at += outputs
        return views

    def errors(self, stack: Tensor, x: Tensor) -> Tensor:
        """Return the mean squared reconstruction error of every model ``(K, size)`` on every sample: ``(K, n)``.

        `x` is ``(n, features)``, seen by all models, or ``(K, n, features)`` for samples of their own. Errors are on
        the CPU.
        """
        stack, x = stack.to(device()), x.to(device())
        if stack.device.type != "cpu":
            return torch.cat([self._errors_together(*part) for part in self._parts(stack, x)]).cpu()
        result = stack.new_empty(len(stack), x.shape[-2])
        for row, model in enumerate(stack):  # one at a time: a stack's activations would not stay in the cache
            own = x if x.dim() == 2 else x[row]
            *inner, (last_weight, last_bias) = [(weight[0], bias[0, 0]) for weight, bias in self.split(model[None])]
            hidden = own
            for weight, bias in inner:
                hidden = torch.addmm(bias, hidden, weight).relu_()
            made = torch.addmm(last_bias, hidden, last_weight)
            if self.output == "sigmoid":
                made.sigmoid_()
            torch.mean(made.sub_(own).square_(), dim=1, out=result[row])
        return result.cpu()

    def _parts(self, stack: Tensor, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield some models at a time, with the samples of each, ``(k, n, features)``."""
        own = x.expand(len(stack), *x.shape[-2:])
        widest = max(outputs for _, outputs in self.layers)
        some = max(1, stack_memory() // (4 * _FLOAT * max(1, x.shape[-2]) * widest))
        return zip(stack.split(some), own.split(some), strict=True)

    def _errors_together(self, stack: Tensor, x: Tensor) -> Tensor:
        *inner, (last_weight, last_bias) = self.split(stack)
        hidden = x
        for weight, bias in inner:
            hidden = torch.baddbmm(bias, hidden, weight).relu_()
        made = torch.baddbmm(last_bias, hidden, last_weight)
        if self.output == "sigmoid":
            made.sigmoid_()
        return made.sub_(x).square_().mean(2)


class Gradient:
    """Gradient of a stack of autoencoders on one batch per model, with all working memory allocated once.

    The parameters `stack` ``(K, size)`` are read at every call; the optimiser updates them in place between calls.
    """

    def __init__(self, model: Autoencoder, stack: Tensor, batch_size: int) -> None:
        count = len(stack)
        self.model = model
        self.stack = stack
        self.gradient = torch.zeros_like(stack)
        self.batch = stack.new_zeros(count, batch_size, model.widths[0])
        self._hidden = [stack.new_empty(count, batch_size, outputs) for _, outputs in model.layers]
        self._delta = [torch.empty_like(hidden) for hidden in self._hidden]
        self._layers: list[_Layer] = []
        self._active = 0

    def __call__(self, active: int, weights: Tensor) -> None:
        """Write the gradient of the mean loss of each of the first `active` models into `gradient`.

        `weights` is ``(K, batch_size, 1)``: 1/batch length for a sample, 0 for padding, so a short last batch counts
        as the mean over its own samples.
        """
        if active != self._active:
            self._narrow(active)
        *inner, last = self._layers
        for layer in inner:
            torch.baddbmm(layer.bias, layer.below, layer.weight, out=layer.hidden).relu_()
        torch.baddbmm(last.bias, last.below, last.weight, out=last.hidden)
        if self.model.output == "sigmoid":
            last.hidden.sigmoid_()
        torch.sub(last.hidden, self._layers[0].below, out=last.delta).mul_(weights[:active])
        if self.model.output == "sigmoid":
            torch.ops.aten.sigmoid_backward(last.delta, last.hidden, grad_input=last.delta)
        last.delta.mul_(2.0 / self.model.widths[0])
        for layer in reversed(self._layers):
            torch.bmm(layer.below_transposed, layer.delta, out=layer.weight_gradient)
            torch.sum(layer.delta, dim=1, keepdim=True, out=layer.bias_gradient)
            if layer.delta_below is not None:
                torch.bmm(layer.delta, layer.weight_transposed, out=layer.delta_below)
                torch.ops.aten.threshold_backward(layer.delta_below, layer.below, 0.0, grad_input=layer.delta_below)

    def _narrow(self, active: int) -> None:
        """Make and keep the views of the first `active` models; making them at every step costs as much as a layer."""
        self._active = active
        views = zip(self.model.split(self.stack[:active]), self.model.split(self.gradient[:active]), strict=True)
        hidden = [self.batch[:active], *(out[:active] for out in self._hidden)]
        delta = [None, *(out[:active] for out in self._delta)]
        self._layers = [
            _Layer(*parameters, *gradients, hidden[i], hidden[i + 1], self._delta[i][:active], delta[i])
            for i, (parameters, gradients) in enumerate(views)
        ]


@dataclass
class _Layer:
    """One layer of a stack: views of its parameters and their gradient, its inputs and its outputs."""

    weight: Tensor
    bias: Tensor
    weight_gradient: Tensor
    bias_gradient: Tensor
    below: Tensor
    hidden: Tensor
    delta: Tensor
    delta_below: Tensor | None

    def __post_init__(self) -> None:
        self.weight_transposed = self.weight.transpose(1, 2)
        self.below_transposed = self.below.transpose(1, 2)


def widths_for(features: int) -> tuple[int, ...]:
    """Return layer widths for `features` columns: FedCRef's 784-100-64-32 (Table 2), narrower for narrower data."""
    code = min(32, max(1, round(features**0.5) + 4), max(1, features // 2))
    return (features, min(100, 4 * code), min(64, 2 * code), code)


@dataclass(frozen=True)
class StackTraining:
    """Settings of a stack's training: Adam on the mean squared error of shuffled mini-batches.

    Small data sets get more epochs to reach `min_steps` optimiser steps. The default of `epsilon` is that of the
    framework FedCRef was written in.
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
_COPIES = 6
"""Numbers per parameter on an accelerator: before, in training and when done; gradient; two moments."""


def fit(
    model: Autoencoder,
    stack: Tensor,
    data: Sequence[Tensor],
    rngs: Sequence[torch.Generator],
    training: StackTraining,
    stack_size: int | None = None,
    rows: Sequence[Tensor] | None = None,
) -> Tensor:
    """Train every model of `stack` on its own data; the result is as if each were trained alone.

    `stack`, float32 ``(K, size)``, is not modified. Return the trained parameters ``(K, size)``, on the processor.

    For each model, `data` are samples ``(n_k, *shape)`` float32, which are flattened to ``(n_k, features)``; `rngs`
    shuffle them; and `rows`, int64 ``(m_k,)``, m_k >= 1, are the samples that it learns from, all by default. Models
    may share `data`, which goes to an accelerator once. `stack_size` is the number of models per stack, on which only
    speed depends: by default two, and on an accelerator as many as its memory holds.
    """
    where = device()
    rows = [torch.arange(len(x)) for x in data] if rows is None else rows
    order = sorted(range(len(stack)), key=lambda k: (-training.total_steps(len(rows[k])), k))
    kind, turn = (_Part, nullcontext()) if where.type == "cpu" else (_Scheduled, ONE_AT_A_TIME)
    with turn:
        trained = stack.to(where, copy=True)
        size = stack_size or (STACK if where.type == "cpu" else _fitting(model, rows, training))
        for at in range(0, len(order), size):
            some = order[at : at + size]
            there = torch.tensor(some).to(where)
            of_some = [data[k] for k in some], [rows[k] for k in some], [rngs[k] for k in some]
            part = kind(model, trained[there], *of_some, training)
            part.train()
            trained[there] = part.stack
    return trained.cpu()


def _fitting(model: Autoencoder, rows: Sequence[Tensor], training: StackTraining) -> int:
    """Return the number of models that fit in the free memory of the device together, at least 1."""
    longest = max(training.total_steps(len(chosen)) for chosen in rows)
    outputs = model.widths[0] + 2 * sum(outputs for _, outputs in model.layers)
    samples = max(map(len, rows)) * model.widths[0]
    floats = _COPIES * model.size + training.batch_size * outputs + samples + training.batch_size * longest
    return max(1, stack_memory() // (_FLOAT * floats + _INDEX * training.batch_size * longest))


@dataclass(eq=False)
class _Part:
    """Some models of a stack in training, longest first; each goes through its own epochs."""

    model: Autoencoder
    stack: Tensor
    data: list[Tensor]
    rows: list[Tensor]
    rngs: list[torch.Generator]
    training: StackTraining

    def __post_init__(self) -> None:
        self.data = [x.flatten(1)[rows] for x, rows in zip(self.data, self.rows, strict=True)]
        self.gradient = Gradient(self.model, self.stack, self.training.batch_size)
        self.weights = torch.zeros(len(self.data), self.training.batch_size, 1)
        self.filled = [0] * len(self.data)
        self.orders = [torch.empty(0, dtype=torch.int64)] * len(self.data)

    def train(self) -> None:
        """Train the models to the end."""
        steps = [self.training.steps(len(x)) for x in self.data]
        totals = [self.training.total_steps(len(x)) for x in self.data]
        gradient = self.gradient.gradient
        moments = torch.zeros_like(gradient), torch.zeros_like(gradient), torch.zeros(len(gradient))
        tensors = [list(part) for part in (self.stack, gradient, *moments)]
        for step in range(totals[0]):
            active = sum(total > step for total in totals)
            for k in range(active):
                self._load(k, step % steps[k])
            self.gradient(active, self.weights)
            params, grads, means, squares, steps_done = (part[:active] for part in tensors)
            adam_step(params, grads, means, squares, steps_done, self.training.learning_rate, self.training.epsilon)

    def _load(self, k: int, step: int) -> None:
        if step == 0:
            self.orders[k] = torch.randperm(len(self.data[k]), generator=self.rngs[k])
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
        self.steps = [self.training.steps(len(rows)) for rows in self.rows]
        self.totals = [self.training.total_steps(len(rows)) for rows in self.rows]
        batches, weights = self._schedule()
        self.batches, self.weights = batches.to(where), weights.to(where)
        self.flat = torch.cat([placed(x).flatten(1) for x in self._sources().values()])
        self.gradient = Gradient(self.model, self.stack.clone(), self.training.batch_size)
        self.moments = torch.zeros_like(self.stack), torch.zeros_like(self.stack)
        self.at, self.done = torch.zeros(1, dtype=torch.int64, device=where), torch.zeros((), device=where)

    def train(self) -> None:
        """Train the models to the end."""
        active = count = len(self.totals)
        step = Recorded(partial(self._step, count), uses=self.totals[0])
        for at in range(self.totals[0]):
            step()
            left = sum(total > at + 1 for total in self.totals)
            self.stack[left:active] = self.gradient.stack[left:active]
            active = left
            # Models that are done go on with the others, for a step of fewer models is another recording.
            if 0 < active <= count // 2:
                count = active
                step = Recorded(partial(self._step, count), uses=self.totals[0] - at - 1)

    def _step(self, active: int) -> Tensor:
        """Take the next step of the first `active` models; the device itself counts the steps."""
        rows = self.batches.index_select(0, self.at)[0, :active].flatten()
        torch.index_select(self.flat, 0, rows, out=self.gradient.batch[:active].flatten(0, 1))
        self.gradient(active, self.weights.index_select(0, self.at)[0])
        values = self.gradient.stack, self.gradient.gradient, *self.moments
        params, grads, means, squares = (part[:active] for part in values)
        rate, epsilon = self.training.learning_rate, self.training.epsilon
        adam_step([params], [grads], [means], [squares], [self.done], rate, epsilon)
        return self.at.add_(1)

    def _sources(self) -> dict[int, Tensor]:
        return {id(x): x for x in self.data}

    def _schedule(self) -> tuple[Tensor, Tensor]:
        """Return batch rows in the joined data, int64 ``(steps, models, batch)``, and weights of the same size.

        Batches are those of `_Part`, and so are the numbers drawn.
        """
        size, models = self.training.batch_size, len(self.data)
        batches = torch.zeros(self.totals[0], models, size, dtype=torch.int64)
        weights = torch.zeros(self.totals[0], models, size, 1)
        lengths = [len(x) for x in self._sources().values()]
        first = dict(zip(self._sources(), accumulate(lengths, initial=0), strict=False))
        for k, (x, rows, epoch, total) in enumerate(zip(self.data, self.rows, self.steps, self.totals, strict=True)):
            there, padding = first[id(x)] + rows, (0, epoch * size - len(rows))
            for at in range(0, total, epoch):
                order = there[torch.randperm(len(rows), generator=self.rngs[k])]
                batches[at : at + epoch, k] = pad(order, padding).view(epoch, size)
            lengths_of = batch_lengths(len(rows), size).view(epoch, 1)
            real = torch.arange(size) < lengths_of
            weights[:total, k, :, 0] = torch.where(real, 1 / lengths_of, 0.0).repeat(total // epoch, 1)
        return batches, weights
