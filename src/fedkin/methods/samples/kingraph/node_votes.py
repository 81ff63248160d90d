"""Clusters of samples by a vote of the graph's nearest nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedkin.clustering.nearest import neighbours_vote
from fedkin.core import Client

_VOTERS = 5
_PAIRS = 1 << 24
"""Maximum number of distances in memory."""
_ZERO_DISTANCE = 1e-30
"""Minimum squared distance in the weights of votes."""


class Votes(NamedTuple):
    """Nodes nearest to points: their positions, int64 ``(n, 5)``, and squared distances, float32 ``(n, 5)``."""

    nodes: Tensor
    squares: Tensor


def nearest_nodes(centroids: Tensor, points: Tensor) -> Votes:
    """Return the five nodes nearest to each point, or all nodes if there are fewer."""
    voters = min(_VOTERS, len(centroids))
    nodes, squares = [torch.zeros(0, voters, dtype=torch.int64)], [torch.zeros(0, voters)]
    for part in points.split(max(1, _PAIRS // len(centroids))):
        distances, nearest = torch.cdist(part, centroids).topk(voters, largest=False)
        nodes.append(nearest)
        squares.append(distances.square().clamp_min(_ZERO_DISTANCE))
    return Votes(torch.cat(nodes), torch.cat(squares))


def counted(votes: Votes, result: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return the cluster of each point, int64 ``(n,)``, and its fraction of the votes, float32 ``(n,)`` in [0, 1].

    Votes for the cluster are inverse squared distances: the nearest node outvotes four others that are more than twice
    as far away, so that a cluster of one node is kept. For the fraction, the mean squared distance is added to each, so
    that a node very close to a point does not get all votes: it counts at most twice as much as a node at mean
    distance.
    """
    clusters = result["clusters"][votes.nodes]
    found = neighbours_vote(clusters, 1 / votes.squares, result["n_clusters"])
    even = 1 / (votes.squares + votes.squares.mean(1, keepdim=True))
    own = clusters == found[:, None]
    return found, ((even * own).sum(1) / even.sum(1)).clamp(0, 1).float()


def counted_shares(votes: Votes, result: Mapping[str, Any]) -> Tensor:
    """Return the fraction of votes for each cluster, float32 ``(n, n_clusters)``, weighted as in `counted`."""
    shares = torch.zeros(len(votes.nodes), result["n_clusters"])
    even = 1 / (votes.squares + votes.squares.mean(1, keepdim=True))
    shares.scatter_add_(1, result["clusters"][votes.nodes.long()], even / even.sum(1, keepdim=True))
    return shares / shares.sum(1, keepdim=True)


def shares_of(result: Mapping[str, Any], points: Tensor) -> Tensor:
    """Return fractions of the votes of each point's nearest nodes, by cluster: float32 ``(n, n_clusters)``."""
    return counted_shares(nearest_nodes(result["centroids"], points), result)


def kept_shares(result: Mapping[str, Any], client: Client) -> Tensor | None:
    """Return `shares_of` a client's samples by the nodes in its state; ``None`` if it has not received the nodes."""
    memory = memory_of(client)
    return None if memory is None else counted_shares(memory, result)


def memory_of(client: Client) -> Votes | None:
    """Return the nearest nodes of a client's samples from its state; ``None`` if it has not received the nodes."""
    if "nearest_nodes" not in client.state:
        return None
    return Votes(client.state["nearest_nodes"], client.state["squared_distances"])


def nodes_of_samples(client: Client, own: Tensor) -> Votes:
    """Return the nodes that decide the clusters of a client's samples, from its state after the last step.

    Parameters
    ----------
    client : Client
    own : Tensor
        int64 ``(p, 3)``, client, node and samples of clients' own micro-clusters.

    Returns
    -------
    Votes
        ``(n, 5)``; ``(n, 1)``, the node of each sample's micro-cluster and no distance, if the client did not receive
        the nodes.
    """
    if (memory := memory_of(client)) is not None:
        return memory
    nodes = own[own[:, 0] == client.id, 1][client.state["micro_clusters"]]
    return Votes(nodes[:, None].int(), torch.ones(len(nodes), 1))


def clusters_again(votes: Votes, result: Mapping[str, Any]) -> Tensor:
    """Return the cluster of each sample, int64 ``(n,)``, by the nodes that `nodes_of_samples` returned."""
    return counted(Votes(votes.nodes.long(), votes.squares), result)[0]


def vote(result: Mapping[str, Any], points: Tensor) -> Tensor:
    """Return the cluster of each point by a vote of its nearest nodes, int64 ``(n,)``; see `counted`."""
    return counted(nearest_nodes(result["centroids"], points), result)[0]


def vote_share(result: Mapping[str, Any], points: Tensor) -> Tensor:
    """Return the fraction of votes for each point's cluster, float32 ``(n,)``; see `counted`."""
    return counted(nearest_nodes(result["centroids"], points), result)[1]
