"""Class sums with Gaussian noise, in place of randomised bits: tasks of the clients, budget, centre and clusters.

A sample contributes the direction of its code, a vector of length 1. What leaves a client are sums over samples, whose
sensitivity to one sample is bounded, with noise charged to a privacy account; see `fedkin.privacy.budget`. As the noise
is known, two clients are enough for a cluster: see `fedkin.clustering.tree_cuts`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.tree_cuts import COUNTED, ClassMeans, Clustering, cluster_class_means, nearest_by_class_means
from fedkin.core import Client, Federation, FedkinError, Payload, client_task
from fedkin.core.federation import Replies
from fedkin.core.replies import MAX_CLASSES, Expected, counts_to, positive, reals, updates
from fedkin.methods.clients.local_work import labels_of
from fedkin.nn.encoder import ENCODER, Encoder
from fedkin.privacy.budget import clipped, released
from fedkin.privacy.gaussian import gaussian_mu

SENSITIVITY = math.hypot(1.0, COUNTED)
EPSILON = 8.0
"""Default budget of a sample."""
_CENTRE_FRACTION = 0.05
"""Fraction of the squared budget for the sum over all samples of all clients, which needs little."""

_SHARED: Expected = {"encoder": ENCODER, "vector": updates("size"), "deviation": positive, "budget": positive}


@client_task(
    takes=_SHARED,
    holds={"total": reals(None)},
    may_be_empty=True,
    sends="A sum of all rows as a network sees them, with noise",
    fewest="noise",
)
def send_code_total(client: Client, payload: Payload) -> Payload:
    """Send the noisy sum of the directions of a client's codes, and half the number of samples: ``(width + 1,)``.

    The reply is empty if the client's budget does not suffice.
    """
    rows = _counted(clipped(_directions(client.x, payload)))
    sums = released(client, [rows.sum(0)], SENSITIVITY, payload)
    return {} if sums is None else {"total": sums[0].float()}


@client_task(
    takes={**_SHARED, "centre": reals(None), "radius": positive, "segments": counts_to(MAX_CLASSES)},
    holds={"sums": reals(None, None)},
    may_be_empty=True,
    sends="For each class a sum of rows as a network sees them, with noise",
    fewest="noise",
)
def send_class_sums(client: Client, payload: Payload) -> Payload:
    """Send each class's noisy sum of directions and half its number of samples: ``(classes, width + 1)``.

    The reply is empty if the client's budget does not suffice.
    """
    sums = class_sums_of(client, payload)
    return {} if sums is None else {"sums": sums}


def class_sums_of(client: Client, how: Mapping[str, Any]) -> Tensor | None:
    """Return a client's noisy sums, float32 ``(segments, width + 1)``; ``None`` if its budget does not suffice.

    Labels beyond the segments are left out. `how` has ``encoder`` and ``vector``; ``centre`` ``(width,)`` of all
    directions and ``radius``, the distance from it that is scaled to 1 in these sums; ``segments``; ``deviation`` of
    the noise, and the ``budget`` of the run.
    """
    y = labels_of(client)
    rows = _counted(clipped((_directions(client.x, how) - how["centre"].double()) / how["radius"]))
    inside = y < how["segments"]
    exact = torch.zeros(how["segments"], rows.shape[1], dtype=torch.float64).index_add_(0, y[inside], rows[inside])
    sums = released(client, [exact], SENSITIVITY, how)
    return None if sums is None else sums[0].float()


def _directions(x: Tensor, how: Mapping[str, Any]) -> Tensor:
    """Return the samples' codes scaled to length 1: float64 ``(n, width)``; codes of zero stay zero."""
    codes = Encoder.of(how["encoder"]).codes(how["vector"], x).double().nan_to_num(0.0, 0.0, 0.0)
    return normalize(codes, dim=1)


def _counted(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_full((len(rows), 1), COUNTED)], 1)


@dataclass(frozen=True)
class ClassSums:
    """Collects noisy sums of `segments` classes of codes of `width`, under a budget per sample, and clusters them."""

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

    def centre(self, fed: Federation, how: Payload) -> tuple[Tensor, float, Replies[Tensor]]:
        """Ask all clients for the noisy sum of their codes' directions; return their mean, a radius, and who answered.

        The mean is float32 ``(width,)``, empty if no client replied. The radius, in (0, 1], is the distance from it
        that directions are clipped to: 0.8 times their root mean square distance.
        """
        deviation = SENSITIVITY / (self.budget * math.sqrt(_CENTRE_FRACTION))
        payload = how | {"deviation": deviation, "budget": self.budget}
        replies = fed.ask(send_code_total, dict.fromkeys(fed.present, payload), {"total": reals(self.width + 1)})
        totals = {client: reply["total"].double() for client, reply in replies.items() if reply}
        answered = Replies(totals, replies.missing)
        if not totals:
            self._check_budgets(answered)
            return torch.zeros(0), 1.0, answered
        total = torch.stack(list(totals.values())).sum(0)
        centre = total[:-1] / (total[-1] / COUNTED).clamp_min(1.0)
        centre = centre / centre.norm().clamp_min(1.0)  # a mean of unit vectors is no longer than 1
        radius = 0.8 * math.sqrt(max(0.01, 1 - float(centre.square().sum())))
        return centre.float(), radius, answered

    def ask(self, fed: Federation, how: Payload, clients: Sequence[int]) -> Replies[Tensor]:
        """Ask clients for class sums ``(segments * (width + 1),)``; clients without enough budget are left out."""
        payload = how | {"deviation": self.deviation, "budget": self.budget}
        expected = {"sums": reals(self.segments, self.width + 1)}
        replies = fed.ask(send_class_sums, dict.fromkeys(clients, payload), expected)
        sums = {client: reply["sums"].flatten() for client, reply in replies.items() if reply}
        answered = Replies(sums, replies.missing)
        if not sums:
            self._check_budgets(answered)
        return answered

    def _check_budgets(self, answered: Replies[Tensor]) -> None:
        if not answered.missing:
            raise FedkinError(
                f"All clients have less left of their own budgets than method.epsilon = {self.epsilon:g}, so none "
                "sends anything."
            )

    def clustered(self, messages: Tensor, min_size: int, rng: torch.Generator) -> tuple[Clustering, dict[str, Any]]:
        """Return clusters of messages ``(m, segments * (width + 1))``, and plain values for the record."""
        clustering = cluster_class_means(ClassMeans.of(messages, self.segments, self.deviation), min_size, rng)
        values = {"mode": "sums", "numbers": messages.shape[1], "epsilon": self.epsilon, "delta": self.delta}
        return clustering, values

    def nearest(self, centroids: Tensor, messages: Tensor) -> Tensor:
        """Return the nearest cluster of each message ``(m, d)``, int64 ``(m,)``, by the mean messages ``(K, d)``."""
        clusters = [nearest_by_class_means(centroids, row, self.segments, self.deviation) for row in messages]
        return torch.tensor(clusters, dtype=torch.int64)

    def described(self) -> dict[str, Any]:
        """Return what an unseen client needs for its message."""
        return {"message": "sums", "deviation": self.deviation, "budget": self.budget}


def assigned(result: Mapping[str, Any], unseen: Client) -> int:
    """Return the cluster of an unseen client by its noisy class sums, for a run with ``message="sums"``.

    Raises FedkinError if the client's own budget does not allow the message.
    """
    sums = class_sums_of(unseen, result)
    if sums is None:
        raise FedkinError("The client's own budget is smaller than that of the run, so it sends nothing.")
    return nearest_by_class_means(result["centroids"], sums.flatten(), result["segments"], result["deviation"])
