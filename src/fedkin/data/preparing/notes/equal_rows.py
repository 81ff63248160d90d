"""How many rows of a table are equal by chance, as rounded numbers beside a few categories often are."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedkin.core.table import Table

_DECIMALS = 7
"""Numbers with more decimals are not rounded, and equal by chance hardly ever."""
_EXACT = 1e-6
_WIDEST = 10**9
"""Steps between the smallest and the largest number beyond which they are hardly ever equal by chance, either."""
_MAX_EXACT = 2.0**53
_NEAR, _OF_RANGE = 10, 20
"""Steps up to which numbers are near each other, and at most this part of all steps."""
_SURELY = (1.5, 3.0)
"""Chance explains up to so many times the pairs that it lets expect, and so many of their standard deviations."""


def row_hashes(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Return a hash of each row of `values` ``(n, columns)``, uint64 ``(n,)``; empty cells are equal, and 0 and -0."""
    from pandas.util import hash_array

    columns = hash_array(np.arange(values.shape[1])) | np.uint64(1)  # odd, so that no bit of a cell is lost
    cells = hash_array((values + 0.0).ravel()).reshape(values.shape)
    return np.asarray((cells * columns).sum(1, dtype=np.uint64))


def are_copies(table: Table) -> bool:
    """Return whether more rows are equal than by chance, judged by the number with the most different values.

    Of rows that are equal otherwise, copies are equal in it, too; by chance they are so no more often than they are a
    step of its rounding, or two, apart. The table has rows, and a column of numbers.
    """
    values = table.values.numpy()
    numbers = [at for at, column in enumerate(table.columns) if column.kind == "number"]
    finest = max(numbers, key=lambda at: len(np.unique(values[:, at])))
    filled = ~np.isnan(values[:, finest])
    steps = _steps(values[filled, finest])
    if steps is None:
        return True
    others = np.unique(row_hashes(np.delete(values, finest, axis=1)[filled]), return_inverse=True)[1]
    near = max(1, min(_NEAR, int(steps.max()) // _OF_RANGE))
    keys, counts = np.unique(others * (steps.max() + near + 1) + steps, return_counts=True)
    equal = int((counts * (counts - 1) // 2).sum())
    by_chance = sum(_pairs(keys, counts, apart) for apart in range(1, near + 1)) / (2 * near)
    factor, deviations = _SURELY
    return equal > factor * by_chance + deviations * math.sqrt(by_chance)


def _pairs(keys: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], apart: int) -> int:
    """Return the number of pairs whose sorted `keys`, each of so many rows, are `apart`."""
    at = np.minimum(np.searchsorted(keys, keys + apart), len(keys) - 1)
    return int((counts * counts[at])[keys[at] == keys + apart].sum())


def _steps(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    """Return numbers as multiples of the step that they are rounded to, from 0 on.

    ``None`` if they are not rounded, or all alike.
    """
    if not len(numbers):
        return None
    for decimals in range(_DECIMALS):
        scaled = numbers * 10.0**decimals
        whole = np.round(scaled)
        if (np.abs(scaled - whole) <= _EXACT).all():
            above = whole - whole.min()
            step = int(np.gcd.reduce(above.astype(np.int64))) if above.max() < _MAX_EXACT else 0
            return (above / step).astype(np.int64) if 0 < above.max() <= _WIDEST * step else None
    return None
