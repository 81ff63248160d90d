"""Stacks of many small fully connected autoencoders, which are trained and evaluated together.

A stack of K autoencoders of one shape is a single tensor of parameters ``(K, size)``: one model is one row, a payload
is a slice of rows, and averaging models is averaging rows. The backward pass is written out by hand, because with
models this small autograd's bookkeeping costs about as much as the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from fedkin.core.device import device, stack_memory

_FLOAT = 4


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
