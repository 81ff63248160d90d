"""FedCRef: federated refinement of local clusters (Nardi, Valerio, Passarella).

Every client clusters its own samples and trains an autoencoder per local cluster. Clients exchange the models to
associate local clusters; each community of associated ones trains one model by federated averaging; with these models
every client refines its local clusters, until all clients are stable. Line numbers are those of the paper's Algorithm
1.

``docs/fidelity/fedcref.md`` lists every ambiguity of the paper and how it is resolved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from annotated_types import Ge, Interval
from torch import Tensor

from fedkin.clustering.k_means import distance_margin
from fedkin.core import Federation, FedkinError, Payload, Record, State, Task
from fedkin.core import payload as forms
from fedkin.core.federation import Replies, Wanted
from fedkin.core.method import Count, Fraction, Oracle, Positive, Values
from fedkin.methods.samples.fedcref import association, tasks
from fedkin.methods.samples.fedcref.association import AssociationGraph, LocalCluster
from fedkin.methods.samples.sample_method import SampleMethod, broadcast, describe_clients
from fedkin.nn.aggregation import Means
from fedkin.nn.stack import Autoencoder, StackTraining, widths_for


@dataclass(frozen=True)
class FedCRefState(State):
    """State of FedCRef; dictionaries are keyed by a client's id as text.

    `widths` and `output` are the architecture of the autoencoders. Of `stable` clients, whose last refinement changed
    little, `models` are ``(local clusters, replicas, size)`` and `samples` the sizes of local clusters; those that have
    retrained since and stopped are `frozen`. `nodes`, `edges`, `communities`, `unmatched` and `cut` are the last
    `association.AssociationGraph`. `community_models` and `cluster_models` are ``(count, size)``, `clusters` those of
    each client's current local clusters, and `history` numbers ``[unmatched, communities]`` of every iteration and of
    the start.
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
    """What an iteration works on: the state before it, and by client the `models` and sizes as in the state.

    `trained` are the clients that trained in it, and `lost` those without a usable reply so far, with the reason.
    """

    fed: Federation
    state: FedCRefState
    models: dict[int, Tensor]
    samples: dict[int, Tensor]
    trained: set[int]
    lost: dict[int, str]

    def ask(self, task: Task, payloads: Mapping[int, Payload], expected: Wanted) -> Replies[Payload]:
        replies = self.fed.ask(task, payloads, expected)
        self.lost.update(replies.missing)
        return replies


class FedCRefValues(Values, total=False):
    """Values of an iteration: counts of what there is, the fraction `unchanged`, and where the tree was `cut`."""

    communities: int
    unmatched: int
    local_clusters: int
    associations: int
    active: int
    cut: float
    unchanged: float


@dataclass(frozen=True)
class FedCRefMethod(SampleMethod):
    """FedCRef: refines local clusters by models that clients with similar local clusters train together.

    Attributes
    ----------
    initial : {"auto", "given", "kmeans", "embedding", "dec"}
        How a client makes its first clusters; "auto" takes the labels a client brings, else "embedding".
    n_clusters : int or {"auto", "given"}
        Local clusters per client: a number; "given", each client's own number; or "auto", the client's estimate, at
        most ten, revised in every refinement: a model gets a local cluster if the samples that choose it are at least
        half an average local cluster.
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
    batch_size : int
        Samples per optimiser step.
    learning_rate : float
        Adam's learning rate.
    associations : {"held-out", "paper", "perfect"}
        The rule that associates local clusters. "perfect" is an upper bound for evaluations and needs an `oracle`.
    percentile : float
        For "paper": alpha, in per cent.
    threshold : float
        For "paper": theta.
    stability : float
        The paper's tau: a client is stable once at least this fraction of its samples stays in its local cluster. A run
        ends once all clients are, or the graph of local clusters is settled, as the paper's text says.
    max_iterations : int
        Maximum number of iterations.
    oracle : callable, optional
        Only with ``associations="perfect"``.
    """

    initial: Literal["auto", "given", "kmeans", "embedding", "dec"] = "auto"
    n_clusters: Count | Literal["auto", "given"] = "auto"
    hidden: tuple[Count, ...] | None = None
    local_epochs: Count = 20
    rounds: Count = 15
    first_epochs: Count = 2
    round_epochs: Count = 7
    min_steps: Annotated[int, Ge(0)] = 300
    batch_size: Count = 32
    learning_rate: Positive = 1e-3
    associations: Literal["held-out", "paper", "perfect"] = "held-out"
    percentile: Annotated[float, Interval(ge=0, le=100)] = 75.0
    threshold: Fraction = 0.2
    stability: Fraction = 0.95
    max_iterations: Count = 10
    oracle: Oracle | None = None

    traits = SampleMethod.traits.replace(
        finds_k=True, takes_k=False, has_device=True, scenario="label-skew",
        paper={
            "associations": "paper", "stability": 0.8, "min_steps": 0, "n_clusters": "given", "max_iterations": 20,
        },
    )  # fmt: skip
    state_type: ClassVar[type[State]] = FedCRefState
    record_type: ClassVar[type[Any]] = FedCRefValues

    def init(self, fed: Federation) -> FedCRefState:
        """Have every client find its first local clusters (line 3), and return the first state."""
        facts = describe_clients(fed)
        width = math.prod(facts.shape)
        started = fed.ask(tasks.start, fed.all(**self._start()))
        return FedCRefState(
            widths=[width, *self.hidden] if self.hidden else list(widths_for(width)),
            output="sigmoid" if facts.unit else "linear",
            history=[[sum(reply["clusters"] for reply in started.values()), 0]],
        )

    def step(self, fed: Federation, state: FedCRefState) -> tuple[FedCRefState, Record]:
        """Do one iteration: train, associate, average and refine (lines 7-32)."""
        work = self._train_clusters(fed, state)
        graph = self._associate(work)
        frozen = sorted({*state.frozen, *(i for i in state.stable if i in work.trained)})
        community_models = self._train_communities(work, graph, frozen)
        active = [i for i in work.trained if i not in frozen]
        clusters, unchanged = self._refine(work, graph, community_models, active)
        # Only clusters that a local cluster has are counted, and numbered without gaps.
        unmatched = (graph.nodes[a] for a in graph.unmatched)
        every_model = [*community_models, *(work.models[i][q, 0] for i, q in unmatched)]
        used = {cluster: number for number, cluster in enumerate(sorted(set().union(*clusters.values())))}
        clusters = {i: [used[cluster] for cluster in numbers] for i, numbers in clusters.items()}
        stable = sorted({*frozen, *(i for i in unchanged if unchanged[i] >= self.stability)})
        history = [*state.history, [len(graph.unmatched), len(graph.communities)]]
        state = state.next(
            models={str(i): work.models[i] for i in stable}, samples={str(i): work.samples[i] for i in stable},
            stable=stable, frozen=frozen, history=history, **vars(graph),
            community_models=community_models, clusters={str(i): numbers for i, numbers in clusters.items()},
            cluster_models=torch.stack([every_model[cluster] for cluster in used]) if used else state.cluster_models,
            finished=self._is_over(history, stable == fed.present) or state.steps + 1 >= self.max_iterations,
        )  # fmt: skip
        if state.finished:
            self.conclude(fed, state)
        values = {
            "clusters": len(state.cluster_models), "communities": len(graph.communities),
            "unmatched": len(graph.unmatched), "local_clusters": len(graph.nodes), "associations": len(graph.edges),
            "active": len(unchanged), "cut": graph.cut,
            "unchanged": sum(unchanged.values()) / len(unchanged) if unchanged else 1.0,
        }  # fmt: skip
        return state, Record([i for i in fed.present if i not in work.lost], work.lost, values)

    def conclude(self, fed: Federation, state: FedCRefState) -> Replies[Payload]:
        if not len(state.cluster_models):
            raise FedkinError("No client could be reached in any iteration, so no clusters were found.")
        by_model = {**tasks.spec(state.model), "models": state.cluster_models}
        payloads: dict[int, Payload] = dict.fromkeys(fed.present, by_model)
        payloads |= {int(client): {"clusters": clusters} for client, clusters in state.clusters.items()}
        return broadcast(fed, tasks.finish, payloads)

    def result(self, state: FedCRefState) -> dict[str, Any]:
        communities: list[list[LocalCluster]] = [[] for _ in state.cluster_models]
        for client in sorted(map(int, state.clusters)):
            for local_cluster, cluster in enumerate(state.clusters[str(client)]):
                communities[cluster].append([client, local_cluster])
        found = {"n_clusters": len(communities), "communities": communities, "models": state.cluster_models}
        return {"widths": state.widths, "output": state.output, **found}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return _errors(result, x).argmin(dim=0)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        return distance_margin(_errors(result, x).T)

    def with_oracle(self, oracle: Oracle) -> Self:
        return replace(self, oracle=oracle) if self.associations == "perfect" else self

    # The parts of an iteration.

    def _start(self) -> Payload:
        return {"initial": self.initial, "n_clusters": self.n_clusters}

    def _train_clusters(self, fed: Federation, state: FedCRefState) -> Iteration:
        """Have active clients train models (lines 7-9), with which the iteration begins."""
        replicas = 2 if self.associations == "held-out" else 1
        training = StackTraining(self.local_epochs, self.min_steps, self.batch_size, self.learning_rate)
        payload = {**self._start(), **tasks.spec(state.model)}
        payload |= {"training": asdict(training), "replicas": replicas}
        expected: forms.Expected = {
            "models": forms.updates("clusters", replicas, state.model.size), "samples": forms.int64("clusters")
        }  # fmt: skip
        payloads = dict.fromkeys((i for i in fed.present if i not in state.frozen), payload)
        replies = fed.ask(tasks.train_clusters, payloads, expected)
        models = {i: state.models[str(i)] for i in state.frozen} | {i: r["models"] for i, r in replies.items()}
        samples = {i: state.samples[str(i)] for i in state.frozen} | {i: r["samples"] for i, r in replies.items()}
        return Iteration(fed, state, models, samples, set(replies), replies.missing)

    def _associate(self, work: Iteration) -> AssociationGraph:
        """Exchange and score models, and associate local clusters (lines 10-21)."""
        models = work.models
        nodes = [[client, q] for client in sorted(models) for q in range(len(models[client]))]
        if self.associations == "perfect":
            if self.oracle is None:
                raise FedkinError("method.associations = 'perfect' needs the true classes, which only a scenario has.")
            return association.by_class(nodes, [self.oracle(client)[q] for client, q in nodes])
        statistics = self._score(work, nodes)
        if self.associations == "paper":
            return association.by_threshold(nodes, statistics, self.threshold)
        return association.by_held_out_rule(nodes, statistics)

    def _score(self, work: Iteration, nodes: list[LocalCluster]) -> Tensor:
        """Send all models to all clients; return statistics of the row's samples with the column's model, or NaN."""
        statistics, models = torch.full((len(nodes), len(nodes)), torch.nan), work.models
        if not models:
            return statistics
        payload = {**tasks.spec(work.state.model), "rule": self.associations, "percentile": self.percentile}
        payload["models"] = torch.cat([models[client] for client in sorted(models)])
        expected = {i: {"statistics": forms.reals(len(models[i]), len(nodes))} for i in models}
        for i, reply in work.ask(tasks.score, dict.fromkeys(models, payload), expected.__getitem__).items():
            statistics[[a for a, (client, _) in enumerate(nodes) if client == i]] = reply["statistics"]
        return statistics

    def _train_communities(self, work: Iteration, graph: AssociationGraph, frozen: list[int]) -> Tensor:
        """Train one model per community by federated averaging over its local clusters (lines 22-24)."""
        state, fed = work.state, work.fed
        communities = [[graph.nodes[a] for a in members] for members in graph.communities]
        models = state.model.initial([fed.rng("community", state.steps, g) for g in range(len(communities))])
        # Communities whose members are the same as before and have all stopped keep their models.
        stopped = set(frozen) & set(state.frozen)
        before = {str([state.nodes[a] for a in members]): g for g, members in enumerate(state.communities)}
        members: dict[int, list[tuple[int, int]]] = {}
        for cluster, community in enumerate(communities):
            if str(community) in before and all(client in stopped for client, _ in community):
                models[cluster] = state.community_models[before[str(community)]]
                continue
            for client, q in community:
                members.setdefault(client, []).append((cluster, q))
        for round_ in range(self.rounds if members else 0):
            epochs = self.round_epochs if round_ else self.first_epochs
            training = StackTraining(epochs, self.min_steps // self.rounds, self.batch_size, self.learning_rate)
            common = {**tasks.spec(state.model), "training": asdict(training)}
            payloads: dict[int, Payload] = {
                i: {**common, "models": models[[g for g, _ in parts]], "clusters": [q for _, q in parts]}
                for i, parts in members.items()
            }
            expected = {
                i: {"models": forms.updates(len(parts), state.model.size), "samples": forms.int64(len(parts))}
                for i, parts in members.items()
            }
            replies = work.ask(tasks.train_community, payloads, expected.__getitem__)
            means = Means(len(models), state.model.size)
            for client, reply in replies.items():
                for (cluster, _), model, n in zip(members[client], reply["models"], reply["samples"], strict=True):
                    means.add(cluster, model, float(n), client)
            for cluster in {cluster for client in replies for cluster, _ in members[client]}:
                models[cluster] = means.of(cluster)
            means.check(models)
        return models

    def _refine(
        self, work: Iteration, graph: AssociationGraph, community_models: Tensor, active: list[int]
    ) -> tuple[dict[int, list[int]], dict[int, float]]:
        """Have clients refine local clusters (lines 26-32); return clusters and fractions of unchanged samples."""
        keep_all = self.associations != "held-out"
        clusters, count = graph.clusters(), len(community_models)
        # Local clusters whose own models compete with those of all communities: in the paper all, else unmatched ones.
        competing = {i: [q for q, c in enumerate(clusters[i]) if keep_all or c >= count] for i in active}
        common = {**tasks.spec(work.state.model), "models": community_models}
        common["free"] = self.n_clusters == "auto"
        payloads = {i: {**common, "own": competing[i]} for i in active}
        expected = {i: {"selected": forms.ListOf(forms.below(len(competing[i]) + count))} for i in active}
        replies = work.ask(tasks.refine, payloads, expected.__getitem__)
        for i in replies.missing:
            del clusters[i]  # the client may have refined, and its reply was lost
        for i, reply in replies.items():
            choices = [clusters[i][q] for q in competing[i]] + list(range(count))
            clusters[i] = [choices[chosen] for chosen in reply["selected"]]
        return clusters, {i: reply["unchanged"] for i, reply in replies.items()}

    def _is_over(self, history: list[list[int]], all_stable: bool) -> bool:
        """Whether the run ends (line 6): no client is active any more, or the graph is settled (phase 5).

        It is, once the numbers of communities and of unmatched local clusters both changed by at most a tenth, three
        times in a row.
        """
        recent = history[1:][-4:]
        return all_stable or (
            len(recent) == 4
            and all(
                abs(after - before) <= 0.1 * max(before, 1)
                for earlier, later in pairwise(recent)
                for before, after in zip(earlier, later, strict=True)
            )
        )


def _errors(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return the errors ``(clusters, n)`` of samples ``(n, ...)`` with each model of a result."""
    return Autoencoder(tuple(result["widths"]), result["output"]).errors(result["models"], x.flatten(1))
