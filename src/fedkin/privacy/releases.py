"""Releases under a privacy budget: sums of clipped rows, with Gaussian noise.

A client keeps an account of its releases in a run. It sends nothing if a request exceeds the budget that the server
names, or if that budget exceeds its own. A repeated release has the same noise and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedkin.core.client import LASTING, Client
from fedkin.core.noise import about
from fedkin.privacy.gaussian import gdp, noisy

NAMES, SPENT = LASTING + "released", LASTING + "spent"
"""In a client's state: names of the noise of its releases, uint8 ``(r, 32)``, and squared mu of each ``(r,)``."""


def released(
    client: Client, exact: Sequence[Tensor], sensitivity: float, payload: Mapping[str, Any]
) -> list[Tensor] | None:
    """Add noise to sums, and charge the client's budget; return them, float64, or ``None`` if it does not suffice.

    A repeated release with the same noise costs nothing; any other is recorded, by the name of its noise. All sums
    together change by at most `sensitivity` in Euclidean length by one sample. The payload has the ``deviation`` of the
    noise, and the ``budget`` of the run as mu of Gaussian differential privacy.
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
    """Clip rows to length 1; numbers that are not finite, which noise could not hide, become 0."""
    finite = rows.nan_to_num(0.0, 0.0, 0.0)
    shortened: Tensor = finite / finite.norm(dim=1, keepdim=True).clamp_min(1.0)
    return shortened
