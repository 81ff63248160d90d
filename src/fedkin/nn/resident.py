"""A module whose parameters live in one flat vector, so that loading, stepping and reading a model are one operation.

Many clients train the same architecture in turn. One module stays in memory and takes each client's vector; its
parameters and their gradients are views of two flat buffers. Small convolutional networks spend most of their time on
overhead, so everything that is faster without changing a result is done here, for any module: pooling goes before a
monotone activation, images use the channels-last memory format, and layers are replaced by cheaper ones of the same
value. Dropout draws from the client's own generator.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.device import device
from fedkin.nn.cheap_layers import with_cheap_layers
from fedkin.nn.layers import set_generator, with_own_dropout

Losses = tuple[Tensor, Tensor]
"""Mean losses of some batches, and their numbers of samples."""

Criterion = Callable[[Tensor, Tensor], Tensor]
"""``(output, target) -> mean loss of the batch``."""

_MONOTONE = (nn.ReLU, nn.Tanh, nn.Sigmoid)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class Resident:
    """A module in memory that can load any model of its architecture, on the current `device`.

    Parameters
    ----------
    module : nn.Module
        Its parameters and floating buffers must be float32. It is copied.
    channels_last : bool
        Whether images use the channels-last memory format.
    criterion : callable
        Loss, from the module's output and a batch's targets.

    Attributes
    ----------
    device : torch.device
        Device of the module, `params` and `grad`.
    params, grad : Tensor
        float32 ``(parameters,)``: all parameters, and their gradient. Optimisers change `params` in place.
    frozen : list of slice
        Positions in `grad` of parameters that do not train; their gradient is 0.
    """

    def __init__(self, module: nn.Module, channels_last: bool, criterion: Criterion = cross_entropy) -> None:
        self.device = device()
        own = with_own_dropout(pool_first(copy.deepcopy(module)))
        self.module = (with_cheap_layers(own) if self.device.type == "cpu" else own).to(self.device)
        self.channels_last, self.criterion = channels_last, criterion
        self.needs_pairs = any(isinstance(part, _BATCH_NORMS) for part in self.module.modules())
        self._counters = [buffer for buffer in self.module.buffers() if not buffer.is_floating_point()]
        self._vector = vector_of(self.module)
        self.params = self._vector[: sum(parameter.numel() for parameter in self.module.parameters())]
        self.grad = torch.zeros_like(self.params)
        self.frozen: list[slice] = []
        at = 0
        for parameter in self.module.parameters():
            place = slice(at, at + parameter.numel())
            parameter.data = self.params[place].view_as(parameter)
            parameter.grad = self.grad[place].view_as(parameter)
            if not parameter.requires_grad:
                self.frozen.append(place)
            at = place.stop
        for buffer in self.module.buffers():
            if buffer.is_floating_point():
                buffer.data = self._vector[at : at + buffer.numel()].view_as(buffer)
                at += buffer.numel()

    def load(self, vector: Tensor, rng: torch.Generator | None = None) -> None:
        """Load the model of `vector` ``(size,)``; its dropout draws from `rng`."""
        self._vector.copy_(vector)
        at = len(self._vector) - sum(counter.numel() for counter in self._counters)
        for counter in self._counters:
            counter.copy_(vector[at : at + counter.numel()].view_as(counter))
            at += counter.numel()
        if rng is not None:
            set_generator(self.module, rng)

    def vector(self) -> Tensor:
        """Return a copy of the present model as one vector ``(size,)``, on the CPU."""
        vector = self._vector.to("cpu", copy=True)
        at = len(vector) - sum(counter.numel() for counter in self._counters)
        for counter in self._counters:
            vector[at : at + counter.numel()] = counter.flatten().cpu()
            at += counter.numel()
        return vector

    def placed(self, x: Tensor) -> Tensor:
        """Return `x` on the module's device."""
        return x.to(self.device)

    def laid(self, x: Tensor) -> Tensor:
        """Return samples ``(n, *shape)`` on the device, in the module's preferred memory format."""
        x = self.placed(x)
        return channels_last(x) if self.channels_last else x

    def output(self, x: Tensor) -> Tensor:
        """Return the module's output for samples ``(n, *shape)``, such as logits, on the device."""
        made: Tensor = self.module(self.laid(x))
        return made

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient of the batch's mean loss into `grad`; return that loss, a scalar on the device."""
        self.grad.zero_()
        loss = self.criterion(self.output(x), self.placed(y))
        loss.backward()
        return loss.detach()

    def descend(self, x: Tensor, y: Tensor, order: Tensor, batch_size: int, rate: float) -> Losses:
        """Take a step of plain gradient descent on every batch of `order`; `grad` is undefined afterwards.

        Parameters
        ----------
        x, y : Tensor, (n, *shape) and (n,)
            Samples and targets, for a classifier their classes; on the device.
        order : Tensor
            Rows of `x`, one batch after another.
        batch_size : int
        rate : float

        Returns
        -------
        losses, counts : Tensor, (batches,)
            Each batch's loss before its step, and its number of samples, on the CPU; batches of one sample are left out
            if the module cannot learn from them.
        """

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = self.gradient(x, y)
            self.params.add_(self.grad, alpha=-rate)
            return loss

        return self.through(x, y, order, batch_size, step)

    def through(
        self, x: Tensor, y: Tensor, order: Tensor, batch_size: int, step: Callable[[Tensor, Tensor], Tensor]
    ) -> Losses:
        """Call `step` on every batch of `order`; return the losses and the batches' lengths, as `descend` does."""
        losses, counts = [], []
        for rows in self.placed(order).split(batch_size):
            if len(rows) > 1 or not self.needs_pairs:  # a batch norm cannot learn from one sample
                losses.append(step(x.index_select(0, rows), y.index_select(0, rows)))
                counts.append(len(rows))
        return torch.stack(losses).cpu() if losses else torch.zeros(0), torch.tensor(counts, dtype=torch.float32)


def batch_lengths(samples: int, batch_size: int) -> Tensor:
    """Return the lengths of the batches that `samples` samples are cut into, float32."""
    return torch.tensor([min(batch_size, samples - at) for at in range(0, samples, batch_size)], dtype=torch.float32)


def vector_of(module: nn.Module) -> Tensor:
    """Return a module's model as one float32 vector."""
    return torch.cat([part.detach().flatten().float() for part in parts_of(module)])


def parts_of(module: nn.Module) -> list[Tensor]:
    """Return a module's tensors in the order of its vector: parameters, then floating buffers, then counters."""
    return [*module.parameters(), *sorted(module.buffers(), key=lambda buffer: not buffer.is_floating_point())]


def pool_first(module: nn.Module) -> nn.Module:
    """Move max-pooling in front of monotone activations in `module`: the same values for a quarter of the work.

    Layers are swapped in place, in a plain `nn.Sequential` and in those nested directly in it: any other module may use
    the intermediate values of its sequences.
    """
    if type(module) is nn.Sequential:
        for part in module:
            pool_first(part)
        for at in range(len(module) - 1):
            if isinstance(module[at], _MONOTONE) and _is_plain_pooling(module[at + 1]):
                module[at], module[at + 1] = module[at + 1], module[at]
    return module


def _is_plain_pooling(module: nn.Module) -> bool:
    return isinstance(module, nn.MaxPool2d) and not module.return_indices


def channels_last(x: Tensor) -> Tensor:
    """Return images ``(n, C, H, W)`` in the channels-last memory format."""
    if x.shape[1] > 1:
        return x.contiguous(memory_format=torch.channels_last)
    height, width = x.shape[2:]  # same memory order with one channel, but torch looks at the strides
    return x.contiguous().as_strided(x.shape, (height * width, 1, width, 1))
