"""What leaves a client under a budget of differential privacy: sums with Gaussian noise, of rows that it has clipped.

A client keeps an account of its releases in a run. It sends nothing if a request exceeds the budget that the server
names, or if that budget exceeds its own. A repeated release has the same noise and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, task
from fedkin.core.client import LASTING
from fedkin.core.noise import about
from fedkin.core.replies import is_name, is_shape
from fedkin.privacy.gaussian import gdp, noisy

NAMES, SPENT = LASTING + "released", LASTING + "spent"
"""In a client's state: names of the noise of its releases, uint8 ``(r, 32)``, and squared mu of each ``(r,)``."""


def is_row_by_row(name: Any) -> bool:
    """Whether features are of each sample by itself: the library's own, or those that the client's owner has named.

    A path into fedkin might lead to a function that mixes samples, and one of them would be in every row.
    """
    return is_name(name) and not name.startswith("fedkin.")


@task(takes={}, holds={"shape": is_shape}, accounted=True)
def send_shape(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Send the shape of a sample, which does not depend on the samples' values."""
    return [{"shape": list(client.x.shape[1:])} for client in clients]


def released(
    client: Client, exact: Sequence[Tensor], sensitivity: float, payload: Mapping[str, Any]
) -> list[Tensor] | None:
    """Sums, float64, with noise of the requested standard deviation; ``None`` if the client's budget does not suffice.

    A repeated release with the same noise costs nothing; any other is recorded, by the name of its noise.

    Parameters
    ----------
    client : Client
    exact : sequence of Tensor
        The sums; all of them together, one sample changes by at most `sensitivity` in Euclidean length.
    sensitivity : float
    payload : mapping
        ``deviation`` of the noise, and the ``budget`` of the run as mu of Gaussian differential privacy.
    """
    noise, name = about(client.noise, exact)
    names = client.state.get(NAMES, torch.zeros(0, len(name), dtype=torch.uint8))
    spent = client.state.get(SPENT, torch.zeros(0, dtype=torch.float64))
    own = torch.tensor(list(name), dtype=torch.uint8)
    if not bool((names == own).all(1).any()):
        spent = torch.cat([spent, spent.new_tensor([gdp(sensitivity, payload["deviation"]) ** 2])])
        budget = float(payload["budget"])
        if not math.sqrt(float(spent.sum())) <= budget * (1 + 1e-6) or not client.reserve(budget):
            return None
        client.state[NAMES], client.state[SPENT] = torch.cat([names, own[None]]), spent
    return [noisy(value, payload["deviation"], noise) for value in exact]


def clipped(rows: Tensor) -> Tensor:
    """Rows clipped to length 1; numbers that are not finite, which noise could not hide, become 0."""
    finite = rows.nan_to_num(0.0, 0.0, 0.0)
    shortened: Tensor = finite / finite.norm(dim=1, keepdim=True).clamp_min(1.0)
    return shortened


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
