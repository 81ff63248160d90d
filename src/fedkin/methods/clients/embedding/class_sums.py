"""Server side of class sums with Gaussian noise: their privacy budget, centre and clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload
from fedkin.core.replies import reals
from fedkin.methods.clients.embedding.class_sums_tasks import (
    COUNTED,
    SENSITIVITY,
    class_sums_of,
    send_class_sums,
    send_code_total,
)
from fedkin.methods.clients.embedding.known_noise import ClassMeans, cluster_class_means, nearest_by_class_means
from fedkin.methods.clients.one_shot.tree_cuts import Clustering
from fedkin.privacy.gaussian import gaussian_mu

EPSILON = 8.0
"""Default budget of a sample."""

_CENTRE_FRACTION = 0.05
"""Fraction of the squared budget for the sum over all samples of all clients, which needs little."""
_RADIUS = 0.8
"""Distance from the centre beyond which directions are clipped, relative to their root mean square distance."""
_SMALLEST = 0.01


_NEEDED = {
    "form": ("classes", "a prototype depends on all samples"),
    "batch_statistics": (False, "a code must depend on its sample alone"),
    "refresh": (0, "the budget is spent by the first message"),
    "flips": ([], "sums have noise in place of flips"),
    "clustering": ("exact", "sums are cut above their known noise"),
}
"""Required values of settings with class sums, and the reasons."""


def check_settings(method: Any) -> None:
    """Raise an error for settings that have no effect with class sums."""
    for name, (needed, reason) in _NEEDED.items():
        value = getattr(method, name)
        if value != needed:
            raise FedkinError(f"{name} is {value!r}, but with message = 'sums' it must be {needed!r}: {reason}.")


@dataclass(frozen=True)
class ClassSums:
    """Collects clients' noisy class sums under a privacy budget per sample, and clusters them.

    `epsilon` and `delta` are the budget of each sample for both releases of its client together. `segments` is the
    number of classes, and `width` the length of a code.
    """

    epsilon: float
    delta: float
    segments: int
    width: int

    @property
    def budget(self) -> float:
        """The budget as mu of Gaussian differential privacy."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on every number of the class sums."""
        return SENSITIVITY / (self.budget * math.sqrt(1 - _CENTRE_FRACTION))

    def centre(self, fed: Federation, how: Payload) -> tuple[Tensor, float, list[int]]:
        """Ask all clients for the noisy sum of their codes' directions; return their mean, a radius, and who answered.

        The mean is float32 ``(width,)``, empty if no client replied. The radius, in (0, 1], is the distance from it
        that directions are clipped to.
        """
        deviation = SENSITIVITY / (self.budget * math.sqrt(_CENTRE_FRACTION))
        asked = how | {"deviation": deviation, "budget": self.budget}
        replies = fed.ask(send_code_total, dict.fromkeys(fed.present, asked), {"total": reals(self.width + 1)})
        sent = {client: reply["total"].double() for client, reply in replies.items() if reply}
        if not sent:
            self._check_budgets(fed)
            return torch.zeros(0), 1.0, []
        total = torch.stack(list(sent.values())).sum(0)
        centre = total[:-1] / (total[-1] / COUNTED).clamp_min(1.0)
        centre = centre / centre.norm().clamp_min(1.0)  # a mean of unit vectors is no longer than 1
        radius = _RADIUS * math.sqrt(max(_SMALLEST, 1 - float(centre.square().sum())))
        return centre.float(), radius, sorted(sent)

    def ask(self, fed: Federation, how: Payload, clients: Sequence[int]) -> dict[int, Tensor]:
        """Ask clients for class sums ``(segments * (width + 1),)``; clients without enough budget are left out."""
        asked = how | {"deviation": self.deviation, "budget": self.budget}
        expected = {"sums": reals(self.segments, self.width + 1)}
        replies = fed.ask(send_class_sums, dict.fromkeys(clients, asked), expected)
        sent = {client: reply["sums"].flatten() for client, reply in replies.items() if reply}
        if not sent:
            self._check_budgets(fed)
        return sent

    def clustered(self, messages: Tensor, min_size: int, rng: torch.Generator) -> tuple[Clustering, dict[str, Any]]:
        """Return clusters of messages ``(m, segments * (width + 1))``, and plain values for the record."""
        found = cluster_class_means(ClassMeans.of(messages, self.segments, self.deviation), min_size, rng)
        return found, {
            "mode": "sums",
            "separable": found.separable,
            "cut": found.cut,
            "heights": found.heights,
            "noise": found.noise,
            "numbers": messages.shape[1],
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    def nearest(self, centroids: Tensor, messages: Tensor) -> Tensor:
        """Return the nearest cluster of each message ``(m, d)``, int64 ``(m,)``, by the mean messages ``(K, d)``."""
        found = [nearest_by_class_means(centroids, one, self.segments, self.deviation) for one in messages]
        return torch.tensor(found, dtype=torch.int64)

    def described(self) -> dict[str, Any]:
        """Return the noise parameters that an unseen client needs for its message."""
        return {"message": "sums", "deviation": self.deviation, "budget": self.budget}

    def _check_budgets(self, fed: Federation) -> None:
        if not fed.missing:
            raise FedkinError(
                f"All clients have less left of their own budgets than method.epsilon = {self.epsilon:g}, so none "
                "sends anything."
            )


def assigned(result: Mapping[str, Any], unseen: Client) -> int:
    """Return the cluster of an unseen client by its noisy class sums, for a run with ``message="sums"``.

    Raises FedkinError if the client's own budget does not allow the message.
    """
    sums = class_sums_of(unseen, result)
    if sums is None:
        raise FedkinError("The client's own budget is smaller than that of the run, so it sends nothing.")
    return nearest_by_class_means(result["centroids"], sums.flatten(), result["segments"], result["deviation"])
