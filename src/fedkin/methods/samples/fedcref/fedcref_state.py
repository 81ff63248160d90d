"""What FedCRef's server knows, and how groups and their models pass from one iteration to the next."""

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
    """What the server knows; dictionaries are keyed by a site's id as text.

    Attributes
    ----------
    widths, output
        Shape of the autoencoders, decided in `FedCRef.init`.
    models : dict of str to Tensor
        Models of the sites that are stable, ``(clusters, replicas, size)``.
    samples : dict of str to Tensor
        Sizes of their clusters, ``(clusters,)`` int64.
    stable, frozen : list of int
        Sites whose last refinement changed little; those of them that have retrained since, and rest.
    nodes, edges, communities, isolated, cut
        The last association graph (`association.Graph`).
    statistics : Tensor, (nodes, nodes)
        The rule's statistic of the row's samples under the column's model; NaN where nobody could be asked.
    community_models : Tensor, (communities, size)
    groups : dict of str to list of int
        Group of each present local cluster of a site.
    group_models : Tensor, (groups, size)
    history : list of [isolated, communities]
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
    isolated: list[int] = field(default_factory=list)
    cut: float | None = None
    statistics: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    community_models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    groups: dict[str, list[int]] = field(default_factory=dict)
    group_models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
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
        if str(members) in before and all(site in resting for site, _ in members)
    }


def continued(models: Tensor, state: FedCRefState, graph: AssociationGraph) -> None:
    """Start every community, in place, from the group most of its clusters were in, if they were in any."""
    for group, community in enumerate(graph.communities):
        nodes = [graph.nodes[a] for a in community]
        before = [state.groups[str(site)][cluster] for site, cluster in nodes if str(site) in state.groups]
        if before:
            models[group] = state.group_models[max(sorted(set(before)), key=before.count)]


def averaged(models: Tensor, members: dict[int, list[tuple[int, int]]], replies: dict[int, Payload]) -> None:
    """Sample-weighted mean per community, in place; a community of which nobody answered keeps its model."""
    received: dict[int, list[tuple[Tensor, float]]] = {}
    for site, reply in replies.items():
        for (group, _), model, samples in zip(members[site], reply["models"], reply["samples"], strict=True):
            received.setdefault(group, []).append((model, float(samples)))
    for group, parts in received.items():
        models[group] = weighted_mean(torch.stack([model for model, _ in parts]), [samples for _, samples in parts])


def only(used: list[int], groups: dict[int, list[int]], models: list[Tensor]) -> tuple[dict[int, list[int]], Tensor]:
    """The groups that still have a cluster, renumbered, and their models."""
    number = {group: index for index, group in enumerate(used)}
    return {i: [number[group] for group in own] for i, own in groups.items()}, torch.stack([models[g] for g in used])
