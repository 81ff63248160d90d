"""The gradient of a fully connected classifier, written by hand: half of a small one's step is autograd's own work."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedkin.learning.resident import Resident


@dataclass
class _Layer:
    weight: Tensor
    bias: Tensor
    weight_slope: Tensor
    bias_slope: Tensor


class PerceptronResident(Resident):
    """A `Resident` for ``Sequential(Flatten, Linear, ReLU, ..., Linear)``; see `is_perceptron`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, channels_last=False)
        self.layers = [
            _Layer(part.weight.data, part.bias.data, _slope(part.weight), _slope(part.bias))
            for part in self.module.modules()
            if isinstance(part, nn.Linear)
        ]

    @torch.no_grad()
    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """As `Resident.gradient`."""
        below = [x.flatten(1)]
        *inner, last = self.layers
        for layer in inner:
            below.append(torch.addmm(layer.bias, below[-1], layer.weight.t()).relu_())
        log_probability = torch.addmm(last.bias, below[-1], last.weight.t()).log_softmax(1)
        rows = torch.arange(len(y))
        loss = log_probability[rows, y].mean().neg_()
        delta = log_probability.exp_()
        delta[rows, y] -= 1.0
        delta /= len(y)
        for at in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[at]
            torch.mm(delta.t(), below[at], out=layer.weight_slope)
            torch.sum(delta, 0, out=layer.bias_slope)
            if at:
                delta = torch.mm(delta, layer.weight)
                torch.ops.aten.threshold_backward(delta, below[at], 0.0, grad_input=delta)
        return loss


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
