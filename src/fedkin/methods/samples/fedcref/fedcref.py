"""FedCRef: federated refinement of local clusters (Nardi, Valerio, Passarella).

Every client clusters its own samples and trains an autoencoder per local cluster. Clients exchange the models to
associate local clusters; each community of associated ones trains one model by federated averaging; with these models
every client refines its local clusters, until all clients are stable. Line numbers are those of the paper's Algorithm
1.

Where the defaults differ from the paper, its form stays available by name:

* ``associations="held-out"`` compares errors on samples that no model was trained on (`association`); ``"paper"`` is
  the threshold on normalised differences of error, which depends on sample size and fails with noise.
* ``safeguard="unmatched"`` lets only the models of unmatched local clusters compete in the refinement; with ``"all"``,
  as in the paper, a model fitted to a noisy local cluster keeps that noise.
* ``n_clusters="auto"`` revises the number of local clusters in every refinement; a given number stays, as in the paper.
* ``stability`` is stricter: at the paper's 0.8 a client is stable while one sample in five still moves.

``docs/fidelity/fedcref.md`` lists every ambiguity of the paper and how it is resolved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from annotated_types import Ge, Interval
from torch import Tensor

from fedkin.clustering.margins import distance_margin
from fedkin.core import Federation, FedkinError, Payload, Record, State, Task
from fedkin.core.federation import Wanted
from fedkin.core.method import Count, FirstMethod, Fraction, Oracle, Positive
from fedkin.core.replies import Expected, below, features, int64, is_list, reals, updates
from fedkin.methods.samples.fedcref import association, fedcref_tasks
from fedkin.methods.samples.fedcref.association import AssociationGraph, LocalCluster, kept_positions
from fedkin.methods.samples.fedcref.fedcref_figures import fedcref_figures
from fedkin.methods.samples.sample_method import SampleMethod, broadcast, cluster_first, describe_clients
from fedkin.nn.aggregation import Aggregation, Means
from fedkin.nn.stack import Autoencoder, StackTraining, widths_for
from fedkin.report.figures import Figure

# Hyper-parameters of FedCRef.


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
        self.lost.update(replies.missing)
        return replies


@dataclass(frozen=True)
class FedCRefMethod(SampleMethod):
    """FedCRef: refines local clusters by models that clients with similar local clusters train together.

    Attributes
    ----------
    initial : {"auto", "given", "kmeans", "embedding", "dec", "kin-graph"}
        How a client makes its first clusters; "auto" takes the labels a client brings, else "embedding". "kin-graph"
        clusters the samples of all clients first (`kingraph`); local clusters are the clusters with enough of a
        client's samples; see `hold`.
    hold : float
        With ``initial="kin-graph"``, for clients with at least two thirds of all its clusters: a sample leaves its
        cluster only for a model whose error is lower by this fraction, and clusters with a quarter of
        `min_fraction` stay. There kin-graph's clusters are better than those that models find. 0 treats all clients
        alike.
    n_clusters : int or {"auto", "given"}
        Local clusters per client: a number; "given", each client's own number; or "auto", the client's estimate,
        revised in every refinement.
    max_clusters : int
        Maximum of the first estimate.
    min_fraction : float
        With ``n_clusters="auto"``: a model gets a local cluster if the samples that choose it are at least this
        fraction of an average local cluster.
    hidden : tuple of int, optional
        Hidden widths and code of the autoencoder; by default those of `widths_for`, (100, 64, 32) for 784 features.
    local_epochs : int
        Epochs of a local cluster's model (Table 2: 20; Fashion-MNIST 30).
    rounds : int
        Rounds of federated averaging per community (paper: 15).
    first_epochs : int
        Local epochs in the first of these rounds (the authors' code: 2; the paper is silent).
    round_epochs : int
        Local epochs in each later round (the authors' code: 7; the paper is silent).
    min_steps : int
        Minimum number of optimiser steps of a local cluster's model, and of a community's model at each member, over
        all rounds. It matters only with few samples.
    continuity : bool
        Whether models start from those selected in the last refinement; by default, as in the authors' code, they are
        initialised anew.
    batch_size : int
        Samples per optimiser step.
    learning_rate : float
        Adam's learning rate.
    associations : {"held-out", "paper", "kin-graph", "perfect"}
        The rule that associates local clusters. "kin-graph" associates those whose samples mostly have the same cluster
        there, without an exchange of models. "perfect" is an upper bound for evaluations and needs an `oracle`.
    candidates : int or "all"
        Number of local clusters of other clients that each is compared with by "held-out" and "paper": "all", or those
        nearest by mean and standard deviation of the features, and those at 2, 4, 8, ... times this rank. With a
        number, clients also send these means and deviations, and models and time grow nearly with the number of clients
        instead of its square.
    cut : float, optional
        For "held-out": average loss rate below which local clusters merge; by default chosen from the merge heights.
    percentile : float
        For "paper": alpha, in per cent.
    threshold : float
        For "paper": theta.
    safeguard : {"auto", "unmatched", "all"}
        Which of a client's own models compete in the refinement; "auto" is "unmatched" with "held-out", else "all".
    leftovers : {"best", "renumbered"}
        Where samples go that chose none of the models selected in the refinement: to the "best" of these, as in the
        paper; or "renumbered", as by a mistake in the authors' code, mostly to another, which its figures contain.
    stability : float
        The paper's tau: a client is stable once at least this fraction of its samples stays in its local cluster.
    ending : {"either", "both", "graph"}
        When a run ends: "either" once all clients are stable or the graph is settled, as the paper's text says; "both"
        once both are true, as its Algorithm 1 is printed; "graph" once the graph is settled, as in the authors' code.
    tolerance : float
        The graph is settled once the numbers of communities and of unmatched local clusters both changed by at most
        this fraction, `patience` times in a row.
    patience : int
        Number of such iterations.
    max_iterations : int
        Maximum number of iterations.
    aggregation : {"mean", "median", "trimmed-mean"}
        How the models of a community's members are combined: by their mean weighted by samples, or by the
        coordinate-wise median or trimmed mean, without a fifth of the values at either end, in which members count
        equally.
    oracle : callable, optional
        Only with ``associations="perfect"``.
    first : callable, optional
        Class of kin-graph, where it makes the first clusters or associates them; set by the run.
    """

    initial: Literal["auto", "given", "kmeans", "embedding", "dec", "kin-graph"] = "auto"
    hold: Fraction = 0.3
    n_clusters: Count | Literal["auto", "given"] = "auto"
    max_clusters: Annotated[int, Ge(2)] = 10
    min_fraction: Fraction = 0.5
    hidden: tuple[Count, ...] | None = None
    local_epochs: Count = 20
    rounds: Count = 15
    first_epochs: Count = 2
    round_epochs: Count = 7
    min_steps: Annotated[int, Ge(0)] = 300
    continuity: bool = False
    batch_size: Count = 32
    learning_rate: Positive = 1e-3
    associations: Literal["held-out", "paper", "kin-graph", "perfect"] = "held-out"
    candidates: Count | Literal["all"] = "all"
    cut: Fraction | None = None
    percentile: Annotated[float, Interval(ge=0, le=100)] = 75.0
    threshold: Fraction = 0.2
    safeguard: Literal["auto", "unmatched", "all"] = "auto"
    leftovers: Literal["best", "renumbered"] = "best"
    stability: Fraction = 0.95
    ending: Literal["either", "both", "graph"] = "either"
    tolerance: Annotated[float, Ge(0)] = 0.1
    patience: Count = 3
    max_iterations: Count = 10
    aggregation: Aggregation = "mean"
    oracle: Oracle | None = None
    first: FirstMethod | None = None

    traits = SampleMethod.traits.replace(
        finds_k=True,
        takes_k=False,
        sends=(
            "an autoencoder of each of its clusters, which goes to all other clients, too; fractions, sizes and choices"
        ),
        has_device=True,
        scenario="label-skew",
    )
    state_type: ClassVar[type[State]] = FedCRefState

    def start_options(self, total: int = 0) -> Payload:
        """Return the settings by which clients find first local clusters; `total` is kin-graph's number of clusters."""
        return {
            "initial": self.initial,
            "n_clusters": self.n_clusters,
            "max_clusters": self.max_clusters,
            "min_fraction": self.min_fraction,
            "hold": self.hold,
            "total": total,
        }

    # Models of FedCRef's communities: their federated training, and their reuse in the next iteration.

    def init(self, fed: Federation) -> FedCRefState:
        """Have every client find its first local clusters (line 3), and return the first state."""
        facts = describe_clients(fed)
        width = math.prod(facts.shape)
        total = cluster_first(fed, self) if self.first_method() else 0
        started = fed.ask(fedcref_tasks.start, fed.all(**self.start_options(total)))
        return FedCRefState(
            total=total,
            widths=[width, *self.hidden] if self.hidden else list(widths_for(width)),
            output="sigmoid" if facts.unit else "linear",
            history=[[sum(reply["clusters"] for reply in started.values()), 0]],
        )

    def step(self, fed: Federation, state: FedCRefState) -> tuple[FedCRefState, Record]:
        """Do one iteration: train, associate, average and refine (lines 7-32)."""
        work = self._train_clusters(fed, state)
        graph, scores = self._associate(work)
        frozen = sorted({*state.frozen, *(i for i in state.stable if i in work.trained)})
        community_models = train_communities(self, work, graph, frozen)
        active = [i for i in work.trained if i not in frozen]
        clusters, unchanged = self._refine(work, graph, community_models, active)
        unmatched = (graph.nodes[a] for a in graph.unmatched)
        every_model = [*community_models, *(work.models[i][local_cluster, 0] for i, local_cluster in unmatched)]
        used = {cluster: at for at, cluster in enumerate(sorted({g for own in clusters.values() for g in own}))}
        clusters = {i: [used[cluster] for cluster in own] for i, own in clusters.items()} if used else {}
        cluster_models = torch.stack([every_model[g] for g in used]) if used else state.cluster_models
        stable = sorted({*frozen, *(i for i in unchanged if unchanged[i] >= self.stability)})
        history = [*state.history, [len(graph.unmatched), len(graph.communities)]]
        state = state.next(
            models={str(i): work.models[i] for i in stable},
            samples={str(i): work.samples[i] for i in stable},
            profiles={str(i): work.profiles[i] for i in stable if i in work.profiles},
            stable=stable,
            frozen=frozen,
            **vars(graph),
            **scores,
            community_models=community_models,
            clusters={str(i): own for i, own in clusters.items()},
            cluster_models=cluster_models,
            history=history,
            finished=self._is_over(history, stable == fed.present) or state.steps + 1 >= self.max_iterations,
        )
        if state.finished:
            self.conclude(fed, state)
        return state, record_of(work, state, used, unchanged)

    def result(self, state: FedCRefState) -> dict[str, Any]:
        """Return ``models`` ``(clusters, size)``, and by cluster its local clusters in ``communities``."""
        communities: list[list[LocalCluster]] = [[] for _ in state.cluster_models]
        for client in sorted(map(int, state.clusters)):
            for local_cluster, cluster in enumerate(state.clusters[str(client)]):
                communities[cluster].append([client, local_cluster])
        return {
            "widths": state.widths,
            "output": state.output,
            "n_clusters": len(communities),
            "communities": communities,
            "models": state.cluster_models,
        }

    def first_method(self) -> str:
        return "kin-graph" if "kin-graph" in (self.initial, self.associations) else ""

    def with_first(self, first: FirstMethod) -> Self:
        return replace(self, first=first)

    @classmethod
    def figures(cls, records: Sequence[Mapping[str, Any]]) -> Sequence[Figure]:
        """Draw the matched local clusters after the first and the last iteration."""
        return fedcref_figures(records)

    def with_oracle(self, oracle: Oracle) -> Self:
        return replace(self, oracle=oracle) if self.associations == "perfect" else self

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the cluster of samples ``(n, ...)``: that of the model with the lowest error; int64 ``(n,)``."""
        model = Autoencoder(tuple(result["widths"]), result["output"])
        return model.errors(result["models"], x.flatten(1)).argmin(dim=0)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return 1 - e1 / e2 with the lowest and second lowest errors e1, e2 of the models: float32 ``(n,)``."""
        model = Autoencoder(tuple(result["widths"]), result["output"])
        return distance_margin(model.errors(result["models"], x.flatten(1)).T)

    def _train_clusters(self, fed: Federation, state: FedCRefState) -> Iteration:
        """Have active clients train models (lines 7-9), with which the iteration begins."""
        replicas = 2 if self.associations == "held-out" else 1
        training = StackTraining(self.local_epochs, self.min_steps, self.batch_size, self.learning_rate)
        spec = fedcref_tasks.spec(state.model)
        with_profiles = self.candidates != "all" and self.associations in ("held-out", "paper")
        payload = {**self.start_options(state.total), **spec, "training": asdict(training), "replicas": replicas}
        payload["profiles"] = with_profiles
        asked = dict.fromkeys((i for i in fed.present if i not in state.frozen), payload)
        expected: Expected = {
            "models": updates("clusters", replicas, state.model.size),
            "samples": int64("clusters"),
            **({"profiles": features("clusters", 2 * state.widths[0])} if with_profiles else {}),
        }
        replies = fed.ask(fedcref_tasks.train_clusters, asked, expected)
        models = {i: state.models[str(i)] for i in state.frozen} | {i: r["models"] for i, r in replies.items()}
        samples = {i: state.samples[str(i)] for i in state.frozen} | {i: r["samples"] for i, r in replies.items()}
        profiles = {int(i): known for i, known in state.profiles.items()}
        profiles |= {i: r["profiles"] for i, r in replies.items() if with_profiles}
        return Iteration(fed, state, models, samples, profiles, set(replies), replies.missing)

    def _associate(self, work: Iteration) -> tuple[AssociationGraph, dict[str, Tensor]]:
        """Exchange and score models, and associate local clusters (lines 10-21); return the graph and scores."""
        state, models = work.state, work.models
        nodes = [[client, local_cluster] for client in sorted(models) for local_cluster in range(len(models[client]))]
        if self.associations == "perfect":
            if self.oracle is None:
                raise FedkinError("method.associations = 'perfect' needs the true classes, which only a scenario has.")
            return association.by_class(
                nodes, [self.oracle(client)[local_cluster] for client, local_cluster in nodes]
            ), {}
        if self.associations == "kin-graph":
            tallies = work.ask(
                fedcref_tasks.tally, {i: {} for i in models}, lambda i: {"clusters": int64(len(models[i]))}
            )
            clusters = [
                int(tallies[client]["clusters"][local_cluster]) if client in tallies else -1 - a  # unknown: unmatched
                for a, (client, local_cluster) in enumerate(nodes)
            ]
            return association.by_class(nodes, clusters), {}
        if self.candidates == "all":
            return self._compare_all(work, nodes)
        flat = torch.cat([torch.zeros(0, 2 * state.widths[0]), *(work.profiles[client] for client in sorted(models))])
        wanted = candidate_pairs(flat, [client for client, _ in nodes], self.candidates)
        before = PairScores(state.pairs, state.pair_statistics)
        known = before.known(state.nodes, nodes, work.trained)
        rule = self._rule(state)
        scores = score_candidates(work, fedcref_tasks.score, rule, wanted, nodes, known)
        threshold = self.threshold if self.associations == "paper" else None
        graph = association.by_scored_pairs(nodes, *scores.both_ways(len(nodes)), self.cut, threshold)
        return graph, {"pairs": scores.pairs, "pair_statistics": scores.statistics}

    def _rule(self, state: FedCRefState) -> Payload:
        return {**fedcref_tasks.spec(state.model), "rule": self.associations, "percentile": self.percentile}

    def _compare_all(self, work: Iteration, nodes: list[LocalCluster]) -> tuple[AssociationGraph, dict[str, Tensor]]:
        """Send all models to all clients that have not scored them, and associate local clusters by the scores."""
        state, models, trained = work.state, work.models, work.trained
        statistics = association.known_statistics(state.nodes, state.statistics, nodes, trained)
        everyone = list(range(len(nodes)))
        new = [a for a in everyone if nodes[a][0] in trained]
        if new:
            stack = torch.cat([models[client] for client in sorted(models)])
            rule = self._rule(state)
            to_trained, to_frozen = {**rule, "models": stack}, {**rule, "models": stack[new]}
            asked = {i: to_trained if i in trained else to_frozen for i in models}
            scored = {i: len(everyone if i in trained else new) for i in models}
            replies = work.ask(fedcref_tasks.score, asked, lambda i: {"statistics": reals(len(models[i]), scored[i])})
            for i, reply in replies.items():
                rows = [a for a in everyone if nodes[a][0] == i]
                statistics[np.ix_(rows, everyone if i in trained else new)] = reply["statistics"]
        if self.associations == "held-out":
            return association.by_held_out_rule(nodes, statistics, self.cut), {"statistics": statistics}
        return association.by_threshold(nodes, statistics, self.threshold), {"statistics": statistics}

    def _refine(
        self, work: Iteration, graph: AssociationGraph, community_models: Tensor, active: list[int]
    ) -> tuple[dict[int, list[int]], dict[int, float]]:
        """Have clients refine local clusters (lines 26-32); return clusters and fractions of unchanged samples."""
        keep_all = self.safeguard == "all" or (self.safeguard == "auto" and self.associations != "held-out")
        clusters = graph.clusters()
        own = {
            i: [q for q, cluster in enumerate(clusters[i]) if keep_all or cluster >= len(graph.communities)]
            for i in active
        }
        min_fraction = self.min_fraction if self.n_clusters == "auto" else None
        options = {"min_fraction": min_fraction, "continuity": self.continuity, "hold": self.hold}
        options["renumbered"] = self.leftovers == "renumbered"
        common = {**fedcref_tasks.spec(work.state.model), **options, "models": community_models}
        replies = work.ask(
            fedcref_tasks.refine,
            {i: {**common, "own": own[i], "current": _current(own[i], clusters[i])} for i in active},
            lambda i: {"selected": is_list(below(len(own[i]) + len(community_models)))},
        )
        for i in work.fed.missing:
            del clusters[i]  # the client may have refined, and its reply was lost
        for i, reply in replies.items():
            choices = [clusters[i][q] for q in own[i]] + list(range(len(community_models)))
            clusters[i] = [choices[chosen] for chosen in reply["selected"]]
        return clusters, {i: reply["unchanged"] for i, reply in replies.items()}

    def _is_over(self, history: list[list[int]], all_stable: bool) -> bool:
        """Whether the run ends (line 6): no client is active any more, the graph is settled, or both."""
        settled = self._is_settled(history)
        if self.ending == "graph":
            return settled
        return all_stable and settled if self.ending == "both" else all_stable or settled

    def _is_settled(self, history: list[list[int]]) -> bool:
        """Whether the graph has changed little, `patience` times in a row (phase 5)."""
        recent = history[1:][-self.patience - 1 :]
        return len(recent) > self.patience and all(
            abs(now - before) <= self.tolerance * max(before, 1)
            for earlier, later in pairwise(recent)
            for before, now in zip(earlier, later, strict=True)
        )

    def conclude(self, fed: Federation, state: FedCRefState) -> None:
        """Send every client the clusters of its local clusters, or the models if its local clusters are unknown."""
        if not len(state.cluster_models):
            raise FedkinError("No client could be reached in any iteration, so no clusters were found.")
        by_model = {**fedcref_tasks.spec(state.model), "models": state.cluster_models}
        waiting: dict[int, Payload] = dict.fromkeys(fed.present, by_model)
        waiting |= {int(client): {"clusters": clusters} for client, clusters in state.clusters.items()}
        broadcast(fed, fedcref_tasks.finish, waiting)


def train_communities(method: FedCRefMethod, work: Iteration, graph: AssociationGraph, frozen: list[int]) -> Tensor:
    """Train one model per community by federated averaging over its local clusters (lines 22-24)."""
    state = work.state
    models = state.model.initial([work.fed.rng("community", state.steps, g) for g in range(len(graph.communities))])
    if method.continuity:
        continue_models(models, state, graph)
    known = reusable_models(state, graph, frozen)
    for cluster, before in known.items():
        models[cluster] = state.community_models[before]
    members: dict[int, list[tuple[int, int]]] = {}
    for cluster, community in enumerate(graph.communities):
        for client, local_cluster in (graph.nodes[a] for a in community if cluster not in known):
            members.setdefault(client, []).append((cluster, local_cluster))
    for round_ in range(method.rounds if members else 0):
        epochs = method.round_epochs if round_ else method.first_epochs
        training = StackTraining(epochs, method.min_steps // method.rounds, method.batch_size, method.learning_rate)
        common = {**fedcref_tasks.spec(state.model), "training": asdict(training)}
        payloads: dict[int, Payload] = {
            client: {
                **common,
                "models": models[[g for g, _ in own]],
                "clusters": [local_cluster for _, local_cluster in own],
            }
            for client, own in members.items()
        }
        replies = work.ask(
            fedcref_tasks.train_community,
            payloads,
            lambda i: {"models": updates(len(members[i]), state.model.size), "samples": int64(len(members[i]))},
        )
        average_models(models, members, replies, method.aggregation)
    return models


def reusable_models(state: FedCRefState, graph: AssociationGraph, frozen: list[int]) -> dict[int, int]:
    """Return the previous number of each community whose members are the same and all frozen."""
    still_frozen = {i for i in frozen if i in state.frozen}
    before = {str([state.nodes[a] for a in members]): g for g, members in enumerate(state.communities)}
    now = {g: [graph.nodes[a] for a in members] for g, members in enumerate(graph.communities)}
    return {
        g: before[str(members)]
        for g, members in now.items()
        if str(members) in before and all(client in still_frozen for client, _ in members)
    }


def continue_models(models: Tensor, state: FedCRefState, graph: AssociationGraph) -> None:
    """Initialise every community's model, in place, from the previous cluster of most of its members, if any."""
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
    """Average models per community, weighted by samples, in place; without replies a community keeps its model.

    Raises DivergedError if a model is not finite, or has exploded.
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


def _current(own: list[int], clusters: list[int]) -> list[int]:
    """Return the index of each local cluster's model among the competing ones: `own` ones, then the communities'."""
    return [own.index(q) if q in own else len(own) + cluster for q, cluster in enumerate(clusters)]
