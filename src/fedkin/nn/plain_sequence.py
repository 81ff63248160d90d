"""Hand-written gradients of plain sequences of layers, as autograd takes much of the time of a small model's step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fedkin.nn.resident import Losses, Resident, batch_lengths, channels_last

_aten = torch.ops.aten


class SequenceResident(Resident):
    """A `Resident` for a module that `is_plain_sequence`, trained with cross-entropy."""

    def __init__(self, module: nn.Module, channels_last: bool) -> None:
        super().__init__(module, channels_last)
        layers = layers_of(self.module)
        links = [_link(layer, channels_last) for layer in layers]
        first = next(number for number, layer in enumerate(layers) if isinstance(layer, nn.Linear | nn.Conv2d))
        self._before, self._links = links[:first], links[first:]
        self._classes = len(next(reversed(list(self.module.parameters()))))

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient into `grad` as `Resident.gradient` does."""
        return self._step(self._first_input(x), self._one_hot(y), 0.0, y.is_floating_point())

    @torch.inference_mode()  # less overhead around small products
    def train_batches(self, x: Tensor, y: Tensor, order: Tensor, batch_size: int, rate: float) -> Losses:
        """Descend as `Resident.train_batches` does, without storing gradients."""
        x, truth = self._first_input(x), self._one_hot(y)
        weighted = y.is_floating_point()
        batches = order.split(batch_size)
        losses = [self._step(x.index_select(0, r), truth.index_select(0, r), rate, weighted) for r in batches]
        return torch.stack(losses), batch_lengths(len(order), batch_size)

    def _first_input(self, x: Tensor) -> Tensor:
        """Return the input of the first layer with parameters."""
        for forward, _ in self._before:
            x, _ = forward(x)
        return x

    def _one_hot(self, y: Tensor) -> Tensor:
        """Return targets ``(n, classes)``: one-hot classes, or `y` itself if it already has a row per sample."""
        if y.is_floating_point():
            return y
        return torch.zeros(len(y), self._classes).scatter_(1, y.unsqueeze(1), 1.0)

    def _step(self, x: Tensor, truth: Tensor, rate: float, weighted: bool) -> Tensor:
        """Return the loss of one batch; write its gradient into `grad` or, if `rate` is above 0, take a gradient step.

        Rows of `truth` sum to 1, unless samples are `weighted`.
        """
        n, tape = len(x), []
        x = channels_last(x) if self.channels_last else x
        for forward, _ in self._links:
            x, memory = forward(x)
            tape.append(memory)
        log_probability = x.log_softmax(1)
        loss = torch.dot(log_probability.view(-1), truth.view(-1)) * (-1.0 / n)
        delta = log_probability.exp_()
        if weighted:
            delta.mul_(truth.sum(1, keepdim=True))
        delta.sub_(truth).mul_(1.0 / n)
        for number in range(len(tape) - 1, -1, -1):
            delta = self._links[number][1](delta, tape.pop(), rate, number > 0)
        return loss


def layers_of(module: nn.Module) -> list[nn.Module]:
    """Return the layers of a sequence, those of nested sequences included."""
    return [layer for part in module for layer in layers_of(part)] if type(module) is nn.Sequential else [module]


def is_plain_sequence(module: nn.Module) -> bool:
    """Whether `module` is a plain sequence of supported layers, the last one linear, none frozen or tied."""
    layers = layers_of(module)
    if type(module) is not nn.Sequential or not layers or type(layers[-1]) is not nn.Linear:
        return False
    weighted = [layer for layer in layers if type(layer) in (nn.Linear, nn.Conv2d)]
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return all(map(_is_supported, layers)) and len(trainable) == 2 * len(weighted)


def _is_supported(layer: nn.Module) -> bool:
    if type(layer) is nn.Flatten:
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if type(layer) is nn.MaxPool2d:
        return not layer.return_indices
    if type(layer) is nn.Conv2d:
        return layer.bias is not None and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) in (nn.ReLU, nn.Tanh) or (type(layer) is nn.Linear and layer.bias is not None)


Forward = Callable[[Tensor], tuple[Tensor, Any]]
"""``forward(x)`` returns a layer's output, and what its backward pass needs."""
Backward = Callable[[Tensor, Any, float, bool], Tensor]
"""``backward(delta, memory, rate, onward)`` returns the gradient by the input, given that by the output, `delta`.

What is returned is not used unless `onward`. The gradient by the parameters is stored or, if `rate` is above 0, a step
along it is taken."""


def _link(layer: nn.Module, channels_last: bool) -> tuple[Forward, Backward]:
    """Return the forward and the backward pass of a layer."""
    if isinstance(layer, nn.Linear):
        return _linear(layer)
    if isinstance(layer, nn.Conv2d):
        return _convolution(layer)
    if isinstance(layer, nn.MaxPool2d):
        sides = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        options = *([side, side] if isinstance(side, int) else list(side) for side in sides), layer.ceil_mode

        def pool(x: Tensor) -> tuple[Tensor, Any]:
            pooled, indices = _aten.max_pool2d_with_indices(x, *options)
            return pooled, (x, indices)

        return pool, lambda delta, memory, rate, onward: _aten.max_pool2d_with_indices_backward(
            delta, memory[0], *options, memory[1]
        )
    if isinstance(layer, nn.Flatten):
        layout = torch.channels_last if channels_last else torch.contiguous_format
        return lambda x: (x.flatten(1), x.shape), lambda delta, shape, rate, onward: delta.view(shape).contiguous(
            memory_format=layout
        )
    relu = isinstance(layer, nn.ReLU)
    function = torch.relu if relu else layer.forward
    derivative = partial(_aten.threshold_backward, threshold=0.0) if relu else _aten.tanh_backward

    def activate(x: Tensor) -> tuple[Tensor, Any]:
        output = function(x)
        return output, output

    return activate, lambda delta, output, rate, onward: derivative(delta, output)


def _linear(layer: nn.Linear) -> tuple[Forward, Backward]:
    (weight, weight_gradient), (bias, bias_gradient) = map(_with_gradient, layer.parameters())
    transposed = weight.t()

    def forward(x: Tensor) -> tuple[Tensor, Any]:
        return torch.mm(x, transposed).add_(bias), x

    def backward(delta: Tensor, x: Tensor, rate: float, onward: bool) -> Tensor:
        below = torch.mm(delta, weight) if onward else delta
        if rate > 0.0:
            weight.addmm_(delta.t(), x, alpha=-rate)
            bias.sub_(delta.sum(0), alpha=rate)
        else:
            torch.mm(delta.t(), x, out=weight_gradient)
            torch.sum(delta, [0], out=bias_gradient)
        return below

    return forward, backward


def _convolution(layer: nn.Conv2d) -> tuple[Forward, Backward]:
    (weight, weight_gradient), (bias, bias_gradient) = map(_with_gradient, layer.parameters())
    options = list(layer.stride), list(layer.padding), list(layer.dilation), False, [0, 0], layer.groups

    def forward(x: Tensor) -> tuple[Tensor, Any]:
        return _aten.convolution(x, weight, bias, *options), x

    def backward(delta: Tensor, x: Tensor, rate: float, onward: bool) -> Tensor:
        below, by_weight, by_bias = _aten.convolution_backward(
            delta, x, weight, [len(bias)], *options, [onward, True, True]
        )
        if rate > 0.0:
            weight.sub_(by_weight, alpha=rate)
            bias.sub_(by_bias, alpha=rate)
        else:
            weight_gradient.copy_(by_weight)
            bias_gradient.copy_(by_bias)
        return below if onward else delta

    return forward, backward


def _with_gradient(parameter: Tensor) -> tuple[Tensor, Tensor]:
    if parameter.grad is None:
        raise RuntimeError("A resident module's parameters have their gradients from the start.")
    return parameter.data, parameter.grad
