"""Nodes of kin-graph's graph: their clusters, and clusters of samples by a vote of the nearest nodes.

Clusters of the nodes are communities of the graph, or for few nodes those of Ward's method; on a line they are modes of
the density.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedkin.clustering.community_joining import FEW_DIMENSIONS
from fedkin.clustering.few_nodes import FEW_IN_SPACE, FEW_NODES, TOO_FEW_NODES, clusters_of_few, one_of_few
from fedkin.clustering.graph_cut import communities, modularity
from fedkin.clustering.margins import distance_margin
from fedkin.clustering.micro_clusters import smoothed
from fedkin.clustering.modes import clusters_by_modes, on_a_line
from fedkin.clustering.nearest import neighbours_vote
from fedkin.clustering.neighbour_graph import neighbour_graph
from fedkin.core import Client, FedkinError, Payload, client_task
from fedkin.core.replies import Maybe, counts_to, is_count, reals, whole
from fedkin.methods.samples.kingraph.kingraph_space import (
    SPACE,
    KinGraphState,
    client_points,
    forget_features,
    points_of,
)
from fedkin.nn.network_forms import MANY

_VOTERS = 5
_NEAR = 10
"""Nodes of a cluster that a point's distance from it is measured to; nearly all votes are for one cluster."""
_PAIRS, _NEAR_PAIRS = 1 << 24, 1 << 21
"""Maximum number of distances in memory; and where all are looked at again, which pays in the processor's cache."""
_UNCLEAR = 0.8
"""Stability below which a note says that clusters are not clear. Of the same rows at other clients they then agree to
an ARI of 0.6 on the mean of UCI's tables, and to 0.8 from 0.9 on."""
_ZERO_DISTANCE = 1e-30
"""Minimum squared distance in the weights of votes."""


def clustered(
    state: KinGraphState,
    rng: torch.Generator,
    neighbours: int,
    n_clusters: int | None,
    resolution: float | None,
    exact: bool,
) -> tuple[KinGraphState, dict[str, Any]]:
    """Return the finished state with the clusters of its nodes, and values for the record.

    Parameters
    ----------
    state : KinGraphState
        State with nodes; its clusters are ignored.
    rng : torch.Generator
        Random generator of resamples.
    neighbours : int
        Maximum number of nearest nodes that a node is linked to.
    n_clusters, resolution : number or None
        Given, or ``None`` to be found.
    exact : bool
        Whether nodes have their exact positions and samples. Then those on a line are clustered by `clusters_by_modes`,
        and few others, see `FEW_NODES`, by Ward's method, unless a resolution is given.
    """
    graph, points = neighbour_graph(state.centroids, state.counts, neighbours), state.centroids
    if exact and resolution is None and on_a_line(points):
        clusters, evidence = clusters_by_modes(points[:, 0], state.counts, n_clusters, rng)
        evidence["modularity"] = modularity(graph, clusters.numpy())
    else:
        clusters, evidence = communities(graph, points, state.counts, n_clusters, rng, resolution=resolution)
        few = len(clusters) <= (FEW_NODES if points.shape[1] <= FEW_DIMENSIONS else FEW_IN_SPACE)
        if few and resolution is None and exact and not evidence["by_density"]:
            clusters, evidence = clusters_of_few(points, state.counts, n_clusters, clusters, evidence)
    values = {"phase": "graph", "nodes": len(clusters), "edges": int(graph.nnz // 2)}
    values |= {"clusters": int(clusters.max()) + 1, **evidence}
    values |= _remark(values, points.shape[1], n_clusters, resolution)
    if len(state.own):
        clients, nodes, counts = state.own.unbind(1)
        if (numbered := clients.unique(return_inverse=True)[1]).any():  # meaningless for a single client
            values["largest_client_share"] = largest_client_share(clusters[nodes], numbered, counts)
        values["micro_clusters"] = len(state.own)
    return replace(state, finished=True, clusters=clusters, scales=evidence["scales"]), values


def _remark(
    values: Mapping[str, Any], dimensions: int, n_clusters: int | None, resolution: float | None
) -> dict[str, str]:
    """Return a warning or a note on the clusters of a record, if there is anything to say."""
    nodes = values["nodes"]
    if n_clusters is not None:
        return {"warning": more_than_nodes(n_clusters, nodes)} if n_clusters > nodes else {}
    if resolution is not None:
        return {}
    if values["clusters"] == 1:
        return {"warning": one_of_few(nodes)} if nodes < TOO_FEW_NODES else {}
    if values["stability"] >= _UNCLEAR or dimensions <= FEW_DIMENSIONS:
        return {}
    return {
        "note": f"No clusters are clear: those of resamples agree with these to {values['stability']:.2f} only, where "
        "1 is the same, so other samples like these would have others. The scales show coarser and finer ones."
    }


def more_than_nodes(n_clusters: int, nodes: int) -> str:
    """Return the sentence on a number of clusters that exceeds that of the nodes."""
    return f"n_clusters is {n_clusters:,}; here there can be at most {nodes:,}, the number of micro-clusters."


def uncut(state: KinGraphState, n_clusters: int | str) -> KinGraphState:
    """Return the finished state reset to before its last step, to find `n_clusters` of its nodes.

    Raises
    ------
    FedkinError
        If there are fewer nodes.
    """
    if isinstance(n_clusters, int) and n_clusters > len(state.centroids):
        raise FedkinError(more_than_nodes(n_clusters, len(state.centroids)))
    return state.uncut()


def largest_client_share(clusters: Tensor, clients: Tensor, counts: Tensor) -> float:
    """Return the fraction of a cluster's samples that are at the client with most of them, mean over samples.

    Parameters
    ----------
    clusters, clients, counts : Tensor
        int64 ``(m,)``: cluster, client, numbered from 0, and samples of each micro-cluster.

    Returns
    -------
    float
        In (0, 1]: about one over the number of clients if they are alike; 1 if no cluster is at two clients.
    """
    table = torch.zeros(int(clusters.max()) + 1, int(clients.max()) + 1, dtype=torch.int64)
    table.index_put_((clusters, clients), counts, accumulate=True)
    return int(table.max(1).values.sum()) / int(counts.sum())


def cut_nodes(state: KinGraphState) -> Payload:
    """Return a payload with all that a client needs to assign samples to clusters by their nearest nodes."""
    n_clusters = int(state.clusters.max()) + 1 if len(state.clusters) else 0
    nodes = {"centroids": state.centroids, "counts": state.counts, "clusters": state.clusters}
    return {"n_clusters": n_clusters, "space": state.space, **nodes}


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


def votes_of(result: Mapping[str, Any], x: Tensor) -> Votes:
    """Return the nodes nearest to samples ``(n, *shape)``."""
    return nearest_nodes(result["centroids"], points_of(result["space"], x))


def counted(votes: Votes, result: Mapping[str, Any]) -> Tensor:
    """Return the cluster of each point, int64 ``(n,)``.

    Votes for a cluster are inverse squared distances: the nearest node outvotes four others that are more than twice as
    far away, so that a cluster of one node is kept.
    """
    return neighbours_vote(result["clusters"][votes.nodes.long()], 1 / votes.squares, result["n_clusters"])


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
    rows, margins = max(1, _NEAR_PAIRS // len(centroids)), [torch.zeros(0)]
    for part, own in zip(points.split(rows), clusters.split(rows), strict=True):
        squares = torch.cdist(part, centroids).square().split(sizes, dim=1)
        away = torch.stack([_mean_of_nearest(of_cluster) for of_cluster in squares], 1).sqrt()
        margins.append(distance_margin(away, own))
    return torch.cat(margins)


def _mean_of_nearest(squares: Tensor) -> Tensor:
    """Return the mean of each row's ten least numbers, or of all if they are fewer; infinity if there are none."""
    if not squares.shape[1]:
        return torch.full((len(squares),), torch.inf)
    if squares.shape[1] > _NEAR:  # a partition takes half the time of torch's topk
        squares = torch.from_numpy(np.partition(squares.numpy(), _NEAR - 1, axis=1)[:, :_NEAR])
    return squares.mean(1)


def margins_of(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return `node_margins` of samples ``(n, *shape)`` in their clusters."""
    points = points_of(result["space"], x)
    return node_margins(result, points, counted(nearest_nodes(result["centroids"], points), result))


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


def _are_counts(value: Any) -> bool:
    """Whether `value` is a tensor; any counts, also noisy ones, are accepted, as votes do not use them."""
    return isinstance(value, Tensor)


@client_task(
    takes={
        "clusters": Maybe(whole(None)), "confidence": Maybe(reals(None)),
        "smoothing": Maybe(counts_to(MANY, 0)), "rounds": Maybe(counts_to(MANY, 0)),
        "result": Maybe(
            {
                "n_clusters": is_count, "space": SPACE, "centroids": reals("nodes", "components"),
                "clusters": whole("nodes"), "counts": _are_counts,
            }
        ),
    },
    accounted=True,
)  # fmt: skip
def receive_clusters(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the cluster of its micro-cluster, or by a vote of the nodes if the payload has them."""
    if "result" in payload:
        result = payload["result"]
        if result["n_clusters"] > len(result["clusters"]):
            raise FedkinError(f"The result names {result['n_clusters']} clusters of {len(result['clusters'])} nodes.")
        points = client_points(client, result["space"])
        points = smoothed(points, payload["smoothing"], payload["rounds"], client.rng)
        votes = nearest_nodes(result["centroids"], points)
        client.state["clusters"] = counted(votes, result)
        client.state["confidence"] = node_margins(result, points, client.state["clusters"])
        client.state["nearest_nodes"], client.state["squared_distances"] = votes.nodes.int(), votes.squares
    else:
        for name in ("clusters", "confidence"):
            client.state[name] = payload[name][client.state["micro_clusters"]]
    forget_features(client)
    return {}
