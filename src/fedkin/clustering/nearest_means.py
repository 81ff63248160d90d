"""Assignment of points to nearest means, and k-means with a minimum cluster size; on numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.clustering.ward import Floats, Integers

_REFINEMENTS = 50


def _means(x: Any, labels: Integers) -> Floats:
    clusters = int(labels.max()) + 1
    return np.stack([x[labels == number].mean(0, dtype=np.float64) for number in range(clusters)])


def _nearest(x: Any, means: Floats) -> Integers:
    """Return the cluster with the nearest mean; ties: the lowest."""
    return np.asarray(((means**2).sum(1) - 2 * (x @ means.T)).argmin(1), dtype=np.int64)


def joined(x: Any, labels: Integers) -> Integers:
    """Renumber `labels` to 0..k-1, and assign points of no cluster (-1) to the nearest mean."""
    known = labels >= 0
    found = np.full(len(labels), -1, dtype=np.int64)
    found[known] = np.unique(labels[known], return_inverse=True)[1]
    if not known.all():
        found[~known] = _nearest(x[~known], _means(x[known], found[known]))
    return found


def refined(x: Any, labels: Integers, min_size: int) -> Integers:
    """Run k-means from `labels`, as long as no cluster falls below `min_size`."""
    for _ in range(_REFINEMENTS):
        moved = _nearest(x, _means(x, labels))
        if (moved == labels).all() or np.bincount(moved, minlength=int(labels.max()) + 1).min() < max(1, min_size):
            break
        labels = moved
    return labels
