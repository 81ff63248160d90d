"""Movement of AFCL's seeds at the server."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import davies_bouldin_score
from torch import Tensor

from fedkin.clustering.nearest import nearest_centroids

_BESIDE = 1e-3
"""Seeds at most this far from the winner move with it."""
_BETA = 7
"""Exponent: weights of features are their spreads to the power of -1 / 7."""

Points = NDArray[np.float64]


def pull(seeds: Points, means: Points, counts: NDArray[np.int64], rates: Points) -> None:
    """Move `seeds` ``(k, width)``, in place, towards each of `means` ``(g, width)`` in turn.

    The winner of a mean is the nearest seed, where squared distances are multiplied by the seed's number of wins. All
    seeds that are at most as far from the winner as the mean move: by `rates` ``(width,)``, fractions of the distance
    in [0, 1], and as often as `counts` ``(g,)`` say, at once.
    """
    wins = np.ones(len(seeds))
    for mean, count in zip(means, counts, strict=True):
        gaps = mean - seeds
        distances = np.square(gaps).sum(1)
        winner = int(np.argmin(wins * distances))
        wins[winner] += count
        together = np.square(seeds - seeds[winner]).sum(1) <= max(distances[winner], _BESIDE**2)
        seeds[together] += (1 - (1 - rates) ** float(count)) * gaps[together]


def spread_of(means: Tensor, seeds: Tensor) -> float:
    """Return the Davies-Bouldin index of `means` ``(g, width)`` by nearest `seeds` ``(k, width)``; 0 for one."""
    near = nearest_centroids(means, seeds)
    return float(davies_bouldin_score(means, near)) if 1 < len(near.unique()) < len(means) else 0.0


def feature_weights(gaps: Tensor, weights: Tensor) -> Tensor:
    """Return weights of features, with sum 1: larger for features in which samples are closer to their seeds.

    `gaps`, float64 ``(g, width)``, are means minus their nearest seeds, and `weights` ``(width,)`` those so far. The
    new ones are 0 for features in which samples do not differ, and equal if samples differ in none.
    """
    spread = (gaps * weights).abs().sum(0)
    differs = spread > 0
    if not bool(differs.any()):
        return torch.full_like(weights, 1 / len(weights))
    parts = torch.where(differs, spread.clamp_min(1e-300).pow(-1 / _BETA), 0.0)
    return parts / parts.sum()
