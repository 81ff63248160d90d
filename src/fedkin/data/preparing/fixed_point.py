"""Digits of numbers of any size, so that secure sums can carry them in fixed point."""

from __future__ import annotations

import torch
from torch import Tensor

UNITS = (2.0**40, 2.0**20, 1.0, 2.0**-20, 2.0**-40)
"""What the pieces are multiples of."""


def to_digits(values: Tensor) -> Tensor:
    """Split numbers ``(n,)`` of any size into multiples of `UNITS`, float64 ``(5, n)``, all but the first < 2^20."""
    rest, digits = values.double(), []
    for unit in UNITS[:-1]:
        digits.append((rest / unit).round())
        rest = rest - digits[-1] * unit
    return torch.stack([*digits, rest / UNITS[-1]])


def of_digits(digits: Tensor) -> Tensor:
    """Return the numbers ``(n,)`` that `to_digits` split, or sums of such."""
    units = torch.tensor(UNITS, dtype=torch.float64)
    return (units[:, None] * digits).sum(0)
