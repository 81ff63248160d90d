"""Tools shared by differentially private methods that cluster samples, besides `fedkin.privacy.budget`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedkin.core import FedkinError, Payload, block_task
from fedkin.core.client_array import Block
from fedkin.core.payload import Array, is_name, is_shape
from fedkin.features.pca import lower_triangle


def is_row_by_row(name: Any) -> bool:
    """Whether features of a sample depend on it alone: built-in ones, or those that the client's owner has named.

    A dotted path into fedkin might lead to a function that mixes samples, so that every row would depend on one sample.
    """
    return is_name(name) and not name.startswith("fedkin.")


@dataclass(frozen=True)
class UnitDirections(Array):
    """Specification of float32 directions ``(width, rank)`` whose lengths are at most 1, but for rounding."""

    def objection(self, value: Any, lengths: dict[str, int] | None = None) -> str | None:
        """Return why a value is not such a tensor, or ``None``."""
        if (reason := super().objection(value, lengths)) is not None:
            return reason
        longest = float(value.double().norm(dim=0).max()) if value.numel() else 0.0
        # The rounding is that of a length of up to 2^15 numbers in float32.
        return None if longest <= 1 + 1e-5 else f"has directions of length {longest:g}, above 1"


@block_task(
    takes={},
    holds={"shape": is_shape},
    accounted=True,
    sends="What columns there are, or how large a picture is",
    fewest="none",
)
def send_shape(block: Block, payload: Payload) -> Payload:
    """Send the shape of a sample, which does not depend on the samples' values."""
    return {"shape": list(block.x.shape[2:])}


def triangle_of(products: Tensor) -> Tensor:
    """Return the lower triangle of a symmetric matrix ``(width, width)`` as a vector with the matrix's Frobenius norm.

    A number off the diagonal stands for two, and is scaled by sqrt(2), so that it gets less noise for the same
    sensitivity.
    """
    return lower_triangle(products) * scale_of(len(products))


def without_scale(triangle: Tensor, width: int) -> Tensor:
    """Return the triangle of `triangle_of` with the matrix's own numbers, float32."""
    return (triangle / scale_of(width)).float()


def scale_of(width: int) -> Tensor:
    """Return what a triangle's numbers are multiplied by, ``(width (width + 1) / 2,)``."""
    rows, columns = torch.tril_indices(width, width)
    return torch.where(rows == columns, 1.0, math.sqrt(2))


def check_budgets(missing: Mapping[int, str], epsilon: float) -> None:
    """Raise an error for spent budgets if all replies are empty and no client is missing."""
    if not missing:
        raise FedkinError(
            f"All clients have spent their budgets of method.epsilon = {epsilon:g}, or have less left of their own, "
            "so no client sends anything."
        )
