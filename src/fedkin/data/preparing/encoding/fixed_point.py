"""Digits of numbers of any size, so that secure sums can carry them in fixed point."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

UNITS = tuple(2.0**power for power in range(100, -60, -20))
"""What the pieces are multiples of."""
SCALED_UNITS = UNITS[3:]
"""Those of prepared numbers, whose squares and sums are below 2^60."""


def to_digits(values: Tensor, units: Sequence[float] = UNITS) -> Tensor:
    """Split numbers ``(n,)`` into multiples of `units`, float64 ``(pieces, n)``, all but the first below 2^20."""
    rest, digits = values.double(), []
    for unit in units[:-1]:
        digits.append((rest / unit).round())
        rest = rest - digits[-1] * unit
    return torch.stack([*digits, rest / units[-1]])


def of_digits(digits: Tensor, units: Sequence[float] = UNITS) -> Tensor:
    """Return the numbers ``(n,)`` that `to_digits` split, or sums of such."""
    return (torch.tensor(units, dtype=torch.float64)[:, None] * digits).sum(0)
