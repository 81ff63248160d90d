"""Graph of kin-graph: nearest neighbours among the micro-clusters of all clients.

Nodes are linked to their nearest nodes; the weight of a link is the overlap of the two neighbourhoods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fedkin.clustering.graph.louvain import CommunityLabels
from fedkin.clustering.nearest import PAIRS, nearest_neighbours

_MIN_NEIGHBOURS = 6
"""Minimum number of nearest points: with fewer, a single cloud falls apart."""


def neighbour_graph(points: Tensor, counts: Tensor, neighbours: int) -> Any:
    """Link every point to its nearest neighbours, with weights by their common neighbours (Jaccard index).

    Two points are linked if either is among the other's nearest. The weight is the Jaccard index of their
    neighbourhoods, each point included in its own, times the root of the product of their counts relative to the mean
    count, so that links are proportional to samples. Distances are computed in blocks: time grows with the square of
    the number of points, memory does not. 6,000 points of 60 dimensions take a second, 20,000 about four.

    `points` are float32 ``(m, d)``, one or more, and `counts`, int64 ``(m,)``, the samples of each, at least 1.
    `neighbours`, at least 1, is reduced to the cube root of the number of points, or 6 if that is more, and to half of
    the points, since clusters of few points have few common neighbours. Return a float64 csr_matrix ``(m, m)``,
    symmetric, with an empty diagonal.
    """
    count = len(points)
    nearest = min(neighbours, max(_MIN_NEIGHBOURS, round(count ** (1 / 3))), max(count // 2, 1), count - 1)
    if nearest < 1:
        return sparse.csr_matrix((count, count), dtype=np.float64)
    every = torch.arange(count)
    around = torch.cat([every[:, None], nearest_neighbours(points, every, every, nearest)], dim=1).numpy()
    rows = np.repeat(np.arange(count), nearest + 1)
    near = sparse.csr_matrix((np.ones(around.size), (rows, around.ravel())), shape=(count, count))
    linked = sparse.triu(near.maximum(near.T), k=1).tocoo()
    common = _in_common(around, linked.row, linked.col)
    samples = counts.double().numpy() / counts.double().mean().item()
    weights = common / (2 * (nearest + 1) - common) * np.sqrt(samples[linked.row] * samples[linked.col])
    graph = sparse.csr_matrix((weights, (linked.row, linked.col)), shape=(count, count))
    return (graph + graph.T).tocsr()


def _in_common(around: CommunityLabels, first: CommunityLabels, second: CommunityLabels) -> CommunityLabels:
    """Count the common neighbours of pairs of nodes: int64 ``(pairs,)``.

    A sparse product of matrices would hold all pairs with a common node: all pairs, if one node is near to all.
    """
    parts = max(1, len(first) * around.shape[1] ** 2 // PAIRS + 1)
    pairs = zip(np.array_split(first, parts), np.array_split(second, parts), strict=True)
    return np.concatenate([(around[a][:, :, None] == around[b][:, None, :]).sum((1, 2)) for a, b in pairs])
