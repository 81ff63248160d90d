"""State of CCFC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fedkin.core import State


@dataclass(frozen=True)
class CCFCState(State):
    """State of CCFC: the models and the centroids.

    `Contrastive.of` makes the network from `network`; `unit` says whether all values of the samples lie in [0, 1].
    `models` has the common model ``(size,)`` under "all"; with `standalone` each client's, under its id. `centroids`,
    float32 ``(k, latent)`` of length 1, are under the same names; empty before there are any.
    """

    network: dict[str, Any] = field(default_factory=dict)
    unit: bool = True
    models: dict[str, Tensor] = field(default_factory=dict)
    centroids: dict[str, Tensor] = field(default_factory=dict)
