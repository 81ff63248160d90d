"""Gradients of many models of one module at once, by `torch.func.vmap`.

`vmap` makes one grouped convolution of the models' convolutions. The same can be had from matrix products of patches,
which take more memory. Which is faster depends on the network and on the accelerator. `Execution.convolutions` says
which it is; "faster" tries both the first time that so many models of a module train, and keeps to what was found as
long as the process lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fedkin.core.device import device, execution
from fedkin.nn.architecture import Architecture
from fedkin.nn.product_convolution import is_plain, with_products
from fedkin.nn.recording import Recorded
from fedkin.nn.resident import Criterion

_TRIES = 6
"""Steps that are timed. The first pays for starting, the third for recording."""
Values = dict[str, Tensor]
Gradients = Callable[[Values, Values, Tensor, Tensor], tuple[Values, Tensor]]
_PRODUCTS_ARE_FASTER: dict[tuple[Architecture, tuple[int, int], torch.device], bool] = {}
"""What was measured, by architecture, models and samples of a batch, and device."""


class StackedGradients:
    """Gradients of many models of an architecture, computed together on this thread's device.

    Steps on batches of `usual` models and samples are compiled if `Execution.compile` says so; on others, which are
    few, they are not, for each shape is compiled anew. `frozen` are positions in a model of parameters that do not
    train. The module `needs_pairs` if it cannot learn from one sample.
    """

    def __init__(self, architecture: Architecture, usual: tuple[int, int]) -> None:
        resident = architecture.new_resident()
        self.module, self.needs_pairs = resident.module.train(), resident.needs_pairs
        self.parameters = _places(self.module.named_parameters())
        named = self.module.named_parameters()
        self.frozen = [self.parameters[name].where for name, parameter in named if not parameter.requires_grad]
        by_kind = sorted(self.module.named_buffers(), key=lambda named: not named[1].is_floating_point())
        self.buffers = _places(by_kind, at=sum(part.numel() for part in self.module.parameters()))
        self._architecture, self._usual = architecture, usual
        self._of = self._in_form()
        self._of_usual: Gradients = torch.compile(self._of, dynamic=False) if execution().compile else self._of

    def __call__(self, models: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients ``(k, parameters)`` and losses ``(k,)`` of models ``(k, size)``; buffers change in place.

        `x` is ``(k, batch, *shape)``, and `y` ``(k, batch)`` or ``(k, batch, outputs)``.
        """
        return self._computed(self._of_usual if tuple(x.shape[:2]) == self._usual else self._of, models, x, y)

    def _computed(self, of: Gradients, models: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        params = {name: place.of(models) for name, place in self.parameters.items()}
        buffers = {name: place.copy_of(models) for name, place in self.buffers.items()}
        grads, losses = of(params, buffers, x, y)
        for name, place in self.buffers.items():
            models[:, place.where] = buffers[name].reshape(len(models), -1).to(models.dtype)
        return torch.cat([grads[name].reshape(len(models), -1) for name in self.parameters], dim=1), losses

    def _in_form(self) -> Gradients:
        """Return gradients by the form of convolutions that is set, or by the faster one."""
        form, criterion = execution().convolutions, self._architecture.criterion
        grouped = _gradients(self.module, criterion)
        if form == "grouped" or not any(is_plain(part) for part in self.module.modules()):
            return grouped
        products = _gradients(with_products(self._architecture.new_resident().module.train()), criterion)
        if form == "products":
            return products
        kind = self._architecture, self._usual, device()
        if kind not in _PRODUCTS_ARE_FASTER:
            inputs = self._example()
            _PRODUCTS_ARE_FASTER[kind] = self._seconds(products, inputs) < self._seconds(grouped, inputs)
        return products if _PRODUCTS_ARE_FASTER[kind] else grouped

    def _example(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return as many models as usual, and a batch of random samples and its targets for each, on the device."""
        rng = torch.Generator().manual_seed(0)
        x = torch.rand(*self._usual, *self._architecture.shape, generator=rng)
        y = self._architecture.targets(x.flatten(0, 1)).unflatten(0, self._usual)
        models = self._architecture.initial(rng).expand(len(x), -1)
        return models.to(device(), copy=True), x.to(device()), y.to(device())

    def _seconds(self, of: Gradients, inputs: tuple[Tensor, ...]) -> float:
        """Return the seconds of gradients, recorded where steps are; infinite if memory does not hold them."""
        compute, found = Recorded(lambda *given: self._computed(of, *given)[1]), []
        for _ in range(_TRIES):
            began = time.perf_counter()
            try:
                compute(*inputs).cpu()  # waits for the device
            except torch.OutOfMemoryError:
                return float("inf")
            found.append(time.perf_counter() - began)
        return min(found)


def _gradients(module: nn.Module, criterion: Criterion) -> Gradients:
    def loss(params: Values, buffers: Values, x: Tensor, y: Tensor) -> Tensor:
        return criterion(functional_call(module, (params, buffers), (x,)), y)

    made: Gradients = vmap(grad_and_value(loss))
    return made


@dataclass(frozen=True)
class _Place:
    """Position and shape of one of a module's tensors within the flat vector of its model."""

    where: slice
    shape: torch.Size
    dtype: torch.dtype

    def of(self, models: Tensor) -> Tensor:
        """Return views of this tensor in models ``(k, size)``."""
        return models[:, self.where].view(len(models), *self.shape)

    def copy_of(self, models: Tensor) -> Tensor:
        """Return a contiguous copy, in which `vmap` can update batch-norm statistics in place."""
        return self.of(models).to(self.dtype).clone(memory_format=torch.contiguous_format)


def _places(parts: Iterable[tuple[str, Tensor]], at: int = 0) -> dict[str, _Place]:
    """Return the positions of tensors laid one after another from `at`, by name."""
    places = {}
    for name, part in parts:
        places[name] = _Place(slice(at, at + part.numel()), part.shape, part.dtype)
        at += part.numel()
    return places
