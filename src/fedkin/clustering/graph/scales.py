"""Scales of kin-graph: the partitions of its graph at all resolutions, coarse ones first, as a hierarchy.

Data can have clusters of clusters. The choice among them is a judgement, so that all are kept for the user to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.clustering.graph.communities import CommunityLabels, renamed

MAX_CLUSTERS = 100
"""Maximum number of clusters of a scale; scales with more are left out."""


def scales_of(
    partitions: Iterable[tuple[float, CommunityLabels, float]],
    size: NDArray[np.float64],
    chosen: CommunityLabels,
    stability: float | None = None,
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
        samples, and empty in the first entry; and whether it is the one ``chosen``. Apart from that one, none has more
        than 100 clusters.
    """
    found: dict[bytes, tuple[CommunityLabels, list[float], list[float]]] = {}
    for resolution, labels, stable in partitions:
        if labels.max() < MAX_CLUSTERS:
            key = renamed(labels).tobytes()  # the same for partitions that differ in the names of clusters only
            _, resolutions, stabilities = found.setdefault(key, (largest_first(labels, size), [], []))
            resolutions.append(resolution)
            stabilities.append(stable)
    result = renamed(chosen).tobytes()
    shown = found.setdefault(result, (largest_first(chosen, size), [], []))
    if stability is not None:
        shown[2][:] = [stability]
    ordered = sorted(found, key=lambda key: (int(found[key][0].max()), found[key][1] or [0.0]))
    scales: list[dict[str, Any]] = []
    coarser: CommunityLabels | None = None
    for key in ordered:
        labels, resolutions, stabilities = found[key]
        scales.append(
            {
                "n_clusters": int(labels.max()) + 1,
                "resolutions": [min(resolutions), max(resolutions)] if resolutions else None,
                "stability": sum(stabilities) / len(stabilities) if stabilities else None,
                "samples": np.bincount(labels, weights=size).astype(np.int64).tolist(),
                "parents": [] if coarser is None else _parents(labels, coarser, size),
                "chosen": key == result,
            }
        )
        coarser = labels
    return scales


def chosen_stability(scales: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the "stability" of the scale that is chosen, as a record has it: the same number, or none."""
    stability = next(scale["stability"] for scale in scales if scale["chosen"])
    return {} if stability is None else {"stability": stability}


def largest_first(labels: CommunityLabels, size: NDArray[np.float64]) -> CommunityLabels:
    """Renumber clusters by their number of samples, largest first."""
    rank = np.argsort(np.argsort(-np.bincount(labels, weights=size), kind="stable"), kind="stable")
    named: CommunityLabels = rank[labels]
    return named


def _parents(fine: CommunityLabels, coarse: CommunityLabels, size: NDArray[np.float64]) -> Sequence[int]:
    """Return, for each cluster of `fine`, the cluster of `coarse` with most of its samples; ties: the largest."""
    table = np.zeros((int(fine.max()) + 1, int(coarse.max()) + 1))
    np.add.at(table, (fine, coarse), size)
    parents: list[int] = table.argmax(1).tolist()
    return parents
