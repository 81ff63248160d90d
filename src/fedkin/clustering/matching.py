"""Matching of two numberings of clusters (the assignment problem)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
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


def corresponding(before: ArrayLike, after: ArrayLike) -> dict[int, int]:
    """Return the clusters of two clusterings of the same items that have mostly the same members, as ``{old: new}``.

    Of the items in either cluster more than half are in both, the least part with which no cluster corresponds to two.
    `before` and `after` are of the same length; -1 is in no cluster.
    """
    old, new = np.asarray(before, dtype=np.int64), np.asarray(after, dtype=np.int64)
    pairs, counts = np.unique(np.stack([old, new])[:, (old >= 0) & (new >= 0)], axis=1, return_counts=True)
    return {
        int(a): int(b)
        for (a, b), both in zip(pairs.T, counts, strict=True)
        if 2 * both > (old == a).sum() + (new == b).sum() - both
    }
