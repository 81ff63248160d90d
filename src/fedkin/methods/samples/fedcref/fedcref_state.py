"""State of FedCRef, and how clusters and models pass from one iteration to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedkin.core import Federation, Payload, Record, State, Task
from fedkin.core.federation import Wanted
from fedkin.core.replies import reals
from fedkin.methods.samples.fedcref.association import LocalCluster, kept_positions
from fedkin.nn.stack import Autoencoder


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
        Profiles of these local clusters, if there are `candidates`, see `profiles_of`.
    stable, frozen : list of int
        Clients whose last refinement changed little; and those among them that have retrained since and stopped.
    nodes, edges, communities, unmatched, cut
        The last association graph, see `association.AssociationGraph`.
    statistics : Tensor, (nodes, nodes)
        The rule's statistic of the row's samples with the column's model; NaN if not scored.
    pairs, pair_statistics : Tensor
        Instead of `statistics`, if there are `candidates`, see `PairScores`.
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


#
# Candidate pairs of local clusters to compare, so that not every model is sent to every client.
#
# A client describes each of its local clusters by the mean and the standard deviation of every feature, its
# *profile*. A local cluster is compared with those of other clients whose profiles are nearest, and with those at
# doubling ranks: the nearest mostly have the same content, and the others connect what nearest ones alone leave
# separate, and show which local clusters differ. So the comparisons of a local cluster grow with the logarithm of the
# number of local clusters.


UNDER_WAY = 2**28
"""Maximum number of bytes of models that are sent in one exchange, unless a single client's are more."""

_ROWS = 256  # number of local clusters whose distances to all others are in memory at once


@dataclass(frozen=True)
class PairScores:
    """Statistics of the scored pairs of local clusters, of which none occurs twice: float32 ``(e,)``.

    `pairs` are int64 ``(e, 2)``: the local cluster of the samples and that of the model, as positions among the nodes.
    """

    pairs: Tensor = field(default_factory=lambda: torch.zeros(0, 2, dtype=torch.int64))
    statistics: Tensor = field(default_factory=lambda: torch.zeros(0))

    def both_ways(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the pairs that were scored in both directions, int64 ``(p, 2)``, and both statistics ``(p, 2)``.

        The lower position comes first, and the statistic of its samples. `count` is the number of local clusters.
        """
        first, second = self.pairs.unbind(1)
        forth, order = (first * count + second).sort()
        back = (second * count + first)[order]
        at = torch.searchsorted(forth, back).clamp_max(max(0, len(forth) - 1))
        both = (forth[at] == back) & (first < second)[order]
        own = self.statistics[order]
        return self.pairs[order][both], torch.stack([own, own[at]], dim=1)[both]

    def known(self, before: Sequence[LocalCluster], nodes: list[LocalCluster], trained: set[int]) -> PairScores:
        """Return the scores of clients that have not trained since, by positions among the present `nodes`."""
        new, old = kept_positions(before, nodes, trained)
        now = torch.full((len(before),), -1)
        now[old] = torch.tensor(new, dtype=torch.int64)
        pairs = now[self.pairs]
        kept = (pairs >= 0).all(dim=1)
        return PairScores(pairs[kept], self.statistics[kept])

    def and_then(self, pairs: Tensor, statistics: Tensor, count: int) -> PairScores:
        """Return these scores together with new ones, which replace those of the same pair."""
        pairs, statistics = torch.cat([pairs, self.pairs]), torch.cat([statistics, self.statistics])
        first = np.unique((pairs[:, 0] * count + pairs[:, 1]).numpy(), return_index=True)[1]
        return PairScores(pairs[first], statistics[first])


def profiles_of(x: Tensor, labels: Tensor) -> Tensor:
    """Return each cluster's mean and standard deviation of every feature: ``(clusters, 2 * features)``."""
    parts = [x[labels == cluster] for cluster in range(int(labels.max()) + 1)]
    return torch.stack([torch.cat([part.mean(0), part.std(0, correction=0)]) for part in parts])


def candidate_pairs(profiles: Tensor, clients: Sequence[int], count: int) -> Tensor:
    """Return the pairs of local clusters to compare, by the distances of their profiles ``(m, width)``.

    Pairs are int64 ``(p, 2)``, the lower position first, in order. `clients` has the client of each local cluster. Each
    is compared with the `count` nearest ones of other clients, and with those at 2, 4, 8, ... times this rank.
    """
    points, owners = profiles.double(), torch.tensor(clients)
    pairs = [torch.zeros(0, 2, dtype=torch.int64)]
    for start in range(0, len(points), _ROWS):
        rows = torch.arange(start, min(start + _ROWS, len(points)))
        own = owners[rows, None] == owners
        order = torch.cdist(points[rows], points).masked_fill_(own, torch.inf).argsort(dim=1, stable=True)
        ranks = _ranks(count, len(points))
        foreign = torch.tensor(ranks) < (~own).sum(1, keepdim=True)
        pairs.append(torch.stack([rows[:, None].expand_as(foreign), order[:, ranks]], dim=2)[foreign])
    found: Tensor = torch.cat(pairs).sort(dim=1).values.unique(dim=0)
    return found


def score_candidates(
    work: Iteration, task: Task, rule: Payload, candidates: Tensor, nodes: list[LocalCluster], known: PairScores
) -> PairScores:
    """Send every client the models of its local clusters' candidates whose scores are not yet `known`.

    A client's scores of all its own local clusters with these models are kept. Clients are asked in batches, so that
    few models are in transit at once.

    `task` takes `rule` and ``models`` ``(c, replicas, size)``, and answers ``statistics`` ``(own local clusters, c)``.
    `candidates` are as from `candidate_pairs`.
    """
    position = {(client, local_cluster): a for a, (client, local_cluster) in enumerate(nodes)}
    wanted, models = _wanted(candidates, nodes, known), work.models
    pairs, statistics = [torch.zeros(0, 2, dtype=torch.int64)], [torch.zeros(0)]
    for some in _batches(wanted, models):
        sent = {i: [models[client][own] for client, own in (nodes[b] for b in wanted[i])] for i in some}
        payloads = {i: {**rule, "models": torch.stack(chosen)} for i, chosen in sent.items()}
        replies = work.ask(task, payloads, lambda i: {"statistics": reals(len(models[i]), len(wanted[i]))})
        for i, reply in replies.items():
            own = torch.tensor([position[i, local_cluster] for local_cluster in range(len(models[i]))])
            pairs.append(torch.cartesian_prod(own, torch.tensor(wanted[i])).reshape(-1, 2))
            statistics.append(reply["statistics"].flatten())
    return known.and_then(torch.cat(pairs), torch.cat(statistics), len(nodes))


def _ranks(count: int, total: int) -> list[int]:
    """Return ranks from 0: the first `count`, then the last of the first 2, 4, 8, ... times `count`, below `total`."""
    ranks, rank = list(range(min(count, total))), 2 * count
    while rank <= total:
        ranks.append(rank - 1)
        rank *= 2
    return ranks


def _wanted(candidates: Tensor, nodes: list[LocalCluster], known: PairScores) -> dict[int, list[int]]:
    """Return, by client, the nodes whose models it must score."""
    scored = set(map(tuple, known.pairs.tolist()))
    wanted: dict[int, set[int]] = {}
    for a, b in candidates.tolist():
        for samples, model in ((a, b), (b, a)):
            if (samples, model) not in scored:
                wanted.setdefault(nodes[samples][0], set()).add(model)
    return {client: sorted(wanted[client]) for client in sorted(wanted)}


def _batches(wanted: Mapping[int, list[int]], models: Mapping[int, Tensor]) -> Iterator[list[int]]:
    """Yield batches of clients that receive at most `UNDER_WAY` bytes together."""
    some: list[int] = []
    total = 0
    for client, chosen in wanted.items():
        size = len(chosen) * models[client][0].nbytes
        if some and total + size > UNDER_WAY:
            yield some
            some, total = [], 0
        some.append(client)
        total += size
    if some:
        yield some
