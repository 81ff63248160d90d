"""Held-out rule of FedCRef: tests whether two local clusters of different clients come from one distribution.

Each local cluster is split into two halves, and one model is trained on each. A sample held out from one half is
reconstructed by its own cluster's model of that half and by a half-model of a foreign cluster, trained on equally many
samples and not on this one. If both clusters come from one distribution, the foreign model is worse for half of the
samples; the more they differ, the closer this *loss rate* is to 1. It needs no scale: sample size, noise and the
difficulty of the data affect both models alike.

Local clusters are then matched by average linkage on the loss rates. Two local clusters of one client never join. The
dendrogram is cut at the widest gap between merge heights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from fedkin.nn.stacked_autoencoder import Autoencoder

MAX_HELD_OUT = 100
"""Maximum number of samples evaluated per local cluster; the standard error of a loss rate is then at most 0.05."""

UNLIKE = 1.0
"""Loss rate of pairs that were not scored."""

_CUTS = 0.6, 0.8
"""Lowest and highest cut that is chosen."""


def split_halves(labels: Tensor, rng: torch.Generator) -> Tensor:
    """Return a random half, 0 or 1, for every sample, balanced within every cluster: int64 ``(n,)``."""
    halves = torch.empty_like(labels)
    for cluster in labels.unique():
        rows = (labels == cluster).nonzero()[:, 0]
        halves[rows[torch.randperm(len(rows), generator=rng)]] = torch.arange(len(rows)) % 2
    return halves


def held_out_errors(model: Autoencoder, pairs: Tensor, x: Tensor, halves: Tensor) -> Tensor:
    """Return errors ``(clusters, n)`` of all clusters' models, by half-models not trained on the sample's half.

    `pairs` ``(clusters, 2, size)`` are each cluster's two half-models, `x` is ``(n, features)``, and `halves` are int64
    ``(n,)``. Samples of half 0 are reconstructed by models of half 1, and vice versa.
    """
    errors = torch.empty(len(pairs), len(x))
    for half in (0, 1):
        rows = (halves == half).nonzero()[:, 0]
        errors[:, rows] = model.errors(pairs[:, 1 - half], x[rows])
    return errors


def held_out_rows(labels: Tensor, halves: Tensor) -> Tensor:
    """Return the rows of at most `MAX_HELD_OUT` samples per cluster, equally many from each half."""
    chosen = [
        ((labels == cluster) & (halves == half)).nonzero()[: MAX_HELD_OUT // 2, 0]
        for cluster in labels.unique()
        for half in (0, 1)
    ]
    return torch.cat(chosen)


def loss_rates(own: Tensor, foreign: Tensor, labels: Tensor, n_clusters: int) -> Tensor:
    """Return the fraction of each own cluster's samples that each foreign model reconstructs worse; ties count half.

    `own` ``(n,)`` is the held-out error of each sample with its own cluster's model, and `foreign` ``(m, n)`` are the
    errors with the foreign models; `labels` are int64 ``(n,)``. The fractions are ``(n_clusters, m)``.
    """
    lost = (foreign > own).float() + 0.5 * (foreign == own).float()
    return torch.stack([lost[:, labels == cluster].mean(dim=1) for cluster in range(n_clusters)])


def match_by_linkage(
    losses: NDArray[np.float64], clients: Sequence[int], cut: float | None = None
) -> tuple[list[list[int]], float]:
    """Match local clusters by average linkage on their mutual loss rates; return the clusters, and the cut.

    ``losses[a, b]`` is the fraction of the samples of local cluster a for which b's model is worse; NaN if not scored.
    `clients` are those of the local clusters. Clusters merge while the average loss rate is below `cut`, by default
    `choose_cut` of the merge heights. Clusters are returned as lists of members, singletons included, largest first.
    """
    count = len(clients)
    if count < 2:
        return [[index] for index in range(count)], UNLIKE if cut is None else cut
    distance = np.nan_to_num((losses + losses.T) / 2, nan=UNLIKE)
    forbidden = np.equal.outer(clients, clients)
    distance[forbidden] = 2.0 * count**2  # one forbidden pair lifts a community's average above all loss rates
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    heights = tree[:, 2]
    if cut is None:
        cut = choose_cut(heights[heights <= 1.0])
    labels = cut_tree(tree, height=[cut])[:, 0]
    clusters = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    return sorted(clusters, key=lambda members: (-len(members), members)), float(cut)


def choose_cut(heights: NDArray[np.float64]) -> float:
    """Return the middle of the widest gap between merge heights within [0.6, 0.8].

    Local clusters of one distribution merge slightly above 0.5 and others near 1, so the correct cut lies between.
    Without heights in the interval the cut is its middle.
    """
    low, high = _CUTS
    inside = heights[(heights > low) & (heights < high)]
    edges = np.concatenate([[low], np.sort(inside), [high]])
    widest = int(np.argmax(np.diff(edges)))
    return float(edges[widest : widest + 2].mean())
