"""The gradient of a fully connected classifier, written by hand: a small one spends much of its step in autograd."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from fedkin.nn.resident import Losses, Resident, batch_lengths

_ONE_AT_A_TIME = threading.Lock()


class PerceptronResident(Resident):
    """A `Resident` for ``Sequential(Flatten, Linear, ReLU, ..., Linear)``; see `is_perceptron`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, channels_last=False)
        layers = [part for part in self.module.modules() if isinstance(part, nn.Linear)]
        self._weights, self._biases = [part.weight.data for part in layers], [part.bias.data for part in layers]
        self._weight_slopes, self._bias_slopes = [_slope(p.weight) for p in layers], [_slope(p.bias) for p in layers]

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """As `Resident.gradient`."""
        loss: Tensor = _step(x.flatten(1), y, self._weights, self._biases, self._weight_slopes, self._bias_slopes, 0.0)
        return loss

    def descend(self, x: Tensor, y: Tensor, order: Tensor, batch_size: int, rate: float) -> Losses:
        """As `Resident.descend`; a layer's product goes straight into its weights, which are the most to move."""
        losses: Tensor = _loop()(x.flatten(1), y, order, batch_size, self._weights, self._biases, rate)
        return losses, batch_lengths(len(order), batch_size)


def _step(
    x: Tensor,
    y: Tensor,
    weights: list[Tensor],
    biases: list[Tensor],
    weight_slopes: list[Tensor],
    bias_slopes: list[Tensor],
    rate: float,
) -> Tensor:
    """Loss of one batch; its gradient goes into the slopes or, if `rate` is above 0, times it off the parameters."""
    last = len(weights) - 1
    below = [x]
    for at in range(last):
        below.append(torch.addmm(biases[at], below[at], weights[at].t()).relu_())
    log_probability = torch.addmm(biases[last], below[last], weights[last].t()).log_softmax(1)
    truth = torch.zeros_like(log_probability).scatter_(1, y.unsqueeze(1), 1.0)
    loss = torch.dot(log_probability.view(-1), truth.view(-1)) * (-1.0 / y.numel())
    delta = log_probability.exp_().sub_(truth).mul_(1.0 / y.numel())
    for up in range(len(weights)):
        at = last - up
        onward = delta
        if at > 0:
            onward = torch.ops.aten.threshold_backward(torch.mm(delta, weights[at]), below[at], 0.0)
        if rate > 0.0:
            weights[at].addmm_(delta.t(), below[at], alpha=-rate)
            biases[at].sub_(delta.sum(0), alpha=rate)
        else:
            torch.mm(delta.t(), below[at], out=weight_slopes[at])
            torch.sum(delta, [0], out=bias_slopes[at])
        delta = onward
    return loss


def _steps(
    x: Tensor, y: Tensor, order: Tensor, batch_size: int, weights: list[Tensor], biases: list[Tensor], rate: float
) -> Tensor:
    """One step of gradient descent for every batch of `order`; the losses ``(batches,)``."""
    losses: list[Tensor] = []
    for at in range(0, order.numel(), batch_size):
        rows = order[at : at + batch_size]
        losses.append(_step(x.index_select(0, rows), y.index_select(0, rows), weights, biases, [], [], rate))
    return torch.stack(losses)


def _loop() -> Callable[..., Tensor]:
    with _ONE_AT_A_TIME:
        return _compiled()


@cache
def _compiled() -> Callable[..., Tensor]:
    """`_steps`, compiled if torch still can: then it holds no interpreter lock, and workers do not wait for each other.

    Where torch has given its scripts up, the same function runs as it stands.
    """
    if not hasattr(torch.jit, "script"):
        return _steps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: Callable[..., Tensor] = torch.jit.script(_steps)
    return compiled


def is_perceptron(module: nn.Module) -> bool:
    """Whether `module` is a plain sequence of linear layers with biases and ReLUs between, nothing frozen or tied."""
    if type(module) is not nn.Sequential:
        return False
    parts = list(module)
    parts = parts[1:] if parts and type(parts[0]) is nn.Flatten else parts
    kinds = [nn.Linear if at % 2 == 0 else nn.ReLU for at in range(len(parts))]
    if len(parts) % 2 == 0 or any(type(part) is not kind for part, kind in zip(parts, kinds, strict=True)):
        return False
    linear = [part for part in parts if isinstance(part, nn.Linear)]
    own = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return all(part.bias is not None for part in linear) and len(own) == 2 * len(linear)


def _slope(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        raise RuntimeError("A resident module's parameters have their gradients from the start.")
    return parameter.grad
