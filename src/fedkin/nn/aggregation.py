"""Aggregation of models and statistics at the server."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def weighted_mean(models: Tensor, weights: Sequence[float]) -> Tensor:
    """Mean of `models` ``(k, size)`` weighted by `weights`, such as sample counts: ``(size,)``.

    Summed in double precision and in the order given, so the result does not depend on who answered first.
    """
    share = torch.tensor(weights, dtype=torch.float64)
    return ((share / share.sum()) @ models.double()).to(models.dtype)


class Means:
    """Weighted means of updates, one per group, summed in double precision as they come in.

    Parameters
    ----------
    groups, size : int
    shared : int
        So many leading numbers are averaged over all groups together.
    """

    def __init__(self, groups: int, size: int, shared: int = 0) -> None:
        self.size, self.shared = size, shared
        self.sums: dict[int, Tensor] = {}
        self.weights = [0.0] * groups
        self._common = torch.zeros(shared, dtype=torch.float64)

    def add(self, group: int, update: Tensor, weight: float) -> None:
        """Take one update ``(size,)`` in."""
        if group not in self.sums:
            self.sums[group] = torch.zeros(self.size, dtype=torch.float64)
        self.sums[group].add_(update, alpha=weight)
        self.weights[group] += weight
        self._common.add_(update[: self.shared], alpha=weight)

    def of(self, group: int) -> Tensor:
        """The group's mean update ``(size,)`` in float32; zeros where nobody gave one, so its model stays."""
        if self.weights[group] == 0.0:
            return torch.zeros(self.size)
        return (self.sums[group] / self.weights[group]).float()

    def all(self) -> Tensor:
        """The mean updates of all groups ``(groups, size)``, equal in what they share."""
        means = torch.stack([self.of(group) for group in range(len(self.weights))])
        total = sum(self.weights)
        if self.shared and total > 0:
            means[:, : self.shared] = (self._common / total).float()
        return means
