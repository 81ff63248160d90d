"""The state of FedCRef's server, and how clusters and models pass from one iteration to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkin.core import Payload, State
from fedkin.methods.samples.fedcref.association import AssociationGraph, LocalCluster
from fedkin.nn.aggregation import Aggregation, Means
from fedkin.nn.stacked_autoencoder import Autoencoder


@dataclass(frozen=True)
class FedCRefState(State):
    """State of the server; dictionaries are keyed by a client's id as text.

    Attributes
    ----------
    widths, output
        Architecture of the autoencoders, decided in `FedCRefMethod.init`.
    models : dict of str to Tensor
        Models of stable clients, ``(local clusters, replicas, size)``.
    samples : dict of str to Tensor
        Sizes of their local clusters, int64 ``(local clusters,)``.
    stable, frozen : list of int
        Clients whose last refinement changed little; those of them that have retrained since and stopped.
    nodes, edges, communities, unmatched, cut
        The last association graph, see `association.AssociationGraph`.
    statistics : Tensor, (nodes, nodes)
        The rule's statistic of the row's samples with the column's model; NaN if not scored.
    community_models : Tensor, (communities, size)
    clusters : dict of str to list of int
        Cluster of each current local cluster of a client.
    cluster_models : Tensor, (clusters, size)
    history : list of [unmatched, communities]
        One entry per iteration, including the start, for the global stopping rule.
    """

    widths: list[int] = field(default_factory=list)
    output: str = "sigmoid"
    models: dict[str, Tensor] = field(default_factory=dict)
    samples: dict[str, Tensor] = field(default_factory=dict)
    stable: list[int] = field(default_factory=list)
    frozen: list[int] = field(default_factory=list)
    nodes: list[LocalCluster] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    communities: list[list[int]] = field(default_factory=list)
    unmatched: list[int] = field(default_factory=list)
    cut: float | None = None
    statistics: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    community_models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    clusters: dict[str, list[int]] = field(default_factory=dict)
    cluster_models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    history: list[list[int]] = field(default_factory=list)

    @property
    def model(self) -> Autoencoder:
        """The autoencoders' architecture."""
        return Autoencoder(tuple(self.widths), self.output)


def reusable_models(state: FedCRefState, graph: AssociationGraph, frozen: list[int]) -> dict[int, int]:
    """Previous numbers of communities with the same members, all frozen: their models are still valid."""
    still_frozen = {i for i in frozen if i in state.frozen}
    before = {str([state.nodes[a] for a in members]): g for g, members in enumerate(state.communities)}
    now = {g: [graph.nodes[a] for a in members] for g, members in enumerate(graph.communities)}
    return {
        g: before[str(members)]
        for g, members in now.items()
        if str(members) in before and all(client in still_frozen for client, _ in members)
    }


def continue_models(models: Tensor, state: FedCRefState, graph: AssociationGraph) -> None:
    """Start every community's model, in place, from the previous cluster of most of its members, if there is one."""
    for cluster, community in enumerate(graph.communities):
        nodes = [graph.nodes[a] for a in community]
        before = [
            state.clusters[str(client)][local_cluster]
            for client, local_cluster in nodes
            if str(client) in state.clusters
        ]
        if before:
            models[cluster] = state.cluster_models[max(sorted(set(before)), key=before.count)]


def average_models(
    models: Tensor,
    members: dict[int, list[tuple[int, int]]],
    replies: dict[int, Payload],
    aggregation: Aggregation = "mean",
) -> None:
    """Sample-weighted mean per community, in place; a community without replies keeps its model.

    Raises
    ------
    DivergedError
        If a model is not finite, or has exploded.
    """
    clusters, size = models.shape
    means, received = Means(clusters, size, aggregation=aggregation), set()
    for client, reply in replies.items():
        for (cluster, _), model, samples in zip(members[client], reply["models"], reply["samples"], strict=True):
            means.add(cluster, model, float(samples), client)
            received.add(cluster)
    averaged = models.clone()
    for cluster in received:
        averaged[cluster] = means.of(cluster)
    means.check(averaged)
    models.copy_(averaged)


def keep_clusters(
    used: list[int], clusters: dict[int, list[int]], models: list[Tensor]
) -> tuple[dict[int, list[int]], Tensor]:
    """The clusters `used` by local clusters, renumbered, and their models."""
    number = {cluster: index for index, cluster in enumerate(used)}
    return {i: [number[cluster] for cluster in own] for i, own in clusters.items()}, torch.stack(
        [models[g] for g in used]
    )
