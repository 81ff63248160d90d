"""What a reply must hold to be used: clients may be of another version, broken, or worse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from fedkin.core.payload import Payload

Check = Callable[[Any], bool]
Shape = tuple[int | str | None, ...]
Expected = Mapping[str, Shape | Check]
"""By name what a value must be: a tensor of a shape, or whatever a function says yes to. In a shape ``None`` stands for
any length, and a text for any that is the same wherever the text stands."""

_MOST = 2**53
_NUMBERS = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool,
}  # fmt: skip


def is_number(value: Any) -> bool:
    """Whether it is a plain number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Whether it is a plain whole number from 0 to 2^53."""
    return is_number(value) and isinstance(value, int) and 0 <= value < _MOST


def is_amount(value: Any) -> bool:
    """Whether it is a plain number, 0 or more, such as a weight."""
    return is_number(value) and value >= 0


def is_flag(value: Any) -> bool:
    """Whether it is true or false."""
    return isinstance(value, bool)


def is_shape(value: Any) -> bool:
    """Whether it is a list, not empty, of whole numbers from 1."""
    return isinstance(value, list) and len(value) > 0 and all(is_count(length) and length > 0 for length in value)


def is_list(check: Check) -> Check:
    """Says yes to lists whose items all pass a check."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def below(bound: int) -> Check:
    """Says yes to a whole number from 0 and below `bound`, and to int64 tensors of such."""

    def check(value: Any) -> bool:
        if not isinstance(value, Tensor):
            return is_count(value) and value < bound
        if value.dtype != torch.int64:
            return False
        return not value.numel() or (int(value.min()) >= 0 and int(value.max()) < bound)

    return check


are_counts = below(_MOST)
"""Whether it is a tensor of whole numbers from 0 to 2^53, or one such number."""


def refusal(reply: Payload, *expected: Expected, optional: Expected | None = None) -> str | None:
    """Why a reply must not be used, or ``None`` if it may.

    Parameters
    ----------
    reply : dict
    *expected : mapping
        What the reply must contain.
    optional : mapping, optional
        What an entry must be where the reply has it.

    Returns
    -------
    str or None
        A reply is refused if a tensor in it is not of real numbers, if one of its numbers is not finite, or if anything
        is not as it must be.
    """
    for path, value in _leaves(reply):
        if isinstance(value, Tensor) and value.dtype not in _NUMBERS:
            return f"'{path}' is of {value.dtype}"
        numbers = _extremes(value) if isinstance(value, Tensor) else (value,)
        if not all(number == number and abs(number) != float("inf") for number in numbers):
            return f"'{path}' is not finite"
    lengths: dict[str, int] = {}
    wants = [item for wanted in expected for item in wanted.items()]
    wants += [(name, want) for name, want in (optional or {}).items() if name in reply]
    reasons = (_unlike(name, reply, want, lengths) for name, want in wants)
    return next(filter(None, reasons), None)


def _unlike(name: str, reply: Payload, want: Shape | Check, lengths: dict[str, int]) -> str | None:
    """Why the value of this name is not as it must be; `lengths` are those that texts in shapes have stood for."""
    if name not in reply:
        return f"'{name}' is absent"
    value = reply[name]
    if not isinstance(want, tuple):
        return None if want(value) else f"'{name}' is not what it should be"
    if not isinstance(value, Tensor):
        return f"'{name}' is not a tensor"
    same = len(value.shape) == len(want)
    for length, letter in zip(value.shape, want, strict=False):
        fixed = lengths.setdefault(letter, length) if isinstance(letter, str) else letter
        same = same and fixed in (None, length)
    return None if same else f"'{name}' has shape {tuple(value.shape)} where {want} was expected"


def _extremes(tensor: Tensor) -> tuple[float, ...]:
    """Numbers that are finite if and only if all elements are; unlike `torch.isfinite` this needs no memory.

    The sum is by far the fastest and not finite if any element is not; where large elements make it overflow, the least
    and the greatest decide.
    """
    if not tensor.numel():
        return ()
    total = float(tensor.sum())
    return (total,) if isfinite(total) else tuple(map(float, tensor.aminmax()))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}/{index}")
    elif isinstance(value, Tensor | int | float):
        yield path, value
