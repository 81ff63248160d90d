"""What methods that cluster samples under a budget of differential privacy share, besides `fedkin.privacy.releases`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, task
from fedkin.core.replies import is_name, is_shape


def is_row_by_row(name: Any) -> bool:
    """Whether features are of each sample by itself: the library's own, or those that the client's owner has named.

    A path into fedkin might lead to a function that mixes samples, and one of them would be in every row.
    """
    return is_name(name) and not name.startswith("fedkin.")


@task(takes={}, holds={"shape": is_shape}, accounted=True)
def send_shape(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Send the shape of a sample, which does not depend on the samples' values."""
    return [{"shape": list(client.x.shape[1:])} for client in clients]


def triangle_of(products: Tensor) -> Tensor:
    """The lower triangle of a symmetric matrix ``(width, width)``, as a vector of the matrix's Euclidean length.

    A number off the diagonal stands for two; scaled by the root of 2 for the sensitivity, it gets less noise.
    """
    lower = torch.tril_indices(*products.shape)
    return products[lower[0], lower[1]] * _scale(len(products))


def without_scale(triangle: Tensor, width: int) -> Tensor:
    """The triangle of `triangle_of` with the matrix's own numbers, float32."""
    return (triangle / _scale(width)).float()


def symmetric(triangle: Tensor, width: int) -> Tensor:
    """The symmetric matrix ``(width, width)``, float64, of its lower triangle as a vector."""
    matrix = torch.zeros(width, width, dtype=torch.float64)
    rows, columns = torch.tril_indices(width, width)
    matrix[rows, columns] = triangle.double()
    full: Tensor = matrix + matrix.tril(-1).T
    return full


def _scale(width: int) -> Tensor:
    lower = torch.tril_indices(width, width)
    return torch.where(lower[0] == lower[1], 1.0, math.sqrt(2))


def check_budgets(missing: Mapping[int, str], epsilon: float) -> None:
    """Raise an error for replies without content, unless clients are missing."""
    if not missing:
        raise FedkinError(
            f"All clients have spent their budgets of method.epsilon = {epsilon:g}, or have less left of their own: "
            "nothing leaves."
        )
