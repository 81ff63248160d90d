"""What FedCRef's server knows, and how clusters and their models pass from one iteration to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkin.core import Payload, State
from fedkin.methods.samples.fedcref.association import AssociationGraph, LocalCluster
from fedkin.nn.aggregation import weighted_mean
from fedkin.nn.stacked_autoencoder import Autoencoder


@dataclass(frozen=True)
class FedCRefState(State):
    """What the server knows; dictionaries are keyed by a client's id as text.

    Attributes
    ----------
    widths, output
        Shape of the autoencoders, decided in `FedCRef.init`.
    models : dict of str to Tensor
        Models of the clients that are stable, ``(clusters, replicas, size)``.
    samples : dict of str to Tensor
        Sizes of their clusters, ``(clusters,)`` int64.
    stable, frozen : list of int
        Clients whose last refinement changed little; those of them that have retrained since, and rest.
    nodes, edges, communities, unmatched, cut
        The last association graph (`association.Graph`).
    statistics : Tensor, (nodes, nodes)
        The rule's statistic of the row's samples under the column's model; NaN where nobody could be asked.
    community_models : Tensor, (communities, size)
    clusters : dict of str to list of int
        Cluster of each present local cluster of a client.
    cluster_models : Tensor, (clusters, size)
    history : list of [unmatched, communities]
        One entry per iteration, the start included, for the global stopping rule.
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
        """The autoencoders' shape."""
        return Autoencoder(tuple(self.widths), self.output)


def unchanged(state: FedCRefState, graph: AssociationGraph, frozen: list[int]) -> dict[int, int]:
    """Communities whose members all rest and were together before, by their last number: their model is still right."""
    resting = {i for i in frozen if i in state.frozen}
    before = {str([state.nodes[a] for a in members]): g for g, members in enumerate(state.communities)}
    now = {g: [graph.nodes[a] for a in members] for g, members in enumerate(graph.communities)}
    return {
        g: before[str(members)]
        for g, members in now.items()
        if str(members) in before and all(client in resting for client, _ in members)
    }


def continued(models: Tensor, state: FedCRefState, graph: AssociationGraph) -> None:
    """Start every community, in place, from the cluster most of its clusters were in, if they were in any."""
    for cluster, community in enumerate(graph.communities):
        nodes = [graph.nodes[a] for a in community]
        before = [
            state.clusters[str(client)][local_cluster]
            for client, local_cluster in nodes
            if str(client) in state.clusters
        ]
        if before:
            models[cluster] = state.cluster_models[max(sorted(set(before)), key=before.count)]


def averaged(models: Tensor, members: dict[int, list[tuple[int, int]]], replies: dict[int, Payload]) -> None:
    """Sample-weighted mean per community, in place; a community of which nobody answered keeps its model."""
    received: dict[int, list[tuple[Tensor, float]]] = {}
    for client, reply in replies.items():
        for (cluster, _), model, samples in zip(members[client], reply["models"], reply["samples"], strict=True):
            received.setdefault(cluster, []).append((model, float(samples)))
    for cluster, parts in received.items():
        models[cluster] = weighted_mean(torch.stack([model for model, _ in parts]), [samples for _, samples in parts])


def only(used: list[int], clusters: dict[int, list[int]], models: list[Tensor]) -> tuple[dict[int, list[int]], Tensor]:
    """The clusters that still have a cluster, renumbered, and their models."""
    number = {cluster: index for index, cluster in enumerate(used)}
    return {i: [number[cluster] for cluster in own] for i, own in clusters.items()}, torch.stack(
        [models[g] for g in used]
    )
