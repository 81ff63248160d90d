"""Clusters of points by a vote of the nearest nodes, whose clusters are known, and how clear they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedkin.clustering.k_means import distance_margin

_NEAR = 10
"""Nodes of a cluster that a point's distance from it is measured to; nearly all votes are for one cluster."""
_PAIRS = 1 << 18
"""Distances in memory at once: a megabyte, which the processor's cache holds, takes half the time of 64."""


class Votes(NamedTuple):
    """Nodes nearest to points: their positions, int64 ``(n, 5)``, and squared distances, float32 ``(n, 5)``."""

    nodes: Tensor
    squares: Tensor


def nearest_nodes(centroids: Tensor, points: Tensor) -> Votes:
    """Return the five nodes nearest to each point, or all nodes if there are fewer."""
    voters = min(5, len(centroids))
    nodes, squares = [torch.zeros(0, voters, dtype=torch.int64)], [torch.zeros(0, voters)]
    for part in points.split(max(1, _PAIRS // len(centroids))):
        distances, nearest = torch.cdist(part, centroids).topk(voters, largest=False)
        nodes.append(nearest)
        squares.append(distances.square().clamp_min(1e-30))  # votes are its inverse
    return Votes(torch.cat(nodes), torch.cat(squares))


def counted(votes: Votes, result: Mapping[str, Any]) -> Tensor:
    """Return the cluster of each point, int64 ``(n,)``.

    Votes for a cluster are inverse squared distances: the nearest node outvotes four others that are more than twice as
    far away. Where the cluster of the nearest node has too few nodes for a majority, as many others vote less: none
    beside the only node of a cluster, two beside the nearest of two. In many dimensions a point is hardly nearer to the
    mean of its own five samples than to others, which would leave such a cluster without a sample.
    """
    clusters = result["clusters"][votes.nodes.long()]
    sizes = result["clusters"].bincount(minlength=result["n_clusters"])
    heard = torch.arange(clusters.shape[1]) < 2 * sizes[clusters[:, :1]] - 1
    shares = torch.zeros(len(clusters), result["n_clusters"])
    return shares.scatter_add_(1, clusters, heard / votes.squares).argmax(1)  # of a tie the lowest


def counted_shares(votes: Votes, result: Mapping[str, Any]) -> Tensor:
    """Return the fraction of votes for each cluster, float32 ``(n, n_clusters)``.

    The mean squared distance is added to each, so that a node very close to a point does not get all votes: it counts
    at most twice as much as a node at mean distance.
    """
    shares = torch.zeros(len(votes.nodes), result["n_clusters"])
    even = 1 / (votes.squares + votes.squares.mean(1, keepdim=True))
    shares.scatter_add_(1, result["clusters"][votes.nodes.long()], even / even.sum(1, keepdim=True))
    return shares / shares.sum(1, keepdim=True)


def node_margins(result: Mapping[str, Any], points: Tensor, clusters: Tensor) -> Tensor:
    """Return how much nearer points are to nodes of their `clusters` than to those of the next, float32 ``(n,)``.

    It is 1 less the ratio of two root mean square distances, to the ten nearest nodes of the own cluster and to those
    of the nearest other one; 0 if the other is nearer. Of smaller clusters all nodes count.
    """
    centroids = result["centroids"][result["clusters"].argsort(stable=True)]  # each cluster's side by side
    sizes = result["clusters"].bincount(minlength=result["n_clusters"]).tolist()
    rows, margins = max(1, _PAIRS // len(centroids)), [torch.zeros(0)]
    for part, own in zip(points.split(rows), clusters.split(rows), strict=True):
        distances = torch.cdist(part, centroids).split(sizes, dim=1)
        away = torch.stack([_mean_of_nearest(of_cluster) for of_cluster in distances], 1).sqrt()
        margins.append(distance_margin(away, own))
    return torch.cat(margins)


def _mean_of_nearest(distances: Tensor) -> Tensor:
    """Return the mean square of each row's ten least numbers, or of all if they are fewer; infinity of none."""
    if not distances.shape[1]:
        return torch.full((len(distances),), torch.inf)
    if distances.shape[1] > _NEAR:  # a partition takes half the time of torch's topk
        distances = torch.from_numpy(np.partition(distances.numpy(), _NEAR - 1, axis=1)[:, :_NEAR])
    return distances.square().mean(1)
