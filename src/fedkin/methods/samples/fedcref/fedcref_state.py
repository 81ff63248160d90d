"""State of FedCRef, and how clusters and models pass from one iteration to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkin.core import Federation, Payload, Record, State, Task
from fedkin.core.federation import Wanted
from fedkin.methods.samples.fedcref.association import LocalCluster
from fedkin.nn.stacked_autoencoder import Autoencoder


@dataclass(frozen=True)
class FedCRefState(State):
    """State of FedCRef; dictionaries are keyed by a client's id as text.

    Attributes
    ----------
    widths, output
        Architecture of the autoencoders, decided in `FedCRefMethod.init`.
    total : int
        Number of kin-graph's clusters, if the first clusters are made from them, else 0.
    models : dict of str to Tensor
        Models of stable clients, ``(local clusters, replicas, size)``.
    samples : dict of str to Tensor
        Sizes of these clients' local clusters, int64 ``(local clusters,)``.
    profiles : dict of str to Tensor
        Profiles of these local clusters, if there are `candidates`, see `candidate_clusters.profiles_of`.
    stable, frozen : list of int
        Clients whose last refinement changed little; and those among them that have retrained since and stopped.
    nodes, edges, communities, unmatched, cut
        The last association graph, see `association.AssociationGraph`.
    statistics : Tensor, (nodes, nodes)
        The rule's statistic of the row's samples with the column's model; NaN if not scored.
    pairs, pair_statistics : Tensor
        Instead of `statistics`, if there are `candidates`, see `candidate_clusters.PairScores`.
    community_models : Tensor, (communities, size)
    clusters : dict of str to list of int
        Cluster of each current local cluster of a client.
    cluster_models : Tensor, (clusters, size)
    history : list of [unmatched, communities]
        One entry per iteration, including the start, for the global stopping rule.
    """

    widths: list[int] = field(default_factory=list)
    output: str = "sigmoid"
    total: int = 0
    models: dict[str, Tensor] = field(default_factory=dict)
    samples: dict[str, Tensor] = field(default_factory=dict)
    profiles: dict[str, Tensor] = field(default_factory=dict)
    stable: list[int] = field(default_factory=list)
    frozen: list[int] = field(default_factory=list)
    nodes: list[LocalCluster] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    communities: list[list[int]] = field(default_factory=list)
    unmatched: list[int] = field(default_factory=list)
    cut: float | None = None
    statistics: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    pairs: Tensor = field(default_factory=lambda: torch.zeros(0, 2, dtype=torch.int64))
    pair_statistics: Tensor = field(default_factory=lambda: torch.zeros(0))
    community_models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    clusters: dict[str, list[int]] = field(default_factory=dict)
    cluster_models: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    history: list[list[int]] = field(default_factory=list)

    @property
    def model(self) -> Autoencoder:
        """Architecture of the autoencoders."""
        return Autoencoder(tuple(self.widths), self.output)


@dataclass(frozen=True)
class Iteration:
    """What an iteration works on: the state before it, and by client the `models`, sizes and profiles as in the state.

    `trained` are the clients that trained in it, and `lost` those without a usable reply so far, with the reason.
    """

    fed: Federation
    state: FedCRefState
    models: dict[int, Tensor]
    samples: dict[int, Tensor]
    profiles: dict[int, Tensor]
    trained: set[int]
    lost: dict[int, str]

    def ask(self, task: Task, payloads: Mapping[int, Payload], expected: Wanted) -> dict[int, Payload]:
        """Ask clients as `Federation.ask` does, and keep who is lost."""
        replies = self.fed.ask(task, payloads, expected)
        self.lost.update(self.fed.missing)
        return replies


def record_of(work: Iteration, state: FedCRefState, used: dict[int, int], unchanged: dict[int, float]) -> Record:
    """Return the record of an iteration that ended with `state`; `used` are the numbers of clusters by former ones."""
    return Record(
        answered=[i for i in work.fed.present if i not in work.lost],
        missing=work.lost,
        values={
            "clusters": len(state.cluster_models),
            "communities": len(state.communities),
            "unmatched": len(state.unmatched),
            "local_clusters": len(state.nodes),
            "associations": len(state.edges),
            "active": len(unchanged),
            "cut": state.cut,
            "unchanged": sum(unchanged.values()) / len(unchanged) if unchanged else 1.0,
            "graph": {
                "nodes": [
                    [client, local_cluster, int(work.samples[client][local_cluster])]
                    for client, local_cluster in state.nodes
                ],
                "edges": state.edges,
                "communities": state.communities,
                "clusters": [used.get(g) for g in range(len(state.communities))],
                "next": state.clusters,
            },
        },
    )
