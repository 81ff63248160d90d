"""Whether a value is what a task declares, found by other means than the library's own check."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedkin.core.payload import Array, ListOf, Nullable, Optional


def fits(value: Any, want: Any) -> bool:
    """Whether a value is what is declared, found by other means than the check's own."""
    match want:
        case Optional(inner):
            return fits(value, inner)
        case Nullable(inner):
            return value is None or fits(value, inner)
        case ListOf(inner, least):
            return isinstance(value, list | tuple) and len(value) >= least and all(fits(item, inner) for item in value)
        case Mapping():
            there = isinstance(value, dict) and set(value) <= set(want)
            return there and all(
                fits(value[name], each) if name in value else isinstance(each, Optional) for name, each in want.items()
            )
        case tuple():
            return fits(value, Array(want, None))
        case Array():
            return isinstance(value, Tensor) and _fits(value, want)
    return want(value) is True


def _fits(value: Tensor, want: Array) -> bool:
    if want.dtype not in (None, value.dtype):
        return False
    if want.shape is not None:
        if len(want.shape) != value.ndim:
            return False
        if any(isinstance(wanted, int) and own != wanted for own, wanted in zip(value.shape, want.shape, strict=True)):
            return False
    if want.dtype is None or want.maximum == math.inf:
        return True
    return bool(((value >= want.minimum) & (value <= want.maximum)).all())
