"""Clusters of the nodes of kin-graph's graph, by the method that suits their number and dimensions.

They are communities of the graph; for few nodes those of Ward's method; compact where discrete columns give some
dimensions; on a line the modes of the density; and in a plane or a space, where the graph shows one cluster, those that
valleys of the density divide. Several trees must agree that there are clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from fedkin.clustering.graph.communities import FEW_DIMENSIONS, neighbour_graph
from fedkin.clustering.graph.compact_clusters import compact_clusters
from fedkin.clustering.graph.density import clusters_by_modes, clusters_by_valleys, on_a_line
from fedkin.clustering.graph.found_again import found_again
from fedkin.clustering.graph.graph_cut import communities, modularity
from fedkin.clustering.graph.ward import FEW_IN_SPACE, FEW_NODES, TOO_FEW_NODES, clusters_of_few, one_of_few

Discrete = Literal["none", "some", "all"]

_UNCLEAR = 0.8
"""Stability below which a note says that clusters are not clear. Of the same rows at other clients they then agree to
an ARI of 0.6 on the mean of UCI's tables, and to 0.8 from 0.9 on."""


def node_clusters(
    points: Tensor,
    counts: Tensor,
    neighbours: int,
    n_clusters: int | None,
    resolution: float | None,
    rng: torch.Generator,
    exact: bool,
    discrete: Discrete = "none",
) -> tuple[Tensor, dict[str, Any]]:
    """Return the cluster of each node, int64 ``(m,)``, and values for the record.

    Parameters
    ----------
    points, counts : Tensor
        float32 ``(m, d)`` and int64 ``(m,)``, positions and samples of the nodes.
    neighbours : int
        Maximum number of nearest nodes that a node is linked to.
    n_clusters, resolution : number or None
        Given, or ``None`` to be found.
    rng : torch.Generator
        Random generator of resamples.
    exact : bool
        Whether positions and samples are exact. Then nodes on a line are clustered by `clusters_by_modes`, and few
        others, see `FEW_NODES`, by Ward's method, unless a resolution is given.
    discrete : {"none", "some", "all"}
        Whether directions are made of the discrete columns of a table. Clusters may then be compact, see
        `compact_clusters`; on a line of discrete columns alone there are at most two.
    """
    graph = neighbour_graph(points, counts, neighbours)
    by_graph = resolution is not None or not exact
    if not by_graph and on_a_line(points):
        clusters, evidence = clusters_by_modes(points[:, 0], counts, n_clusters, rng)
        if n_clusters is None and discrete == "all" and clusters.max() > 1:
            clusters, evidence = clusters_by_modes(points[:, 0], counts, 2, rng)
        evidence["modularity"] = modularity(graph, clusters.numpy())
    else:
        clusters, evidence = communities(graph, points, counts, n_clusters, rng, resolution=resolution)
        flat = points.shape[1] <= FEW_DIMENSIONS
        if not by_graph:
            few = len(clusters) <= (FEW_NODES if flat else FEW_IN_SPACE)
            compact = not few and discrete != "none"
            if (few or n_clusters is not None) and not evidence["by_density"] and not (compact and flat):
                clusters, evidence = clusters_of_few(points, counts, n_clusters, clusters, evidence)
            if compact and "linkage" not in evidence:
                every = discrete == "all"
                clusters, evidence = compact_clusters(points, counts, n_clusters, every, clusters, evidence, rng)
            if n_clusters is None and discrete == "none":
                if flat and not few and not clusters.any():
                    clusters, evidence = clusters_by_valleys(points, counts, clusters, evidence, rng)
                else:
                    clusters, evidence = found_again(points, counts, neighbours, clusters, evidence, rng)
    values = {"nodes": len(clusters), "edges": int(graph.nnz // 2), "clusters": int(clusters.max()) + 1, **evidence}
    return clusters, values | _remark(values, points.shape[1], n_clusters, resolution)


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
    if values.get("stability", 1.0) >= _UNCLEAR or dimensions <= FEW_DIMENSIONS:
        return {}
    return {
        "note": f"No clusters are clear: those of resamples agree with these to {values['stability']:.2f} only, where "
        "1 is the same, so other samples like these would have others. The scales show coarser and finer ones."
    }


def more_than_nodes(n_clusters: int, nodes: int) -> str:
    """Return the sentence on a number of clusters that exceeds that of the nodes."""
    return f"n_clusters is {n_clusters:,}; here there can be at most {nodes:,}, the number of micro-clusters."


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
