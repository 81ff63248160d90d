"""Clusters of the graph's nodes: its communities, or for few nodes those of Ward's method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.community_joining import FEW_DIMENSIONS
from fedkin.clustering.few_nodes import FEW_IN_SPACE, FEW_NODES, TOO_FEW_NODES, clusters_of_few, one_of_few
from fedkin.clustering.graph_cut import communities
from fedkin.clustering.neighbour_graph import neighbour_graph
from fedkin.methods.samples.kingraph.kingraph_space import KinGraphState


def clustered(
    state: KinGraphState,
    rng: torch.Generator,
    neighbours: int,
    n_clusters: int | None,
    resolution: float | None,
    by_ward: bool,
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
    by_ward : bool
        Whether few nodes, see `FEW_NODES`, are clustered by Ward's method instead, unless a resolution is given.
    """
    graph = neighbour_graph(state.centroids, state.counts, neighbours)
    points, flat = state.centroids, state.centroids.shape[1] <= FEW_DIMENSIONS
    clusters, evidence = communities(graph, state.counts, n_clusters, rng, points=points, resolution=resolution)
    few = len(clusters) <= (FEW_NODES if flat else FEW_IN_SPACE)
    if few and resolution is None and by_ward and not evidence["by_density"]:
        clusters, evidence = clusters_of_few(state.centroids, state.counts, n_clusters, clusters, evidence)
    values = {"phase": "graph", "nodes": len(clusters), "edges": int(graph.nnz // 2)}
    values |= {"clusters": int(clusters.max()) + 1, **evidence}
    if n_clusters is None and resolution is None and values["clusters"] == 1 and len(clusters) < TOO_FEW_NODES:
        values["warning"] = one_of_few(len(clusters))
    if len(state.own):
        clients, nodes, counts = state.own.unbind(1)
        if (numbered := clients.unique(return_inverse=True)[1]).any():  # meaningless for a single client
            values["largest_client_share"] = largest_client_share(clusters[nodes], numbered, counts)
        values["micro_clusters"] = len(state.own)
    return replace(state, finished=True, clusters=clusters, scales=evidence["scales"]), values


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
