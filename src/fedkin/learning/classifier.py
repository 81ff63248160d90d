"""One architecture for classification, and its models as flat vectors."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import draw_seed
from fedkin.learning.perceptron import PerceptronResident, is_perceptron
from fedkin.learning.resident import Resident, parts_of, vector_of
from fedkin.models import build

_BATCH = 500
_GLOBAL_RANDOMNESS = threading.Lock()


class Classifier:
    """An architecture whose models are float32 vectors ``(size,)``: parameters, then buffers.

    Safe to use from several threads: each works on a module of its own while it needs one.

    Parameters
    ----------
    name : str
        Registered model or dotted path, see `fedkin.models.build`.
    shape : tuple of int
        Of one sample.
    classes : int
        Number of logits.

    Attributes
    ----------
    size : int
        Length of a model's vector.
    parameters : int
        Length of its trainable part, which comes first.
    floats : int
        Length of its trainable part and floating buffers, such as a batch norm's statistics; counters come after.
    """

    def __init__(self, name: str, shape: tuple[int, ...], classes: int) -> None:
        self.name, self.shape, self.classes = name, shape, classes
        self._prototype = self._built(0).eval()
        for part in (*self._prototype.parameters(), *self._prototype.buffers()):
            if part.is_floating_point() and part.dtype != torch.float32:
                raise FedkinError(f"Model '{name}' has parameters of {part.dtype}; fedkin trains float32 only.")
        buffers = list(self._prototype.buffers())
        self.parameters = sum(part.numel() for part in self._prototype.parameters())
        self.floats = self.parameters + sum(part.numel() for part in buffers if part.is_floating_point())
        self.size = self.parameters + sum(part.numel() for part in buffers)
        self._idle: deque[Resident] = deque()
        self._channels_last = self._takes_channels_last()

    @staticmethod
    def of(spec: Mapping[str, Any]) -> Classifier:
        """The classifier of a message's plain values ``{"name", "shape", "classes"}``; always the same object."""
        return _shared(spec["name"], tuple(spec["shape"]), spec["classes"])

    def spec(self) -> dict[str, Any]:
        """Plain values that `of` makes this classifier from."""
        return {"name": self.name, "shape": list(self.shape), "classes": self.classes}

    def initial(self, rng: torch.Generator) -> Tensor:
        """A new model, initialised as its module initialises itself."""
        return vector_of(self._built(draw_seed(rng)))

    def module(self, vector: Tensor) -> nn.Module:
        """A module of its own with the model of `vector`, in evaluation mode."""
        module = self._built(0).eval()
        at = 0
        for part in parts_of(module):
            part.data.copy_(vector[at : at + part.numel()].view_as(part))
            at += part.numel()
        return module

    def leading(self, tensors: int) -> int:
        """Length of the first so many parameter tensors, as of layers that all groups share."""
        return sum(part.numel() for part in list(self._prototype.parameters())[:tensors])

    @contextmanager
    def resident(self) -> Iterator[Resident]:
        """A module to work with, nobody else's while the context lasts."""
        try:
            resident = self._idle.pop()
        except IndexError:
            resident = self._new_resident()
        try:
            yield resident
        finally:
            self._idle.append(resident)

    @torch.no_grad()
    def logits(self, vector: Tensor, x: Tensor) -> Tensor:
        """``(n, classes)`` of the model `vector` for samples ``(n, *shape)``, in evaluation mode."""
        with self.resident() as resident:
            resident.load(vector)
            resident.module.eval()
            parts = [resident.logits(part) for part in x.split(_BATCH)]
        return torch.cat(parts) if parts else torch.zeros(0, self.classes)

    def loss(self, vector: Tensor, x: Tensor, y: Tensor) -> float:
        """Mean cross-entropy of the model `vector` on labelled samples, in evaluation mode."""
        return float(cross_entropy(self.logits(vector, x), y))

    def _new_resident(self) -> Resident:
        if is_perceptron(self._prototype):
            return PerceptronResident(self._prototype)
        return Resident(self._prototype, self._channels_last)

    def _built(self, seed: int) -> nn.Module:
        """Modules draw their first parameters from torch's global generator, which is put back as it was."""
        with _GLOBAL_RANDOMNESS, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return build(self.name, self.shape, self.classes)

    def _takes_channels_last(self) -> bool:
        """Whether the module can work channels last; one that calls `view` on activations cannot."""
        if len(self.shape) != 3 or not any(isinstance(part, nn.Conv2d) for part in self._prototype.modules()):
            return False
        try:
            Resident(self._prototype, channels_last=True).gradient(torch.zeros(2, *self.shape), torch.zeros(2).long())
        except RuntimeError:
            return False
        return True


@lru_cache(maxsize=32)
def _shared(name: str, shape: tuple[int, ...], classes: int) -> Classifier:
    return Classifier(name, shape, classes)
