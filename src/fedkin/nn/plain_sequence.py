"""Hand-written gradients of plain sequences of layers, as autograd takes much of the time of a small model's step."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
        links = [_link(layer, channels_last) for layer in layers_of(self.module)]
        first = next(number for number, link in enumerate(links) if isinstance(link, _Weighted))
        self._before, self._links = links[:first], links[first:]
        self._classes = len(next(reversed(list(self.module.parameters()))))

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient into `grad` as `Resident.gradient` does."""
        return self._step(self._first_input(x), self._one_hot(y), 0.0, y.is_floating_point())

    @torch.inference_mode()  # less overhead around small products
    def descend(self, x: Tensor, y: Tensor, order: Tensor, batch_size: int, rate: float) -> Losses:
        """Descend as `Resident.descend` does, without storing gradients."""
        x, truth = self._first_input(x), self._one_hot(y)
        weighted = y.is_floating_point()
        batches = order.split(batch_size)
        losses = [self._step(x.index_select(0, r), truth.index_select(0, r), rate, weighted) for r in batches]
        return torch.stack(losses), batch_lengths(len(order), batch_size)

    def _first_input(self, x: Tensor) -> Tensor:
        """Return the input of the first layer with parameters."""
        for link in self._before:
            x, _ = link(x)
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
        for link in self._links:
            x, kept = link(x)
            tape.append(kept)
        log_probability = x.log_softmax(1)
        loss = torch.dot(log_probability.view(-1), truth.view(-1)) * (-1.0 / n)
        delta = log_probability.exp_()
        if weighted:
            delta.mul_(truth.sum(1, keepdim=True))
        delta.sub_(truth).mul_(1.0 / n)
        for number in range(len(tape) - 1, -1, -1):
            delta = self._links[number].backward(delta, tape.pop(), rate, number > 0)
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


class _Link(ABC):
    """Forward and backward pass of one layer."""

    @abstractmethod
    def __call__(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the output, and what `backward` needs."""

    @abstractmethod
    def backward(self, delta: Tensor, kept: Any, rate: float, onward: bool) -> Tensor:
        """Return the gradient by the input, given `delta`, the gradient by the output.

        What is returned is not used unless `onward`. The gradient by the parameters is stored or, if `rate` is above 0,
        a step along it is taken.
        """


class _Weighted(_Link):
    def __init__(self, layer: nn.Linear | nn.Conv2d) -> None:
        (self.weight, self.weight_gradient), (self.bias, self.bias_gradient) = map(_with_gradient, layer.parameters())


class _Linear(_Weighted):
    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer)
        self.transposed = self.weight.t()

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.mm(x, self.transposed).add_(self.bias), x

    def backward(self, delta: Tensor, kept: Tensor, rate: float, onward: bool) -> Tensor:
        below = torch.mm(delta, self.weight) if onward else delta
        if rate > 0.0:
            self.weight.addmm_(delta.t(), kept, alpha=-rate)
            self.bias.sub_(delta.sum(0), alpha=rate)
        else:
            torch.mm(delta.t(), kept, out=self.weight_gradient)
            torch.sum(delta, [0], out=self.bias_gradient)
        return below


class _Convolution(_Weighted):
    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__(layer)
        self.where = list(layer.stride), list(layer.padding), list(layer.dilation), False, [0, 0], layer.groups

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return _aten.convolution(x, self.weight, self.bias, *self.where), x

    def backward(self, delta: Tensor, kept: Tensor, rate: float, onward: bool) -> Tensor:
        below, weight, bias = _aten.convolution_backward(
            delta, kept, self.weight, [len(self.bias)], *self.where, [onward, True, True]
        )
        if rate > 0.0:
            self.weight.sub_(weight, alpha=rate)
            self.bias.sub_(bias, alpha=rate)
        else:
            self.weight_gradient.copy_(weight)
            self.bias_gradient.copy_(bias)
        return below if onward else delta


class _MaxPool(_Link):
    def __init__(self, layer: nn.MaxPool2d) -> None:
        sides = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        self.where = *([side, side] if isinstance(side, int) else list(side) for side in sides), layer.ceil_mode

    def __call__(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        pooled, indices = _aten.max_pool2d_with_indices(x, *self.where)
        return pooled, (x, indices)

    def backward(self, delta: Tensor, kept: tuple[Tensor, Tensor], rate: float, onward: bool) -> Tensor:
        below: Tensor = _aten.max_pool2d_with_indices_backward(delta, kept[0], *self.where, kept[1])
        return below


class _Flatten(_Link):
    def __init__(self, layout: torch.memory_format) -> None:
        self.layout = layout

    def __call__(self, x: Tensor) -> tuple[Tensor, torch.Size]:
        return x.flatten(1), x.shape

    def backward(self, delta: Tensor, kept: torch.Size, rate: float, onward: bool) -> Tensor:
        return delta.view(kept).contiguous(memory_format=self.layout)


class _Activation(_Link):
    def __init__(self, layer: nn.Module) -> None:
        relu = isinstance(layer, nn.ReLU)
        self.function = torch.relu if relu else layer.forward
        self.derivative = partial(_aten.threshold_backward, threshold=0.0) if relu else _aten.tanh_backward

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output: Tensor = self.function(x)
        return output, output

    def backward(self, delta: Tensor, kept: Tensor, rate: float, onward: bool) -> Tensor:
        below: Tensor = self.derivative(delta, kept)  # of ReLU and tanh by their output
        return below


def _link(layer: nn.Module, channels_last: bool) -> _Link:
    if isinstance(layer, nn.Linear):
        return _Linear(layer)
    if isinstance(layer, nn.Conv2d):
        return _Convolution(layer)
    if isinstance(layer, nn.MaxPool2d):
        return _MaxPool(layer)
    if isinstance(layer, nn.Flatten):
        return _Flatten(torch.channels_last if channels_last else torch.contiguous_format)
    return _Activation(layer)


def _with_gradient(parameter: Tensor) -> tuple[Tensor, Tensor]:
    if parameter.grad is None:
        raise RuntimeError("A resident module's parameters have their gradients from the start.")
    return parameter.data, parameter.grad
