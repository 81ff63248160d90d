"""A division is real if another tree finds it again when some nodes are left out.

Each tree has its favourite pieces of a single cloud, and finds them again in resamples, where pairs of nearest nodes
stay together. Another tree has other favourites: both agree where there are clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.clustering.graph.community_stability import weighted_rand
from fedkin.clustering.graph.few_nodes import as_found
from fedkin.clustering.graph.trees import Floats, partitions
from fedkin.clustering.micro_clusters import merged_nodes
from fedkin.core.seeds import draw_seed

_NOWHERE = 0.6
"""Agreement below which there is no division. Of log-normal clouds, whose tails the graph divides, it is 0.3 to 0.6;
sets whose clusters the graph finds have 0.7 and more."""
_DRAWS, _KEPT = 5, 0.8
"""Resamples, and fraction of the nodes in each."""
_MOST_NODES, _MOST_CLUSTERS, _NODES_EACH = 1_000, 30, 5
"""Nodes at most, more are merged first; clusters at most, and nodes of each on average at least."""
FEWEST_NODES = 4 * _NODES_EACH
"""Nodes among which agreement means something: two clusters, and as many nodes again."""


def found_again(
    points: Tensor, counts: Tensor, neighbours: int, clusters: Tensor, evidence: dict[str, Any], rng: torch.Generator
) -> tuple[Tensor, dict[str, Any]]:
    """Return `clusters`, or one cluster where trees agree on no division into half as many or more.

    The agreement on a tree's partition into k clusters is the adjusted Rand index over samples with the partition into
    k by the most alike of the other trees without a fifth of the nodes, mean over five resamples. There is one cluster
    if none reaches 0.6.

    `points` are ``(m, d)``, and `counts`, int64 ``(m,)``, the samples of each; `neighbours` is the maximum number of
    nearest nodes that a node is linked to. `clusters`, int64 ``(m,)``, are those found before, and `evidence` that for
    them, see `communities`. `rng` draws the resamples. One cluster has the evidence and "agreement", the greatest.
    """
    if not clusters.any() or len(points) < FEWEST_NODES:
        return clusters, evidence
    nodes = merged_nodes(points, counts, _MOST_NODES, rng)
    x, size = nodes.centroids.double().numpy(), nodes.counts.double().numpy()
    found = _agreements(x, size, neighbours, np.random.default_rng(draw_seed(rng)))
    near = [agreement for number, agreement in found if 2 * number > clusters.max()]
    if not near or max(near) >= _NOWHERE:
        return clusters, evidence
    return as_found(np.zeros(len(points), dtype=np.int64), counts, evidence, agreement=max(near))


def _agreements(x: Floats, size: Floats, neighbours: int, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Return the numbers of clusters of each tree's partitions, with the agreement of other trees on them."""
    most = min(_MOST_CLUSTERS, len(x) // _NODES_EACH)
    trees = partitions(x, size, neighbours, most)
    sums: dict[tuple[int, int], float] = {}
    for _ in range(_DRAWS):
        kept = np.sort(rng.permutation(len(x))[: round(_KEPT * len(x))])
        again = partitions(x[kept], size[kept], neighbours, most)
        for tree, found in enumerate(trees):
            others = [other for i, other in enumerate(again) if i != tree]
            for k, labels in enumerate(found[1:], 1):
                indices = [weighted_rand(labels[kept], other[k], size[kept]) for other in others if k < len(other)]
                sums[tree, k] = sums.get((tree, k), 0.0) + max(indices, default=0.0)
    return [(k + 1, total / _DRAWS) for (_, k), total in sums.items()]
