"""Principal angles between subspaces, each given by a few vectors."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Angle = Literal["mean", "smallest"]

RIGHT_ANGLE = 90.0
_NEGLIGIBLE = 1e-6
"""Singular value, relative to the largest, of a direction that counts as none."""


def angles_between(sets: Tensor, angle: Angle, others: Tensor | None = None) -> Tensor:
    """Compute angles between sets of vectors, in degrees: principal angles, or those of corresponding vectors.

    `sets` ``(n, k, features)`` are k vectors each, some of them zero; the others are normalised to length 1. "mean" is
    the mean of the angles between vectors of the same place, where both sets have one, "smallest" the smallest
    principal angle between the spans. `others` are ``(m, k, features)``, by default `sets`. Angles are float64 ``(n,
    m)``, from 0 to 90; 90 where two sets have no vector in common. Without `others` the diagonal is zero.
    """
    one = _unit(sets.double())
    other = one if others is None else _unit(others.double())
    found = _mean_angles(one, other) if angle == "mean" else _smallest_angles(one, other)
    return (found + found.T).fill_diagonal_(0.0) / 2 if others is None else found


def _unit(sets: Tensor) -> Tensor:
    return torch.nn.functional.normalize(sets, dim=2)


def _mean_angles(one: Tensor, other: Tensor) -> Tensor:
    total = torch.zeros(len(one), len(other), dtype=torch.float64)
    count = torch.zeros_like(total)
    for place in range(one.shape[1]):
        first, second = one[:, place], other[:, place]
        both = first.any(1)[:, None] & second.any(1)
        total += torch.where(both, _degrees(first @ second.T), 0.0)
        count += both
    return torch.where(count > 0, total / count.clamp_min(1), RIGHT_ANGLE)


def _smallest_angles(one: Tensor, other: Tensor) -> Tensor:
    first, second = _orthonormal(one), _orthonormal(other)
    rows = [torch.linalg.matrix_norm(each @ second.mT, ord=2) for each in first]  # largest singular values
    return _degrees(torch.stack(rows))


def _orthonormal(sets: Tensor) -> Tensor:
    """Return an orthonormal basis of each set's span, ``(n, k, features)``; dependent rows are zeros."""
    _, values, vectors = torch.linalg.svd(sets, full_matrices=False)
    kept: Tensor = values > _NEGLIGIBLE * values[:, :1].clamp_min(_NEGLIGIBLE)
    return torch.where(kept[:, :, None], vectors, 0.0)


def _degrees(cosines: Tensor) -> Tensor:
    return torch.rad2deg(cosines.abs().clamp(max=1.0).arccos())
