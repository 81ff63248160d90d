"""Typical samples of clusters: which rows of a client are nearest to the middle of their cluster."""

from __future__ import annotations

import torch
from torch import Tensor

_COMPARED = 1000
"""Rows of a cluster among which the medoid is found."""
_FRACTION, _MAX_ROWS = 10, 50
"""One row in ten of a cluster is taken, and at most so many."""


def typical_cells(x: Tensor, clusters: Tensor, reported: Tensor, n_clusters: int, minimum: int) -> Tensor:
    """Choose the cells, of those `reported`, in the rows nearest to the medoid of their cluster.

    `x` ``(n, ...)`` are the rows as methods see them, and `clusters` int64 ``(n,)``. `reported`, bool ``(n, columns)``,
    are the cells that sums by cluster and column are over, each of `minimum` cells or more. Return bool ``(n,
    columns)``, true in `reported` cells only. Of a cluster and column, they are none, or at least `minimum` and all but
    at least `minimum` of those reported, or all, so that nobody finds fewer by subtraction.
    """
    chosen = torch.zeros(len(x), dtype=torch.bool)
    for cluster in range(n_clusters):
        rows = (clusters == cluster).nonzero()[:, 0]
        if len(rows):
            chosen[rows[_nearest(x[rows].flatten(1).double(), minimum)]] = True
    cells = reported & chosen[:, None]
    member = (clusters[None] == torch.arange(n_clusters)[:, None]).double()
    taken, whole = member @ cells.double(), member @ reported.double()
    allowed = (taken >= minimum) & ((whole - taken >= minimum) | (taken == whole))
    return cells & (member.T @ allowed.double() > 0)


def _nearest(points: Tensor, minimum: int) -> Tensor:
    """Return the indices of the points nearest to their medoid; all of them where they are few."""
    if len(points) < 2 * minimum:
        return torch.arange(len(points))
    some = torch.linspace(0, len(points) - 1, min(len(points), _COMPARED)).round().long()
    medoid = points[some[torch.cdist(points[some], points[some]).sum(1).argmin()]]
    count = min(max(2 * minimum, min(len(points) // _FRACTION, _MAX_ROWS)), len(points) // 2)
    return (points - medoid).square().sum(1).argsort(stable=True)[:count]
