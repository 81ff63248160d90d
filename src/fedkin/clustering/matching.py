"""Matching of two numberings of clusters (the assignment problem)."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def cheapest_matching(costs: Tensor) -> list[int]:
    """Return the column assigned to each row ``(n, m)``, n <= m, each column once, with the smallest sum of costs."""
    columns: list[int] = linear_sum_assignment(costs.double().numpy())[1].tolist()
    return columns


def matched_labels(labels: Tensor, before: Tensor, clusters: int) -> Tensor:
    """Renumber clusters so that as many points as possible keep their number.

    New `labels` and those `before`, int64 ``(n,)``, are in ``0..clusters-1``; old ones below 0 do not count. Return the
    new labels, renumbered.
    """
    agree = torch.zeros(clusters, clusters)
    known = before >= 0
    agree.index_put_((labels[known], before[known]), torch.tensor(1.0), accumulate=True)
    return torch.tensor(cheapest_matching(-agree))[labels]
