"""Hand-written gradients of perceptrons, as autograd takes half of the time of their steps on a processor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedkin.nn.resident import Losses, Resident, batch_lengths


class DenseResident(Resident):
    """A `Resident` for a module that `is_dense`, trained with cross-entropy."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, channels_last=False)
        parameters = iter(self.module.parameters())
        self._layers = list(zip(parameters, parameters, strict=True))  # weights and biases

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient into `grad` as `Resident.gradient` does."""
        return self._step(x.flatten(1), self._one_hot(y), 0.0, y.is_floating_point())

    @torch.inference_mode()  # less overhead around small products
    def train_batches(self, x: Tensor, y: Tensor, order: Tensor, batch_size: int, rate: float) -> Losses:
        """Descend as `Resident.train_batches` does, without storing gradients."""
        x, truth, weighted = x.flatten(1), self._one_hot(y), y.is_floating_point()
        batches = order.split(batch_size)
        losses = [self._step(x.index_select(0, r), truth.index_select(0, r), rate, weighted) for r in batches]
        return torch.stack(losses), batch_lengths(len(order), batch_size)

    def _one_hot(self, y: Tensor) -> Tensor:
        """Return targets ``(n, classes)``: one-hot classes, or `y` itself if it already has a row per sample."""
        if y.is_floating_point():
            return y
        return torch.zeros(len(y), len(self._layers[-1][1])).scatter_(1, y.unsqueeze(1), 1.0)

    def _step(self, x: Tensor, truth: Tensor, rate: float, weighted: bool) -> Tensor:
        """Return the loss of one batch; write its gradient into `grad` or, if `rate` is above 0, take a gradient step.

        Rows of `truth` sum to 1, unless samples are `weighted`.
        """
        n, inputs, last = len(x), [x], len(self._layers) - 1
        for number, (weight, bias) in enumerate(self._layers):
            x = torch.mm(inputs[-1], weight.data.t()).add_(bias.data)
            if number < last:
                inputs.append(x.relu_())
        log_probability = x.log_softmax(1)
        loss = torch.dot(log_probability.view(-1), truth.view(-1)) * (-1.0 / n)
        delta = log_probability.exp_()
        if weighted:
            delta.mul_(truth.sum(1, keepdim=True))
        delta.sub_(truth).mul_(1.0 / n)
        for number in range(last, -1, -1):
            weight, bias = self._layers[number]
            below = torch.mm(delta, weight.data) if number else delta
            if rate > 0.0:
                weight.data.addmm_(delta.t(), inputs[number], alpha=-rate)
                bias.data.sub_(delta.sum(0), alpha=rate)
            else:
                torch.mm(delta.t(), inputs[number], out=weight.grad)
                torch.sum(delta, [0], out=bias.grad)
            delta = torch.ops.aten.threshold_backward(below, inputs[number], 0.0) if number else below
        return loss


def is_dense(module: nn.Module) -> bool:
    """Whether `module` is a sequence of linear layers with ReLU in between, none frozen or tied, perhaps flattened."""
    if type(module) is not nn.Sequential:
        return False
    layers = list(module)
    if layers and type(layers[0]) is nn.Flatten and (layers[0].start_dim, layers[0].end_dim) == (1, -1):
        layers = layers[1:]
    linear = layers[::2]
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return (
        len(layers) % 2 == 1
        and all(type(layer) is nn.Linear and layer.bias is not None for layer in linear)
        and all(type(layer) is nn.ReLU for layer in layers[1::2])
        and len(trainable) == 2 * len(linear)
    )
