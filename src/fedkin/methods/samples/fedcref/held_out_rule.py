"""Held-out kinship: do two clusters of different clients come from one distribution?

The question is put to samples. Each cluster is split into two halves and one model is trained on each. A sample held
out from one half is reconstructed by its own cluster's model of that half and by a foreign cluster's half-model, which
saw as much data and has never seen the sample either. If both clusters come from one distribution the foreign model is
worse exactly half of the time; the more they differ, the nearer this *share of losses* comes to 1. Being a comparison
of like with like it needs no scale: sample size, noise and the difficulty of the data enter both sides alike.

Clusters are then clustered by average linkage on the shares. Two clusters of one client never join, since a client would not
have split them. The dendrogram is cut where the merge heights themselves leave the widest gap.
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

JUDGES = 100
"""Samples per cluster that are asked; the standard error of a share is then 0.05 at most."""

UNLIKE = 1.0
"""Share of losses between clusters about which there is no evidence."""


def split_halves(labels: Tensor, rng: torch.Generator) -> Tensor:
    """A random half, 0 or 1, for every sample: as even as possible within every cluster. int64 ``(n,)``."""
    halves = torch.empty_like(labels)
    for cluster in labels.unique():
        rows = (labels == cluster).nonzero()[:, 0]
        halves[rows[torch.randperm(len(rows), generator=rng)]] = torch.arange(len(rows)) % 2
    return halves


def held_out_errors(model: Autoencoder, pairs: Tensor, x: Tensor, halves: Tensor) -> Tensor:
    """Error of every cluster's model on every sample, always by the half-model that did not see the sample's half.

    Parameters
    ----------
    pairs : Tensor, (clusters, 2, size)
        Each cluster's two half-models.
    x : Tensor, (n, features)
    halves : Tensor, (n,) int64
        Samples of half 0 are judged by the models of half 1, and the other way round.

    Returns
    -------
    Tensor, (clusters, n)
    """
    errors = torch.empty(len(pairs), len(x))
    for half in (0, 1):
        rows = (halves == half).nonzero()[:, 0]
        errors[:, rows] = model.errors(pairs[:, 1 - half], x[rows])
    return errors


def judges(labels: Tensor, halves: Tensor, count: int = JUDGES) -> Tensor:
    """Rows of up to `count` samples of every cluster, half of them from each half."""
    chosen = [
        ((labels == cluster) & (halves == half)).nonzero()[: count // 2, 0]
        for cluster in labels.unique()
        for half in (0, 1)
    ]
    return torch.cat(chosen)


def loss_shares(own: Tensor, foreign: Tensor, labels: Tensor, n_clusters: int) -> Tensor:
    """Share of each own cluster's samples that each foreign cluster's model reconstructs worse; ties count half.

    Parameters
    ----------
    own : Tensor, (n,)
        Held-out error of each sample under its own cluster's model.
    foreign : Tensor, (m, n)
        Error under each foreign cluster's model.
    labels : Tensor, (n,) int64

    Returns
    -------
    Tensor, (n_clusters, m) in [0, 1]
    """
    lost = (foreign > own).float() + 0.5 * (foreign == own).float()
    return torch.stack([lost[:, labels == cluster].mean(dim=1) for cluster in range(n_clusters)])


def match_by_linkage(
    shares: NDArray[np.float64], clients: Sequence[int], cut: float | None = None
) -> tuple[list[list[int]], float]:
    """Cluster clusters by average linkage on their mutual shares of losses.

    Parameters
    ----------
    shares : array, (m, m)
        ``shares[a, b]``: how often samples of cluster a lose with b's model. NaN where nobody could be asked.
    clients : sequence of m ints
        The client of each cluster.
    cut : float, optional
        Join while the average share is below this; by default `choose_cut` of the merge heights.

    Returns
    -------
    clusters : list of lists of int
        Members of every cluster, singletons included, largest first.
    cut : float
    """
    count = len(clients)
    if count < 2:
        return [[index] for index in range(count)], UNLIKE if cut is None else cut
    distance = np.nan_to_num((shares + shares.T) / 2, nan=UNLIKE)
    forbidden = np.equal.outer(clients, clients)
    distance[forbidden] = 2.0 * count**2  # one forbidden pair lifts a whole cluster's average over every real share
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    heights = tree[:, 2]
    if cut is None:
        cut = choose_cut(heights[heights <= 1.0])
    labels = cut_tree(tree, height=[cut])[:, 0]
    clusters = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    return sorted(clusters, key=lambda members: (-len(members), members)), float(cut)


def choose_cut(heights: NDArray[np.float64], low: float = 0.6, high: float = 0.8) -> float:
    """The middle of the widest gap between merge heights, as far as it lies in [low, high].

    Kin merge a little above 0.5 and strangers towards 1, so the right cut lies between; where the heights leave no
    gap there, or there are none, the middle of the interval is as good as any.
    """
    inside = heights[(heights > low) & (heights < high)]
    edges = np.concatenate([[low], np.sort(inside), [high]])
    widest = int(np.argmax(np.diff(edges)))
    return float(edges[widest : widest + 2].mean())
