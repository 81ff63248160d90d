"""How stable clusters of nodes are when some nodes are left out, other than communities, see `community_stability`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from fedkin.clustering.metrics import adjusted_rand

Labels = NDArray[np.int64]

STABLE = 0.85
"""Minimum stability of clusters. Pieces of a ring or of a square have less."""

_RESAMPLES, _KEPT, _CAUTION = 20, 0.8, 0.5
"""Resamples, fraction of the nodes in each, and standard deviations subtracted from the mean, as for communities."""


def stability_without_some(labels: Labels, orders: Iterable[Labels], again: Callable[[Labels], Labels]) -> float:
    """Return the mean adjusted Rand index over nodes, less half its standard deviation, to clusters of resamples.

    A resample has the first four fifths of the nodes ``(m,)`` in each of the first twenty `orders`, in ascending
    order; `again` returns the clusters of these nodes. Over samples, as for communities, pieces of clusters would be
    stable, too, since the samples of a node stay together.
    """
    indices = []
    for _, order in zip(range(_RESAMPLES), orders, strict=False):
        kept = np.sort(order[: round(_KEPT * len(labels))])
        indices.append(adjusted_rand(labels[kept], again(kept)))
    return float(np.mean(indices) - _CAUTION * np.std(indices))
