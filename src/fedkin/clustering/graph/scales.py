"""Scales of kin-graph: the partitions of its nodes that were looked at, coarse ones first, as a hierarchy.

Data can have clusters of clusters. The choice among them is a judgement, so that all are kept for the user to see.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.clustering.graph.communities import Floats, Labels, renumber

MAX_CLUSTERS = 100
"""Maximum number of clusters of a scale: a page of the report shows no more."""


def scales_of(
    partitions: Iterable[tuple[float, Labels, float]], size: Floats, chosen: Labels, stability: float | None = None
) -> list[dict[str, Any]]:
    """List the distinct partitions, from the fewest clusters to the most, with stability and parents of clusters.

    `partitions` are (resolution, labels, stability) in order of resolution, labels int64 ``(m,)``, from 0. `size`,
    float64 ``(m,)``, is the number of samples in each node; `chosen`, int64 ``(m,)``, is the partition of the result,
    which is listed in any case, and `stability` that of the result, where it is known.

    Returns
    -------
    list of dict
        ``n_clusters``; ``resolutions``, the lowest and highest that give the partition, ``None`` where it is the result
        and none gives it; their mean ``stability``, or that of the result, ``None`` where it is not known; ``samples``
        of each cluster, most first; ``parents``, for each cluster the one of the entry before that has most of its
        samples, and empty in the first entry; whether it is the one ``chosen``; and the ``labels`` of the nodes.
        Apart from the one chosen, none has more than 100 clusters.
    """
    scales: dict[bytes, tuple[Labels, list[float], list[float]]] = {}
    for resolution, labels, stable in partitions:
        if labels.max() < MAX_CLUSTERS:
            key = renumber(labels).tobytes()  # the same for partitions that differ in the names of clusters only
            _, resolutions, values = scales.setdefault(key, (largest_first(labels, size), [], []))
            resolutions.append(resolution)
            values.append(stable)
    result = renumber(chosen).tobytes()
    scales.setdefault(result, (largest_first(chosen, size), [], []))
    if stability is not None:
        scales[result][2][:] = [stability]
    listed: list[dict[str, Any]] = []
    coarser: NDArray[np.int64] | None = None
    for key, (labels, resolutions, values) in sorted(
        scales.items(), key=lambda scale: (int(scale[1][0].max()), scale[1][1] or [0.0])
    ):
        parents = np.zeros((int(labels.max()) + 1, 1 if coarser is None else int(coarser.max()) + 1))
        if coarser is not None:
            np.add.at(parents, (labels, coarser), size)
        listed.append(
            {
                "n_clusters": int(labels.max()) + 1,
                "resolutions": [min(resolutions), max(resolutions)] if resolutions else None,
                "stability": sum(values) / len(values) if values else None,
                "samples": np.bincount(labels, weights=size).astype(np.int64).tolist(),
                "parents": [] if coarser is None else parents.argmax(1).tolist(),  # ties: the largest
                "chosen": key == result,
                "labels": labels,
            }
        )
        coarser = labels
    return listed


def largest_first(labels: Labels, size: Floats) -> Labels:
    """Renumber clusters by their number of samples, largest first."""
    rank: Labels = np.argsort(np.argsort(-np.bincount(labels, weights=size), kind="stable"), kind="stable")
    return np.asarray(rank[labels])
