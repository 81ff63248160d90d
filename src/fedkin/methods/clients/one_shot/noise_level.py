"""Noise level of a Ward tree: the height that it would have if clusters had no substructure."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.clustering.ward import Floats, Integers, top_height

_SAMPLE = 500  # clients whose permuted embeddings are clustered, at most
_FEW = 250  # up to so many clients 20 permutations; beyond, heights vary less and 5 are enough
_OWN = 0.8  # added factor of the clients' own variance in the squared noise level
_MARGIN = 1.02  # factor of the noise level, as so few permutations miss the greatest height
_FASTER = 0.03  # added to the exponent of growth, which itself grows with the number of clients


def noise_level(x: Any, labels: Integers, finer: Integers, flips: float | None, draws: np.random.Generator) -> float:
    """Return the greatest height that a Ward tree would have if columns were independent inside clusters.

    It is the greatest height of Ward trees of the same points after every column was permuted inside of each cluster.
    Clients of one cluster also differ in ways that are not independent between columns; that part of their variance,
    all that flips do not cause, is multiplied by 1.8.

    For more than 500 clients the trees are those of a sample of 500, and the level is extrapolated by a power law in
    the number of clients, fitted to the growth of the mean height from a quarter of the sample to all of it.

    `labels` ``(n,)`` in ``0..k-1`` are the clusters of the points ``(n, d)`` found so far. `finer` are those after the
    next split, in which the clients' own variance is measured: before the split, the variance that it explains would
    count as noise. `flips` is the probability of a flip; if None, as for embeddings other than bits, all variance is
    taken to be the clients' own.
    """
    n = len(x)
    rows = draws.permutation(n)[:_SAMPLE] if n > _SAMPLE else np.arange(n)
    inside = _residuals(x[rows], labels[rows])
    times = range(20 if n <= _FEW else 5)
    heights = [_permuted_height(inside, labels[rows], draws) for _ in times]
    level = max(heights)
    if n > _SAMPLE and level > 0:
        few = draws.permutation(rows)[: _SAMPLE // 4]
        less = [_permuted_height(_residuals(x[few], labels[few]), labels[few], draws) for _ in times]
        if min(less) > 0:
            power = np.log(np.mean(heights) / np.mean(less)) / np.log(4)
            level *= (n / _SAMPLE) ** (max(0.0, power) + _FASTER)
    return float(
        _MARGIN * level * np.sqrt(1 + _OWN * _own_fraction(_residuals(x[rows], finer[rows]), finer[rows], flips))
    )


def _own_fraction(inside: Any, labels: Integers, flips: float | None) -> float:
    """Return the fraction of the variance inside clusters, in [0, 1], that flips do not account for."""
    if flips is None:
        return 1.0
    total = float((inside**2).sum() / max(1, len(inside) - len(np.unique(labels))) / inside.shape[1])
    return 1.0 if total == 0 else float(np.clip(1 - flips * (1 - flips) / total, 0, 1))


def _residuals(x: Any, labels: Integers) -> Floats:
    found: Floats = x.astype(np.float64)
    for number in np.unique(labels):
        found[labels == number] -= found[labels == number].mean(0)
    return found


def _permuted_height(inside: Floats, labels: Integers, draws: np.random.Generator) -> float:
    shuffled = inside.astype(np.float32)
    for number in np.unique(labels):
        shuffled[labels == number] = draws.permuted(shuffled[labels == number], axis=0)
    return top_height(shuffled)
