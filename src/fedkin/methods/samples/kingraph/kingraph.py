"""kin-graph: one graph of all clients' small clusters, cut into clusters; fedkin's own method.

A client's samples become many small clusters, in the space of the leading principal components of features that need no
training, scaled by how much neighbours differ in them. Their means and sizes leave the client once. The server links each
to its nearest ones, of whatever client, and cuts the graph where few links cross. Small clusters are pure even where the
classes within a client are not apart, and a chain of neighbours follows the shape of a cluster where a centroid cannot, so
that it does not matter how classes are spread over clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Interval
from torch import Tensor

from fedkin.core import Federation, FedkinError, Payload, Record, State
from fedkin.core.method import Count, Fraction, Positive
from fedkin.core.seeds import draw_seed
from fedkin.data.reading.arrays import common_shape
from fedkin.features import extractors as named
from fedkin.features.pca import PROJECTED, WIDEST, FeatureMoments, components
from fedkin.methods.samples.kingraph.community_joining import FEW_DIMENSIONS
from fedkin.methods.samples.kingraph.graph_cut import communities, largest_client_share
from fedkin.methods.samples.kingraph.kingraph_tasks import (
    points_of,
    send_differences,
    send_moments,
    send_summary,
    take_clusters,
    voted,
)
from fedkin.methods.samples.kingraph.micro_clusters import condensed
from fedkin.methods.samples.kingraph.neighbour_graph import neighbour_graph
from fedkin.methods.samples.kingraph.private_kingraph import (
    PrivacyBudget,
    private_clusters,
    private_components,
    send_shape,
)
from fedkin.methods.samples.kingraph.whitening import FEW, whitened
from fedkin.methods.samples.sample_method import SampleMethod, broadcast, describe_clients

_ATTEMPTS, _PATIENT, _SMOOTHING = 20, 6, 10
_FEW_NODES = 2_000
"""As many are told to all clients; clusters of more samples are no better for it."""
_TOO_FEW_NODES = 100
"""Below so many, ten clusters are often taken for one."""
_UNIT = 1e-6
"""A bound below which no features are: all get length 1."""
_OVERSUPPLY = 5
"""Small clusters that clients send, as a multiple of the nodes that the server's graph may have."""


@dataclass(frozen=True)
class KinGraphState(State):
    """What the server knows.

    Attributes
    ----------
    features : str
        What samples are compared by.
    width : int
        Numbers of a sample's features.
    standardise : bool
        Whether features are, before components are taken.
    projection : int or None
        Seed of the random projection of features that are too many.
    bound : float or None
        What features are divided by, or by their own length if that is greater; ``None`` leaves them as they are.
    large : list of int
        Clients that can tell how neighbours differ.
    smoothing : int
        Neighbours that a client's points are averaged with.
    samples : float
        With differential privacy, the noisy number of all clients' samples.
    mean, directions, variances : Tensor
        The components, once they are known; see `fedkin.features.pca.Components`.
    whitened : bool
        Whether directions have been divided by how much neighbours differ in them.
    centroids : Tensor
        float32 ``(m, d)``: nodes of the graph.
    counts, clusters : Tensor
        int64 ``(m,)``: samples in each of them, and its cluster.
    """

    features: str = "raw"
    width: int = 0
    standardise: bool = False
    projection: int | None = None
    bound: float | None = None
    large: list[int] = field(default_factory=list)
    smoothing: int = 0
    samples: float = 0.0
    mean: Tensor = field(default_factory=lambda: torch.zeros(0))
    directions: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    variances: Tensor = field(default_factory=lambda: torch.zeros(0))
    whitened: bool = False
    centroids: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    counts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    clusters: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))

    @property
    def space(self) -> Payload:
        """All that turns samples into points."""
        return {
            "features": self.features,
            "projection": self.projection,
            "bound": self.bound,
            "mean": self.mean,
            "directions": self.directions,
        }


@dataclass(frozen=True)
class KinGraphMethod(SampleMethod):
    """kin-graph.

    Three steps: "components", in which clients send moments of their features; "differences", in which they send how
    neighbours differ; and "graph", in which they send their small clusters and are told the clusters of these, or of all.
    A client that did not answer in the last, or joined later, takes the clusters of the nearest small clusters. Steps in
    which no client with enough samples answers are repeated, up to twenty in all; that of the differences only in the
    first six.

    Attributes
    ----------
    n_clusters : int or "auto"
        Clusters to find; "auto" finds out how many there are.
    features : str
        See `fedkin.features.extractors.extract`. "auto" is "gradients" for images of 8 x 8 or more, else "raw". More than
        2,048 are first projected at random to 1,024.
    components : int
        Principal components, at most; of more features than that, those that stand out of noise.
    standardise : bool or "auto"
        Whether features are divided by their standard deviations first; "auto" does it for tables.
    whitening : float
        Each component is divided by this power, in [0, 1], of its standard deviation.
    local_whitening : float
        Then all directions are divided by this power, in [0, 1], of the standard deviation of the differences between
        neighbours at the same client, see `kingraph_whiten`: what tells neighbours apart tells no clusters apart. Clients
        with fewer than 64 samples have no say. With 0 there is no such step, nor is there with an epsilon.
    smoothing : int or "auto"
        Before a client looks for small clusters, each of its points moves to the mean of itself and of so many nearest
        ones at the client; of fewer at a client of less than 6,400 samples, an eighth of the root of its samples, and none
        at one of less than 256. 0 leaves points alone. "auto" is 10 for images and 0 for tables: where many components
        are mere noise, neighbours in it are the same few for all, and every client's share of a cluster becomes one of its
        own.
    smoothing_rounds : int
        How often they do, with the neighbours of the beginning.
    micro_clusters : int
        Most small clusters of a client. One with few samples has one for every `min_members` samples, and many clients
        have fewer each, so that together they send five times `max_nodes` at most.
    min_members : int
        Least samples of a small cluster; smaller ones join the nearest. A client with fewer samples sends nothing at all.
        With 1, single samples' features may leave a client.
    neighbours : int
        Nearest nodes that a node of the graph is linked to, at most; fewer in small graphs, see `neighbour_graph`.
    max_nodes : int
        Nodes of the graph; small clusters beyond this number are clustered once more, weighted by their counts.
    broadcast_nodes : bool or "auto"
        Whether clients are told all nodes, means of other clients' samples among them, and each of their samples gets the
        cluster that the nodes nearest to it vote for, smoothed once. Else it has the cluster of its small cluster, and only
        clients without one are told the nodes. "auto" is true of 2,000 nodes at most: of few samples many are in small
        clusters of another cluster than their own. With an epsilon all clients are told the nodes, which are noisy then.
    epsilon : float or None
        With an epsilon, all that leaves a client is (epsilon, delta)-differentially private with regard to any one of its
        samples, there or not, see `kingraph_private`. Centres are then common to all clients, at most 400 in 25
        components; options of the client's own small clusters have no effect. Scaling of the data is no part of it: give
        data in [0, 1] or standardised by numbers that are public. ``benchmarks/kin_graph.py privacy`` measures what is
        left: MNIST with p = 0 and 10 clusters given has NMI 0.91, 0.89 and 0.85 at epsilon 10, 4 and 2, and 0.95 without
        (seeds 0 and 1).
    delta : float
        The delta that goes with `epsilon`.
    """

    n_clusters: Count | Literal["auto"] = "auto"
    features: str = "auto"
    components: Count = 60
    standardise: bool | Literal["auto"] = "auto"
    whitening: Fraction = 0.0
    local_whitening: Fraction = 1.0
    smoothing: Annotated[int, Ge(0)] | Literal["auto"] = "auto"
    smoothing_rounds: Count = 3
    micro_clusters: Count = 600
    min_members: Count = 5
    neighbours: Count = 15
    max_nodes: Count = 20_000
    broadcast_nodes: bool | Literal["auto"] = "auto"
    epsilon: Positive | None = None
    delta: Annotated[float, Interval(gt=0, lt=1)] = 1e-5

    state_type: ClassVar[type[State]] = KinGraphState

    def init(self, fed: Federation) -> KinGraphState:
        """What samples are compared by."""
        shape, large = self._described(fed) if self.epsilon is None else (common_shape(fed.ask_until_all_reply(send_shape, {})), [])
        table = len(shape) == 1
        name = named.suited(shape) if self.features == "auto" else self.features
        width = named.width_of(name, shape)
        if self.epsilon is None:
            bound, standardise = None, table if self.standardise == "auto" else self.standardise
        else:
            bound, standardise = math.sqrt(min(width, PROJECTED)) if table else _UNIT, False
        return KinGraphState(
            features=name,
            width=width if width <= WIDEST else PROJECTED,
            projection=draw_seed(fed.rng("projection")) if width > WIDEST else None,
            standardise=standardise,
            bound=bound,
            large=large,
            smoothing=self.smoothing if self.smoothing != "auto" else 0 if table else _SMOOTHING,
        )

    def step(self, fed: Federation, state: KinGraphState) -> tuple[KinGraphState, Record]:
        """Find the components; how neighbours differ in them; then the clusters."""
        if self.epsilon is None:
            if not len(state.mean):
                return self._components(fed, state)
            waits = self.local_whitening > 0 and not state.whitened
            return self._whitened(fed, state) if waits else self._graph(fed, state)
        budget = PrivacyBudget(self.epsilon, self.delta)
        if not len(state.mean):
            return self._private_components(fed, state, budget)
        return self._private_graph(fed, state, budget)

    def ready(self, state: KinGraphState) -> bool:
        """Whether there are clusters."""
        return len(state.clusters) > 0

    def result(self, state: KinGraphState) -> dict[str, Any]:
        """The nodes of the graph with their clusters, and what turns samples into points among them."""
        n_clusters = int(state.clusters.max()) + 1 if len(state.clusters) else 0
        nodes = {"centroids": state.centroids, "counts": state.counts, "clusters": state.clusters}
        return {"n_clusters": n_clusters, "space": state.space, **nodes}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Cluster of samples ``(n, *shape)``: that which the nearest nodes vote for; int64 ``(n,)``."""
        return voted(result, points_of(result["space"], x))

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """The components of samples ``(n, *shape)``: float32 ``(n, d)``."""
        return points_of(result["space"], x)

    def _described(self, fed: Federation) -> tuple[tuple[int, ...], list[int]]:
        """Shape of a sample, and clients with enough of them to tell how neighbours differ; some must have a few."""
        facts = describe_clients(fed)
        most = max(facts.samples.values())
        if most < self.min_members:
            raise FedkinError(
                f"method.min_members is {self.min_members}, and no client has more than {most} samples; set it lower."
            )
        return facts.shape, [client for client, samples in facts.samples.items() if samples >= FEW]

    def _components(self, fed: Federation, state: KinGraphState) -> tuple[KinGraphState, Record]:
        found: FeatureMoments | None = None
        answered = []
        expected = {"total": (state.width,), "scatter": (state.width * (state.width + 1) // 2,)}
        for client, reply in fed.stream(send_moments, fed.all(space=state.space, least=self.min_members), expected):
            answered.append(client)
            if reply:
                more = FeatureMoments.received(reply)
                found = more if found is None else found + more
        record = Record(answered, dict(fed.missing), {"phase": "components", "features": state.features})
        if found is None:
            if record.missing or not answered:
                return self._again(fed, state, record)
            raise FedkinError(
                f"No client that answered has {self.min_members} samples, which is method.min_members; set it lower."
            )
        leading = components(found, self.components, state.standardise, self.whitening)
        record.values.update(components=len(leading.variances), explained=leading.explained_variance(found, state.standardise))
        return state.next(**leading.tree()), record

    def _whitened(self, fed: Federation, state: KinGraphState) -> tuple[KinGraphState, Record]:
        width = len(state.variances)
        scatter, samples, answered = torch.zeros(width, width, dtype=torch.float64), 0, []
        payloads, expected = fed.all(space=state.space, least=self.min_members), {"scatter": (width, width)}
        for client, reply in fed.stream(send_differences, payloads, expected):
            answered.append(client)
            if reply:
                scatter += reply["scatter"] * reply["samples"]
                samples += reply["samples"]
        record = Record(answered, dict(fed.missing), {"phase": "differences"})
        waited_for = not samples and not set(state.large).isdisjoint(record.missing) and state.steps < _PATIENT
        if not answered or waited_for:
            return self._again(fed, state, record)
        mean = scatter / max(samples, 1)
        directions = whitened(state.directions, mean, samples, self.local_whitening)
        return state.next(whitened=True, directions=directions), record

    def _graph(self, fed: Federation, state: KinGraphState) -> tuple[KinGraphState, Record]:
        expected = {"centroids": ("nodes", state.directions.shape[1]), "counts": ("nodes",)}
        replies = fed.ask(send_summary, fed.all(**self._asked(state, len(fed.ids))), expected)
        missing, sent = dict(fed.missing), {i: reply for i, reply in replies.items() if reply}
        if not sent:
            return self._again(fed, state, Record(list(replies), missing, {"phase": "graph"}))
        pooled = torch.cat([reply["centroids"] for reply in sent.values()])
        counts = torch.cat([reply["counts"] for reply in sent.values()])
        nodes = condensed(pooled, counts, self.max_nodes, fed.rng("condensed"))
        after, values = self._cut(fed, state, nodes.centroids, nodes.counts)
        sizes = [len(reply["counts"]) for reply in sent.values()]
        clusters = after.clusters[nodes.labels]
        owners = torch.arange(len(sent)).repeat_interleave(torch.tensor(sizes))
        values["largest_client_share"] = largest_client_share(clusters, owners, counts)
        own = dict(zip(sent, clusters.split(sizes), strict=True))
        whole = self._told(after, rounds=1)
        all_told = len(nodes.counts) <= _FEW_NODES if self.broadcast_nodes == "auto" else self.broadcast_nodes
        broadcast(
            fed, take_clusters, {i: {"clusters": own[i]} if i in own and not all_told else whole for i in fed.present}
        )
        return after, Record(list(replies), missing, {**values, "micro_clusters": len(pooled)})

    def _private_components(
        self, fed: Federation, state: KinGraphState, budget: PrivacyBudget
    ) -> tuple[KinGraphState, Record]:
        found = private_components(fed, state.space, state.width, self.components, budget)
        record = Record(found.answered, found.missing, {"phase": "components", "features": state.features})
        if found.value is None:
            return self._again(fed, state, record)
        leading, samples = found.value
        record.values.update(components=len(leading.variances), epsilon=budget.epsilon, delta=budget.delta)
        return state.next(samples=samples, **leading.tree()), record

    def _private_graph(
        self, fed: Federation, state: KinGraphState, budget: PrivacyBudget
    ) -> tuple[KinGraphState, Record]:
        found = private_clusters(fed, state.space, state.variances, state.samples, budget)
        if found.value is None:
            return self._again(fed, state, Record(found.answered, found.missing, {"phase": "graph"}))
        centroids, counts = found.value
        if not len(counts):
            raise FedkinError(
                f"With method.epsilon = {budget.epsilon:g} the noise drowns all clusters of about {state.samples:,.0f} "
                "samples; it takes more samples or a greater epsilon."
            )
        after, values = self._cut(fed, state, centroids, counts)
        broadcast(fed, take_clusters, fed.all(**self._told(after, self.smoothing_rounds)))
        return after, Record(found.answered, found.missing, {**values, "epsilon": budget.epsilon})

    def _cut(
        self, fed: Federation, state: KinGraphState, centroids: Tensor, counts: Tensor
    ) -> tuple[KinGraphState, dict[str, Any]]:
        """The last state, with the clusters of nodes, and what to record of them."""
        graph = neighbour_graph(centroids, counts, self.neighbours)
        wanted = None if self.n_clusters == "auto" else self.n_clusters
        flat = centroids.shape[1] <= FEW_DIMENSIONS
        clusters, evidence = communities(graph, counts, wanted, fed.rng("communities"), flat=flat)
        after = state.next(finished=True, centroids=centroids, counts=counts, clusters=clusters)
        values = {"phase": "graph", "nodes": len(clusters), "edges": int(graph.nnz // 2)}
        values |= {"clusters": int(clusters.max()) + 1, **evidence}
        if wanted is None and values["clusters"] == 1 and len(clusters) < _TOO_FEW_NODES:
            values["warning"] = (
                f"One cluster was found among {len(clusters)} small clusters, too few to tell clusters apart; n_clusters "
                "gives their number, and a lower min_members makes more small clusters."
            )
        return after, values

    def _told(self, state: KinGraphState, rounds: int) -> Payload:
        """What a client is told to find its clusters by, other than those of its small clusters."""
        return {"result": self.result(state), "smoothing": state.smoothing, "rounds": rounds}

    def _asked(self, state: KinGraphState, clients: int) -> Payload:
        """What a client is told to make its summary by."""
        return {
            "space": state.space,
            "smoothing": state.smoothing,
            "rounds": self.smoothing_rounds,
            "least": self.min_members,
            "most": max(1, min(self.micro_clusters, _OVERSUPPLY * self.max_nodes // clients)),
        }

    def _again(self, fed: Federation, state: KinGraphState, record: Record) -> tuple[KinGraphState, Record]:
        if state.steps + 1 >= _ATTEMPTS:
            reasons = "; ".join(sorted(set(record.missing.values())))
            raise FedkinError(
                f"No client with enough samples answered kin-graph in step {state.steps + 1} and before ({reasons})."
            )
        fed.pause(state.steps + 1)
        return state.next(), record
