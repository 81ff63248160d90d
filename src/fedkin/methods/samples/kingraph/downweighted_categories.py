"""A second space in which the discrete columns of a table count by how little other columns explain of them.

Neighbours mostly have the same categories, so that whitening by their differences takes categories for directions in
which clusters differ, and one category beside two numbers outweighs these. In the second space a category varies
between neighbours at least as much as a linear regression on all other columns leaves of it. That is right where
numbers show clusters, and wrong where categories alone do. So clusters are found in both spaces, and those of the
second are taken if resamples hardly change them and they are better separated there than those of the first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.graph.few_nodes import silhouette
from fedkin.clustering.whitening import whitened

_STABLE = 0.95
"""Minimum stability of clusters in the second space. On R's tables whose classes are categories it is at most 0.82."""


def downweighting_matrix(scatter: Tensor, unexplained: Tensor, samples: int, power: float, ties: bool) -> Tensor:
    """Return the matrix that takes points to the second space: float32 ``(d, d)``, empty if both are the same.

    The `scatter` between neighbours and `unexplained`, what other columns leave of discrete ones, are float64
    ``(d, d)``; the other arguments are those of `whitened`.
    """
    missing, axes = torch.linalg.eigh(unexplained - scatter)
    if not (missing > 0).any():
        return torch.zeros(0, 0)
    raised = scatter + (axes * missing.clamp_min(0)) @ axes.T
    same = torch.eye(len(scatter))
    first, second = (whitened(same, each, samples, power, ties).double() for each in (scatter, raised))
    matrix: Tensor = torch.linalg.solve(first, second)
    return matrix.float()


def are_better_separated(points: Tensor, clusters: Tensor, others: Tensor, evidence: dict[str, Any]) -> bool:
    """Return whether clusters of the second space are taken.

    `points`, float32 ``(m, d)``, are in the second space, `clusters` those found there with their `evidence`, see
    `communities`, and `others` those of the first space, both int64 ``(m,)``.
    """
    stability = evidence.get("stability")
    if stability is None:  # of the graph at its resolution, where other clusters were taken
        stability = evidence["stabilities"][evidence["resolutions"].index(evidence["resolution"])]
    if stability < _STABLE or not clusters.any():
        return False
    return silhouette(points.numpy(), clusters.numpy()) > silhouette(points.numpy(), others.numpy())
