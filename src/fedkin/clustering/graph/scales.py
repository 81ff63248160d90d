"""Scales of kin-graph: divisions of its nodes, coarse ones first, as a hierarchy.

Data can have clusters of clusters. The choice among them is a judgement, so that all are kept for the user to see.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedkin.clustering.graph.links import Floats, Labels, renumber


def scales_of(
    divisions: Iterable[tuple[Labels, float | None]], size: Floats, chosen: tuple[Labels, float | None]
) -> list[dict[str, Any]]:
    """List the distinct divisions, from the fewest clusters to the most, with stability and parents of clusters.

    `divisions`, and the one `chosen`, are labels, int64 ``(m,)`` from 0, and their stability, where it is known.
    `size`, float64 ``(m,)``, is the number of samples in each node.

    Returns
    -------
    list of dict
        ``n_clusters``; ``stability``, ``None`` where it is not known; ``samples`` of each cluster, most first;
        ``parents``, for each cluster the one of the entry before that has most of its samples, and empty in the first
        entry; whether it is the one ``chosen``; and the ``labels`` of the nodes.
    """
    # The same labels but for names are one division; the one chosen is last, and its stability counts.
    distinct = {renumber(labels).tobytes(): (labels, stability) for labels, stability in [*divisions, chosen]}
    listed: list[dict[str, Any]] = []
    for labels, stability in sorted(distinct.values(), key=lambda division: int(division[0].max())):
        labels = largest_first(labels, size)
        parents = []
        if listed:
            table = np.zeros((int(labels.max()) + 1, listed[-1]["n_clusters"]))
            np.add.at(table, (labels, listed[-1]["labels"]), size)
            parents = table.argmax(1).tolist()  # ties: the largest
        listed.append(
            {
                "n_clusters": int(labels.max()) + 1,
                "stability": stability,
                "samples": np.bincount(labels, weights=size).astype(np.int64).tolist(),
                "parents": parents,
                "chosen": np.array_equal(renumber(labels), renumber(chosen[0])),
                "labels": labels,
            }
        )
    return listed


def largest_first(labels: Labels, size: Floats) -> Labels:
    """Renumber clusters by their number of samples, largest first."""
    rank: Labels = np.argsort(np.argsort(-np.bincount(labels, weights=size), kind="stable"), kind="stable")
    return np.asarray(rank[labels])
