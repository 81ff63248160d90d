"""Base of all network architectures, whose models are flat vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from inspect import signature
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from fedkin.core.device import ONE_AT_A_TIME, device
from fedkin.core.errors import FedkinError
from fedkin.core.seeds import draw_seed, seeded_globally
from fedkin.nn.resident import Criterion, Resident, parts_of, vector_of


class Architecture(ABC):
    """Base of network architectures whose models are float32 vectors ``(size,)``: parameters, then buffers.

    Safe to use from several threads: each works on a module of its own while it needs one. `shape` is that of one
    sample. The trainable part of a vector, of length `parameters`, comes first; `floats` is the length of this and
    floating buffers, such as a batch norm's statistics; counters come after.
    """

    criterion: Criterion
    """Mean loss of a batch, from the module's output and the targets."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name, self.shape = name, shape
        self._prototype = self._built(0).eval()
        for part in (*self._prototype.parameters(), *self._prototype.buffers()):
            if part.is_floating_point() and part.dtype != torch.float32:
                raise FedkinError(f"Model '{name}' has parameters of {part.dtype}; fedkin trains float32 only.")
        buffers = list(self._prototype.buffers())
        self.parameters = sum(part.numel() for part in self._prototype.parameters())
        self.floats = self.parameters + sum(part.numel() for part in buffers if part.is_floating_point())
        self.size = self.parameters + sum(part.numel() for part in buffers)
        self._idle: defaultdict[torch.device, deque[Resident]] = defaultdict(deque)
        self._channels_last = self._takes_channels_last()

    @abstractmethod
    def build(self) -> nn.Module:
        """Return a new module; its weights may be drawn from torch's global generator."""

    def targets(self, x: Tensor) -> Tensor:
        """Return targets for samples `x`, of the right shape and type, for a trial run; by default the samples."""
        return x

    def spec(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain values, from which `of` makes this architecture."""
        values = {name: getattr(self, name) for name in signature(type(self)).parameters}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Self:
        """Return the architecture that `spec` describes; equal specs give the same object."""
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()}
        return cast(Self, _shared(cls, tuple(sorted(values.items()))))

    def initial(self, rng: torch.Generator) -> Tensor:
        """Return a new model ``(size,)``, initialised as its module initialises itself."""
        return vector_of(self._built(draw_seed(rng)))

    def module(self, vector: Tensor) -> nn.Module:
        """Return a new module with the model of `vector`, in evaluation mode."""
        module = self._built(0).eval()
        at = 0
        for part in parts_of(module):
            part.data.copy_(vector[at : at + part.numel()].view_as(part))
            at += part.numel()
        return module

    def leading(self, tensors: int) -> int:
        """Return the total length of the first `tensors` parameter tensors, such as layers shared by all clusters."""
        return sum(part.numel() for part in list(self._prototype.parameters())[:tensors])

    @contextmanager
    def resident(self) -> Iterator[Resident]:
        """Yield a module on this thread's device, for the caller alone while the context lasts."""
        idle = self._idle[device()]
        with nullcontext() if device().type == "cpu" else ONE_AT_A_TIME:
            try:
                resident = idle.pop()
            except IndexError:
                resident = self.new_resident()
            try:
                yield resident
            finally:
                idle.append(resident)

    @contextmanager
    def loaded(self, vector: Tensor, rng: torch.Generator | None = None, training: bool = False) -> Iterator[Resident]:
        """Yield `resident` with the model of `vector` loaded (see `Resident.load`), in evaluation or training mode."""
        with self.resident() as resident:
            resident.load(vector, rng)
            if resident.module.training != training:
                resident.module.train(training)
            yield resident

    def new_resident(self) -> Resident:
        """Return a new module on this thread's device."""
        return Resident(self._prototype, self._channels_last, self.criterion)

    def _built(self, seed: int) -> nn.Module:
        """Return a new module with weights drawn by `seed`; the state of torch's global generator is restored."""
        with seeded_globally(seed):
            return self.build()

    def _takes_channels_last(self) -> bool:
        """Whether the module accepts the channels-last memory format; one that calls `view` on activations does not."""
        if len(self.shape) != 3 or not any(isinstance(part, nn.Conv2d) for part in self._prototype.modules()):
            return False
        x = torch.zeros(2, *self.shape)
        try:
            Resident(self._prototype, channels_last=True, criterion=self.criterion).gradient(x, self.targets(x))
        except RuntimeError:
            return False
        return True


@lru_cache(maxsize=32)
def _shared(kind: type[Architecture], values: tuple[tuple[str, Any], ...]) -> Architecture:
    return kind(**dict(values))
