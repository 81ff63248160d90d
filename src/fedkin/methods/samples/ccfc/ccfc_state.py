"""State of CCFC, and the replies of a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fedkin.core import Payload, State


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


@dataclass
class RoundReplies:
    """Result of a round of training: models of one name are averaged, weighted by samples (eq. 8)."""

    answered: list[int] = field(default_factory=list)
    models: dict[str, Tensor] = field(default_factory=dict)
    centroids: list[tuple[str, Tensor]] = field(default_factory=list)
    losses: list[tuple[float, int]] = field(default_factory=list)

    def add(self, client: int, name: str, reply: Payload) -> None:
        """Add all of a reply but its model, which is averaged."""
        self.answered.append(client)
        if "centroids" in reply:
            self.centroids.append((name, reply["centroids"]))
        if "loss" in reply:
            self.losses.append((reply["loss"], reply["samples"]))

    @property
    def loss(self) -> float | None:
        """Mean loss over the clients that trained, weighted by samples; None if there are none."""
        total = sum(samples for _, samples in self.losses)
        return sum(loss * samples for loss, samples in self.losses) / total if total else None
