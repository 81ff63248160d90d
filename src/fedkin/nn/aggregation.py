"""Aggregation of models and statistics at the server."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def weighted_mean(models: Tensor, weights: Sequence[float]) -> Tensor:
    """Mean of `models` ``(k, size)`` weighted by `weights`, such as sample counts: ``(size,)``.

    Summed in double precision and in the order given, so the result does not depend on the order of replies.
    """
    counts = torch.tensor(weights, dtype=torch.float64)
    return ((counts / counts.sum()) @ models.double()).to(models.dtype)


class Means:
    """Weighted means of updates, one per cluster, summed in double precision as they come in.

    Parameters
    ----------
    clusters, size : int
    shared : int
        So many leading numbers are averaged over all clusters together.
    """

    def __init__(self, clusters: int, size: int, shared: int = 0) -> None:
        self.size, self.shared = size, shared
        self.sums: dict[int, Tensor] = {}
        self.weights = [0.0] * clusters
        self._common = torch.zeros(shared, dtype=torch.float64)

    def add(self, cluster: int, update: Tensor, weight: float) -> None:
        """Add one update ``(size,)``."""
        if cluster not in self.sums:
            self.sums[cluster] = torch.zeros(self.size, dtype=torch.float64)
        self.sums[cluster].add_(update, alpha=weight)
        self.weights[cluster] += weight
        self._common.add_(update[: self.shared], alpha=weight)

    def of(self, cluster: int) -> Tensor:
        """The cluster's mean update ``(size,)`` in float32; zeros without any update, so its model stays."""
        if self.weights[cluster] == 0.0:
            return torch.zeros(self.size)
        return (self.sums[cluster] / self.weights[cluster]).float()

    def all(self) -> Tensor:
        """The mean updates of all clusters ``(clusters, size)``, equal in their shared leading numbers."""
        means = torch.stack([self.of(cluster) for cluster in range(len(self.weights))])
        total = sum(self.weights)
        if self.shared and total > 0:
            means[:, : self.shared] = (self._common / total).float()
        return means
