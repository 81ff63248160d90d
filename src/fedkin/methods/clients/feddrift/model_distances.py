"""Distances between FedDrift's models, by their errors on each other's clients, and the models to merge."""

from __future__ import annotations

import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor


def errors_between(judged: Tensor, weights: Tensor, members: Tensor) -> Tensor:
    """Return the mean error of every model on every model's clients.

    Parameters
    ----------
    judged : Tensor, (m, K) float64
        Error of every model at each client.
    weights : Tensor, (m,) float64
        Numbers of samples.
    members : Tensor, (m, K) bool

    Returns
    -------
    Tensor, (K, K) float64
        Row: the model; column: the model whose clients it is evaluated on. 0 for models without clients.
    """
    shares = members.double() * weights[:, None]
    return judged.T @ shares / shares.sum(0).clamp_min(1e-12)


def distances_of(between: Tensor) -> Tensor:
    """Return how much worse models are on each other's clients than on their own: ``(K, K)``, symmetric, at least 0."""
    worse = between - between.diagonal()[:, None]
    return torch.maximum(worse, worse.T).clamp_min(0).fill_diagonal_(0)


def merges(distances: Tensor, threshold: float) -> list[list[int]]:
    """Return groups of models to merge: complete linkage of `distances` ``(K, K)``, K above 1, cut at `threshold`."""
    tree = linkage(squareform(distances.numpy(), checks=False), "complete")
    parts: dict[int, list[int]] = {}
    for at, part in enumerate(fcluster(tree, threshold, criterion="distance").tolist()):
        parts.setdefault(part, []).append(at)
    return sorted(parts.values())
