"""Conversion between a client app's arrays and the flat vectors that methods add, compare and average."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from torch import Tensor, nn

from fedkin.core import FedkinError
from fedkin.core.errors import in_short
from fedkin.nn.modules import forget, register

_PARAMETER, _STATISTIC, _COUNTER = range(3)
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ArrayLayout:
    """Names, shapes and types (NumPy's names) of the arrays of one model, in the order of its record.

    A vector holds them in the order of `fedkin.nn.resident.Architecture`: parameters, then the running statistics
    of batch norms, which are recognised by torch's names, then everything that is not floating-point, such as a counter
    of batches. All are float32 in a vector, so a whole number beyond 16 million may lose its last digits.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, record: ArrayRecord) -> ArrayLayout:
        """Return the layout of `record`; raise FedkinError if it holds no parameters, or anything but real numbers."""
        arrays: list[NDArray[np.generic]] = []
        for name, array in record.items():
            numbers = _numbers_in(array)
            if isinstance(numbers, str):
                raise FedkinError(f"Array '{name}' of initial_arrays {numbers}; real numbers are needed.")
            arrays.append(numbers)
        layout = cls(tuple(record), tuple(each.shape for each in arrays), tuple(str(each.dtype) for each in arrays))
        if _PARAMETER not in layout._kinds():
            raise FedkinError(f"initial_arrays has {len(arrays)} arrays, but none of floating numbers to train.")
        return layout

    def vector(self, record: ArrayRecord) -> Tensor | str:
        """Flatten the model of `record` to a vector ``(size,)``; or say, as text, why it has another layout."""
        if set(record) != set(self.names):
            odd = sorted(set(record) ^ set(self.names))[0]
            return f"array '{odd}' is {'unknown' if odd in record else 'absent'}"
        parts: list[Tensor] = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            numbers = _numbers_in(record[name], shape)
            if isinstance(numbers, str):
                return f"array '{name}' {numbers}"
            parts.append(torch.from_numpy(numbers.astype(np.float32).reshape(-1)))
        return torch.cat([parts[i] for i in self._order()])

    def record(self, vector: Tensor) -> ArrayRecord:
        """Convert the vector ``(size,)`` to the client app's record; integers are rounded."""
        arrays: dict[int, Array] = {}
        for i, part in self._parts(vector):
            rounded = part if np.dtype(self.types[i]).kind == "f" else part.round()
            arrays[i] = Array(np.asarray(rounded.numpy(), self.types[i]))
        return ArrayRecord({name: arrays[i] for i, name in enumerate(self.names)})

    def module(self, vector: Tensor, classes: int) -> nn.Module:
        """Build a module whose parameters and buffers are those of `vector`, and whose logits are zeros."""
        module = _Carrier(classes)
        for i, part in self._parts(vector):
            kind = self._kinds()[i]
            if kind == _PARAMETER:
                module.register_parameter(f"part{i}", nn.Parameter(part.flatten().clone()))
            else:
                module.register_buffer(
                    f"part{i}", part.flatten().long() if kind == _COUNTER else part.flatten().clone()
                )
        return module

    def _parts(self, vector: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield the arrays of a vector, each with its position in the record, in the order of the vector."""
        order = self._order()
        for i, part in zip(order, vector.split([math.prod(self.shapes[i]) for i in order]), strict=True):
            yield i, part.view(self.shapes[i])

    def _kinds(self) -> list[int]:
        """Return the kind of each array: parameter, statistic or counter."""
        return [
            _COUNTER if np.dtype(kind).kind != "f"
            else _STATISTIC if name.endswith(("running_mean", "running_var"))
            else _PARAMETER
            for name, kind in zip(self.names, self.types, strict=True)
        ]  # fmt: skip

    def _order(self) -> list[int]:
        """Return the positions of the arrays in the order of a vector."""
        kinds = self._kinds()
        return sorted(range(len(kinds)), key=kinds.__getitem__)


class _Carrier(nn.Module):
    """Stand-in at the server for the client app's network: methods ask it for the sizes of its parts, as any other."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        """Return zeros ``(n, classes)``."""
        return x.new_zeros(len(x), self.classes)


@contextmanager
def registered_model(layout: ArrayLayout, vector: Tensor) -> Iterator[str]:
    """Register copies of `vector` as a model for `fedkin.nn.modules.build`, and yield its name; a context manager."""
    name = f"client-app#{next(_numbers):08d}"  # of one length, as its bytes count as traffic
    register(name, lambda shape, classes: layout.module(vector, classes))
    try:
        yield name
    finally:
        forget(name)


def _numbers_in(array: Array, shape: tuple[int, ...] | None = None) -> NDArray[np.generic] | str:
    """Return the real numbers of `array`, of this shape or any, never unpickled; or what is wrong with it."""
    expected = tuple(array.shape) if shape is None else shape
    wrong = f"is {array.dtype} of shape {tuple(array.shape)} where {expected} was expected"
    try:
        if np.dtype(array.dtype).kind not in "fiub" or tuple(array.shape) != expected:
            return wrong  # as it says itself: it is not even opened
        numbers = array.numpy()
    except Exception as error:  # bytes from elsewhere, which NumPy may take for any of its formats
        return f"holds something unreadable ({in_short(error)})"
    fits = isinstance(numbers, np.ndarray) and numbers.dtype.kind in "fiub" and numbers.shape == expected
    return numbers if fits else "holds something else than it says"
