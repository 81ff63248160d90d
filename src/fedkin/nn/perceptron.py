"""Hand-written gradients of fully connected classifiers, as autograd takes much of the time of a small model's step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedkin.nn.resident import Losses, Resident, batch_lengths


class PerceptronResident(Resident):
    """A `Resident` for ``Sequential(Flatten, Linear, ReLU, ..., Linear)``; see `is_perceptron`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, channels_last=False)
        layers = [part for part in self.module.modules() if isinstance(part, nn.Linear)]
        self._weights, self._biases = [part.weight.data for part in layers], [part.bias.data for part in layers]
        self._transposed = [weight.t() for weight in self._weights]
        self._gradients = [(_gradient_of(part.weight), _gradient_of(part.bias)) for part in layers]

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient into `grad` as `Resident.gradient` does."""
        return self._step(x.flatten(1), self._one_hot(y), 0.0, y.is_floating_point())

    @torch.inference_mode()  # less overhead around small products
    def descend(self, x: Tensor, y: Tensor, order: Tensor, batch_size: int, rate: float) -> Losses:
        """Descend as `Resident.descend` does, adding products directly to the weights without storing a gradient."""
        x, truth = x.flatten(1), self._one_hot(y)
        given = y.is_floating_point()
        batches = order.split(batch_size)
        losses = [self._step(x.index_select(0, r), truth.index_select(0, r), rate, given) for r in batches]
        return torch.stack(losses), batch_lengths(len(order), batch_size)

    def _one_hot(self, y: Tensor) -> Tensor:
        """Return targets ``(n, classes)``: one-hot classes, or `y` itself if it already has a row per sample."""
        if y.is_floating_point():
            return y
        return torch.zeros(len(y), len(self._biases[-1])).scatter_(1, y.unsqueeze(1), 1.0)

    def _step(self, x: Tensor, truth: Tensor, rate: float, given: bool) -> Tensor:
        """Return the loss of one batch; write its gradient into `grad` or, if `rate` is above 0, take a gradient step.

        Rows of `truth` sum to 1, unless targets were `given`.
        """
        *inner, last = zip(self._biases, self._transposed, strict=True)
        below = [x]
        for bias, weight in inner:
            below.append(torch.mm(below[-1], weight).add_(bias).relu_())
        log_probability = torch.mm(below[-1], last[1]).add_(last[0]).log_softmax(1)
        loss = torch.dot(log_probability.view(-1), truth.view(-1)) * (-1.0 / len(x))
        delta = log_probability.exp_()
        if given:
            delta.mul_(truth.sum(1, keepdim=True))
        delta.sub_(truth).mul_(1.0 / len(x))
        for at in range(len(inner), -1, -1):
            onward = delta
            if at > 0:
                onward = torch.ops.aten.threshold_backward(torch.mm(delta, self._weights[at]), below[at], 0.0)
            if rate > 0.0:
                self._weights[at].addmm_(delta.t(), below[at], alpha=-rate)
                self._biases[at].sub_(delta.sum(0), alpha=rate)
            else:
                weight_gradient, bias_gradient = self._gradients[at]
                torch.mm(delta.t(), below[at], out=weight_gradient)
                torch.sum(delta, [0], out=bias_gradient)
            delta = onward
        return loss


def is_perceptron(module: nn.Module) -> bool:
    """Whether `module` is a plain sequence of linear layers with biases and ReLU in between, none frozen or tied."""
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


def _gradient_of(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        raise RuntimeError("A resident module's parameters have their gradients from the start.")
    return parameter.grad
