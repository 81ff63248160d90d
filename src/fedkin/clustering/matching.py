"""Matching of two numberings of clusters (the assignment problem)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
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


def renumbered(labels: ArrayLike) -> NDArray[np.int64]:
    """Return labels ``(n,)`` as 0..k-1 in order of first appearance, so that equal partitions get equal numbers."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    rank: NDArray[np.int64] = first.argsort().argsort()[place]
    return rank


def table_of(before: ArrayLike, after: ArrayLike, shape: tuple[int, int] = (0, 0)) -> Tensor:
    """Return how many items of each cluster `before` are in each `after`, int64 of `shape` or as large as needed."""
    old, new = np.asarray(before, dtype=np.int64), np.asarray(after, dtype=np.int64)
    old, new = (each[(old >= 0) & (new >= 0)] for each in (old, new))
    rows, columns = (
        max(size, int(each.max()) + 1 if len(each) else 0) for size, each in zip(shape, (old, new), strict=True)
    )
    return torch.from_numpy(np.bincount(old * columns + new, minlength=rows * columns)).view(rows, columns)


def corresponding(table: Tensor) -> dict[int, int]:
    """Return the clusters that have mostly the same items by a table of counts, int64 ``(old, new)``: ``{old: new}``.

    Of the items in either cluster more than half are in both, the least part with which no cluster corresponds to two.
    """
    either = table.sum(1, keepdim=True) + table.sum(0) - table
    return dict((2 * table > either).nonzero().tolist())
