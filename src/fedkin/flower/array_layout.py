"""Conversion between a client app's arrays and the flat vectors that methods add, compare and average."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import ref

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from torch import Tensor, nn

from fedkin.core import FedkinError
from fedkin.nn import register

_STATISTICS = ("running_mean", "running_var")
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
        arrays = {name: _opened(array) for name, array in record.items()}
        for name, array in arrays.items():
            if isinstance(array, str) or array.dtype.kind not in "fiub":
                what = array if isinstance(array, str) else f"numbers of type {array.dtype}"
                raise FedkinError(f"Array '{name}' of initial_arrays holds {what}; real numbers are needed.")
        made = cls(
            tuple(arrays),
            tuple(array.shape for array in arrays.values()),  # type: ignore[union-attr]
            tuple(str(array.dtype) for array in arrays.values()),  # type: ignore[union-attr]
        )
        if _PARAMETER not in made._kinds():
            raise FedkinError(f"initial_arrays has {len(arrays)} arrays, but none of floating numbers to train.")
        return made

    @property
    def last_width(self) -> int:
        """Input width of the last linear layer, that of the last matrix; 0 if there is none."""
        kinds = zip(self.shapes, self._kinds(), strict=True)
        widths = [shape[1] for shape, kind in kinds if kind == _PARAMETER and len(shape) == 2]
        return widths[-1] if widths else 0

    def vector(self, record: ArrayRecord) -> Tensor | str:
        """Flatten the model of `record` to a vector ``(size,)``; or say, as text, why it has another layout."""
        if set(record) != set(self.names):
            odd = sorted(set(record) ^ set(self.names))[0]
            return f"array '{odd}' is {'unknown' if odd in record else 'absent'}"
        parts: list[Tensor] = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            declared = record[name]
            fits = tuple(declared.shape) == shape and _is_real(declared.dtype)
            array = _opened(declared) if fits else declared
            if isinstance(array, str):
                return f"array '{name}' holds {array}"
            if isinstance(array, Array) or array.shape != shape or not _is_real(str(array.dtype)):
                return f"array '{name}' is {array.dtype} of shape {tuple(array.shape)} where {shape} was expected"
            parts.append(torch.from_numpy(array.astype(np.float32).reshape(-1)))
        return torch.cat([parts[at] for at in self._order()])

    def record(self, vector: Tensor) -> ArrayRecord:
        """Convert the vector ``(size,)`` to the client app's record; integers are rounded."""
        arrays: dict[int, Array] = {}
        for at, part in self._parts(vector):
            whole = np.dtype(self.types[at]).kind != "f"
            arrays[at] = Array(np.asarray((part.round() if whole else part).numpy(), self.types[at]))
        return ArrayRecord({name: arrays[at] for at, name in enumerate(self.names)})

    def as_sent(self, vector: Tensor) -> Tensor:
        """Return `vector` as a client app receives it, rounded to types that are narrower than float32."""
        back = self.vector(self.record(vector))
        assert isinstance(back, Tensor)
        return back

    def module(self, vector: Tensor, classes: int) -> nn.Module:
        """Build a module whose parameters and buffers are those of `vector`."""
        kinds, parts = self._kinds(), (list[Tensor](), list[Tensor](), list[Tensor]())
        for at, part in self._parts(vector):
            parts[kinds[at]].append(part.flatten().long() if kinds[at] == _COUNTER else part.flatten().clone())
        return _Carrier(*parts, classes)

    def _parts(self, vector: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield the arrays of a vector, each with its position in the record, in the order of the vector."""
        order = self._order()
        for at, part in zip(order, vector.split([math.prod(self.shapes[at]) for at in order]), strict=True):
            yield at, part.view(self.shapes[at])

    def _kinds(self) -> list[int]:
        """Return the kind of each array: parameter, statistic or counter."""
        floating = [np.dtype(kind).kind == "f" for kind in self.types]
        return [
            (_STATISTIC if name.endswith(_STATISTICS) else _PARAMETER) if real else _COUNTER
            for name, real in zip(self.names, floating, strict=True)
        ]

    def _order(self) -> list[int]:
        """Return the positions of the arrays in the order of a vector."""
        kinds = self._kinds()
        return sorted(range(len(kinds)), key=kinds.__getitem__)


class _Carrier(nn.Module):
    """Stand-in at the server for the client app's network: it holds the arrays, but cannot compute.

    Methods can ask it for the sizes of its parts and for an initial model, as any architecture. Its logits are zeros.
    """

    def __init__(
        self, parameters: list[Tensor], statistics: list[Tensor], counters: list[Tensor], classes: int
    ) -> None:
        super().__init__()
        self.values = nn.ParameterList(parameters)
        for at, buffer in enumerate(statistics + counters):
            self.register_buffer(f"buffer{at}", buffer)
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        """Return zeros ``(n, classes)``."""
        return x.new_zeros(len(x), self.classes)


@contextmanager
def registered_model(layout: ArrayLayout, vector: Tensor) -> Iterator[str]:
    """Register copies of `vector` as a model for `fedkin.nn.build`, and yield its name; a context manager."""
    name = f"client-app#{next(_numbers):08d}"  # of one length, as its bytes count as traffic
    first = _First(layout, vector)
    living = ref(first)  # names are never forgotten, so they must not keep models in memory

    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        one = living()
        if one is None:
            raise FedkinError(f"The Flower run that model '{name}' belonged to is over, and the model gone.")
        return one.layout.module(one.vector, classes)

    register(name, build)
    yield name
    del first


@dataclass(frozen=True)
class _First:
    """Initial model of training."""

    layout: ArrayLayout
    vector: Tensor


def _opened(array: Array) -> NDArray[np.generic] | str:
    """Return the numbers of `array`, never unpickled, or a description of its other content."""
    try:
        opened = array.numpy()
    except Exception as error:  # bytes from elsewhere, which NumPy may take for any of its formats
        return f"something unreadable ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
    return opened if isinstance(opened, np.ndarray) else "something else than one array"


def _is_real(dtype: str) -> bool:
    """Return whether a NumPy type name is one of real numbers."""
    try:
        return np.dtype(dtype).kind in "fiub"
    except Exception:  # a name from elsewhere
        return False
