"""Aggregation of models and statistics at the server."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkin.core.errors import DivergedError

Aggregation = Literal["mean", "median", "trimmed-mean"]
"""How several models are combined: by their mean weighted by samples, or by the coordinate-wise median or trimmed mean.
In the latter two all clients count equally, and up to a fifth of them cannot move the result far (Yin et al. 2018)."""

MAX_MODEL = 1e8
"""Maximum magnitude of a number in a usable model."""


def robust_mean(rows: Sequence[Tensor], aggregation: Aggregation) -> Tensor:
    """Return the coordinate-wise median or trimmed mean of `rows`, each ``(size,)``: float32 ``(size,)``.

    A trimmed mean leaves out a fifth of the values at either end, rounded up; it is the median of one to four rows.
    """
    count = len(rows)
    dropped = (count - 1) // 2 if aggregation == "median" else min(math.ceil(count / 5), (count - 1) // 2)
    parts = []
    for columns in zip(*(row.split(1 << 16) for row in rows), strict=True):  # some at a time: sorting takes memory
        ordered = torch.stack(columns).sort(0).values
        parts.append(ordered[dropped : count - dropped].double().mean(0).float())
    return torch.cat(parts) if parts else rows[0].float()


@dataclass(frozen=True)
class _Part:
    """Record of one update: its client if known, its Euclidean norm and its weight."""

    cluster: int
    client: int | None
    length: float
    weight: float


class Means:
    """Averages of updates or models, one per cluster.

    Weighted means are summed in double precision as updates come in. For the other ways to aggregate, updates are kept
    until they are asked for, and their weights do not count. `shared` leading parameters are averaged over all clusters
    together.
    """

    def __init__(self, clusters: int, size: int, shared: int = 0, aggregation: Aggregation = "mean") -> None:
        self.size, self.shared, self.aggregation = size, shared, aggregation
        self.sums: dict[int, Tensor] = {}
        self.weights = [0.0] * clusters
        self._common = torch.zeros(shared, dtype=torch.float64)
        self._kept: dict[int, list[Tensor]] = {}
        self._parts: list[_Part] = []

    def add(self, cluster: int, update: Tensor, weight: float, client: int | None = None) -> None:
        """Add an update ``(size,)`` to its cluster; `client`, the client that sent it, is named in errors."""
        self.weights[cluster] += weight
        self._parts.append(_Part(cluster, client, float(torch.linalg.vector_norm(update)), weight))
        if self.aggregation != "mean":
            self._kept.setdefault(cluster, []).append(update)
            return
        if cluster not in self.sums:
            self.sums[cluster] = torch.zeros(self.size, dtype=torch.float64)
        self.sums[cluster].add_(update, alpha=weight)
        if self.shared:
            self._common.add_(update[: self.shared], alpha=weight)

    def of(self, cluster: int) -> Tensor:
        """Return the cluster's average ``(size,)`` in float32; zeros if the cluster has no updates."""
        if self.aggregation != "mean" and cluster in self._kept:
            return robust_mean(self._kept[cluster], self.aggregation)
        if cluster not in self.sums or self.weights[cluster] == 0.0:
            return torch.zeros(self.size)
        return (self.sums[cluster] / self.weights[cluster]).float()

    def all(self) -> Tensor:
        """Return the averages of all clusters ``(clusters, size)``, equal in their shared leading numbers."""
        # A cluster without updates keeps its own layers, and moves with all others in the shared ones.
        means = torch.stack([self.of(cluster) for cluster in range(len(self.weights))])
        if self.shared and (self._kept or sum(self.weights) > 0):
            means[:, : self.shared] = self._shared_mean()
        return means

    def apply_to(self, models: Tensor) -> Tensor:
        """Return `models` ``(clusters, size)`` plus the average updates.

        Raises DivergedError as `check` does.
        """
        after = models + self.all()
        self.check(after, models)
        return after

    def check(self, after: Tensor, before: Tensor | None = None) -> None:
        """Raise an error if aggregation makes a model non-finite, too large, or moves it too far.

        `after` ``(clusters, size)`` are models as they would be, and `before` as they were, if updates were averaged;
        without, models themselves were. It is a DivergedError if a model becomes useless: a number of it is not finite
        or beyond `MAX_MODEL`. Or if, in a mean, one client alone moves its cluster's model by more than ten times that
        model's length, and ten times the usual length of an update, which is less than a hundredth of its own.
        """
        lengths = sorted(part.length if part.length == part.length else math.inf for part in self._parts)
        usual = lengths[(len(lengths) - 1) // 2] if lengths else 0.0  # the median
        several = len(lengths) > 2
        long = [part for part in self._parts if several and part.client is not None and not part.length <= 100 * usual]
        bad = _useless(after) if before is None else _useless(after) & ~_useless(before)
        if bad.any():
            raise _diverged("is not finite, or beyond any use", long, usual)

        def moves_far(part: _Part) -> bool:
            length = 0.0 if before is None else float(torch.linalg.vector_norm(before[part.cluster]))
            total = self.weights[part.cluster]
            return total > 0 and part.weight / total * part.length > 10 * max(length, usual)

        if self.aggregation == "mean" and (dominant := [part for part in long if moves_far(part)]):
            raise _diverged("has exploded", dominant, usual)

    def _shared_mean(self) -> Tensor:
        """Return the average of the shared leading numbers ``(shared,)`` over all clusters."""
        if self.aggregation == "mean":
            return (self._common / sum(self.weights)).float()
        every = [update[: self.shared] for updates in self._kept.values() for update in updates]
        return robust_mean(every, self.aggregation)


def _useless(models: Tensor) -> Tensor:
    """Find models ``(clusters, size)`` with numbers that are not finite or beyond `MAX_MODEL`: bool ``(clusters,)``."""
    if not models.numel():
        return torch.zeros(len(models), dtype=torch.bool)
    lowest, highest = models.aminmax(dim=1)
    return ~((highest <= MAX_MODEL) & (lowest >= -MAX_MODEL))  # comparisons with NaN are false


def _diverged(what: str, parts: Sequence[_Part], usual: float) -> DivergedError:
    """Return the error for a diverged model, which names the clients of `parts` with unusual updates."""
    reason = "its update has length {:.3g} where most have at most {:.3g}"
    reasons = {part.client: reason.format(part.length, usual) for part in parts if part.client is not None}
    return DivergedError(f"A model {what} after averaging", reasons)
