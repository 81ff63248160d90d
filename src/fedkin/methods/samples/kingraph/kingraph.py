"""kin-graph: clustering by communities of a graph of all clients' micro-clusters; fedkin's own method.

Each client divides its samples into many micro-clusters, in the space of the leading principal components of features
that need no training, whitened by the scatter between neighbours. Means and sizes of micro-clusters leave the client
once. The server links each to its nearest neighbours, of all clients, and finds communities of that graph.
Micro-clusters are pure even if classes overlap, so that the heterogeneity of clients has little effect.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Interval
from torch import Tensor

from fedkin.clustering.k_means import share_margin
from fedkin.clustering.node_cut import more_than_nodes, node_clusters
from fedkin.clustering.node_votes import counted, counted_shares, nearest_nodes, node_margins
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State
from fedkin.core.federation import Replies
from fedkin.core.method import Count, Nodes, Positive, Values
from fedkin.core.seeds import draw_seed
from fedkin.features import extractors as named
from fedkin.features.extractors import is_encoder
from fedkin.features.pca import width_kept
from fedkin.methods.samples.kingraph.common_micro_clusters import common_step
from fedkin.methods.samples.kingraph.kingraph_space import (
    MAX_BROADCAST,
    KinGraphState,
    cut_nodes,
    described,
    features_of,
    memory_of,
    points_of,
    receive_clusters,
    without_labels,
)
from fedkin.methods.samples.kingraph.own_micro_clusters import (
    KEPT_OF_FORGOTTEN,
    own_step,
    without_clients,
)
from fedkin.methods.samples.kingraph.private_kingraph import PrivacyBudget, private_step
from fedkin.methods.samples.kingraph.refinement import (
    ROUNDS,
    assign_by_head,
    begin,
    final_head,
    head_shares,
    refine,
)
from fedkin.methods.samples.sample_method import SampleMethod, broadcast, reasons, repeat_step
from fedkin.report.figures import Figure, ResultTable, TableCell, Text
from fedkin.report.numbers import pluralize, shown
from fedkin.secure_aggregation.client_tasks import MIN_CLIENTS

_UNIT = 1e-6  # shorter than any features, so that all are scaled to length 1
_FLAT = (
    "The columns look like the pixels of square images, so the edges of these are compared; set method.features "
    'to "raw" to compare the columns.'
)
_FOUND_IN = {
    "graph": "",
    "density": ": the gaps between micro-clusters show them (HDBSCAN)",
    "modes": ": samples differ in one direction alone, and clusters are the modes of their density",
    "k-means": ": samples differ in one direction alone, and its density does not show as many (k-means)",
    "nothing": ": no division is found again both without some of the micro-clusters and by another tree of them",
}


class KinGraphValues(Values, total=False):
    """Values of a step: of the components, the cut with coarser and finer `scales`, or a round of refinement."""

    features: str
    components: int
    explained: float
    samples: int
    nodes: int
    edges: int
    micro_clusters: int
    found_in: str
    scales: list[dict[str, Any]]
    stability: float | None
    agreement: float | None
    turned: float
    exchanges: int
    sums: str
    epsilon: float
    delta: float
    noise_source: str


@dataclass(frozen=True)
class KinGraphMethod(SampleMethod):
    """kin-graph: clusters samples by communities of a graph of the clients' micro-clusters.

    Three steps: in "components" clients send moments of their features; in "differences" the scatter between
    neighbours; in "graph" their micro-clusters, and receive the clusters of these, or of all nodes. Clients that do not
    answer in the last step, or join later, are assigned by the nearest nodes. A step that no client with enough samples
    answers is repeated, up to step 20; that of the differences up to step 6.

    Attributes
    ----------
    n_clusters : int or "auto"
        Clusters to find; "auto" finds the number.
    resolution : float or "auto"
        Instead of a number of clusters: communities with fewer links than so many times chance stay apart, as in
        Louvain's and Leiden's algorithms. The higher, the more clusters.
    features : str
        What samples are compared by. "auto" is "gradients" for images of 8 x 8 or more, "flat-gradients" for tables
        whose columns look like the pixels of such images, else "raw". An encoder is "rocket" for series,
        "sentence-transformers:NAME" for texts, "timm:NAME", "onnx:FILE" or "torch:FILE". More than 2,048 features are
        first projected at random to 1,024, and more than 384 of an encoder to 384.
    components : int
        Maximum number of principal components; with more features, only components that exceed noise.
    micro_clusters : int
        Maximum number of micro-clusters per client; at most one per `min_members` samples, and 100,000 in all.
    min_members : int
        Minimum number of samples in a micro-cluster; smaller ones join the nearest. A client with fewer samples sends
        nothing. With 1, features of single samples may leave a client.
    common_micro_clusters : bool or "auto"
        Whether clients describe their samples by the same micro-clusters, found from some 20 sums over all of
        them. `min_members` then holds over all clients together, and that of a real
        site's own file for its part; it hardly matters how samples are spread over clients. More than 64 clients do so
        in groups of at most 64. With three clients or more the sums are secure: the server does not see a client's
        part; with fewer it does, and a part can be of single samples. "auto" uses them where a run asks for secure
        sums; else with three clients or more that have fewer than 40 times `min_members` samples on average, as long as
        three reply.
    neighbours : int
        Maximum number of nearest nodes that a node is linked to; fewer in small graphs.
    broadcast_nodes : bool or "auto"
        Whether all clients receive all nodes, including means of other clients' samples, and assign each sample by a
        vote of its nearest nodes. Otherwise a sample has the cluster of its micro-cluster, and only clients without
        micro-clusters receive the nodes. "auto" broadcasts up to 2,000 nodes: with so few, many samples are in a
        micro-cluster of another cluster. With an epsilon all clients receive the nodes, which are noisy then.
    epsilon : float or None
        With an epsilon, all that leaves a client is (epsilon, delta)-differentially private with regard to adding or
        removing any one of its samples. Centres are then common to all clients, at most 400 in
        25 components; options of micro-clusters have no effect. The scaling of the data is not covered: give data in
        [0, 1] or standardised by public numbers. Simulated noise follows from the run's seed, and hides nothing from
        who knows it.
    delta : float
        Delta of (epsilon, delta)-differential privacy.
    refine : bool
        Whether a softmax head then learns that neighbours at a client have the same cluster, from 100 sums over
        clients. It is for embeddings of images and texts whose number of clusters is given: there it
        gains ARI, and it loses some if the number is wrong, and of series. With fewer than three clients the server
        sees the parts of the sums. Clusters that are cut again, or found without a client, are not refined.
    """

    n_clusters: Count | Literal["auto"] = "auto"
    resolution: Positive | Literal["auto"] = "auto"
    features: str = "auto"
    components: Count = 60
    micro_clusters: Count = 600
    min_members: Count = 5
    common_micro_clusters: bool | Literal["auto"] = "auto"
    neighbours: Count = 15
    broadcast_nodes: bool | Literal["auto"] = "auto"
    epsilon: Positive | None = None
    delta: Annotated[float, Interval(gt=0, lt=1)] = 1e-5
    refine: bool = False

    traits = SampleMethod.traits.replace(
        finds_k=True,
        cost="cheap",
        has_device=True,
        sums_suffice={"common_micro_clusters": (True, "auto"), "epsilon": None},
    )
    state_type: ClassVar[type[State]] = KinGraphState
    record_type: ClassVar[type[Any]] = KinGraphValues
    soft = True

    def __post_init__(self) -> None:
        if "auto" not in (self.n_clusters, self.resolution):
            raise FedkinError("n_clusters and resolution were both given; each alone decides the clusters.")
        if self.refine and self.epsilon is not None:
            raise FedkinError("refine is True, and no epsilon accounts for its sums; leave one of them out.")

    def init(self, fed: Federation) -> KinGraphState:
        """Choose the features that samples are compared by, and return the first state."""
        shape, blocks, flat, counts = described(fed, private=self.epsilon is not None)
        common = self._common(fed, counts)
        name = named.suited(shape, flat) if self.features == "auto" else self.features
        table = (len(shape) == 1 and name != "flat-gradients") or is_encoder(name)
        width = named.width_of(name, shape)
        kept = width_kept(width, is_encoder(name))
        return KinGraphState(
            features=name,
            blocks=blocks if table and name == "raw" and kept == width else blocks[:0],
            width=kept,
            projection=draw_seed(fed.rng("projection")) if kept < width else None,
            bound=None if self.epsilon is None else math.sqrt(kept) if table else _UNIT,
            common=common,
        )

    def step(self, fed: Federation, state: KinGraphState) -> tuple[KinGraphState, Record]:
        """Find the components, whiten them, find the clusters, or refine them, in this order."""
        if state.head:
            return self._refined(fed, state)
        if len(state.centroids):  # only the clusters are to be found again
            return self._cut(fed, state, again=True)
        if state.common:
            may_change = self.common_micro_clusters == "auto"
            found, record = common_step(fed, state, self.min_members, self.components, may_change)
        elif self.epsilon is None:
            found, record = own_step(fed, state, self.min_members, self.components, self.micro_clusters)
        else:
            found, record = private_step(fed, state, PrivacyBudget(self.epsilon, self.delta), self.components)
        if found is None:
            why = reasons(record.missing)
            failure = f"No client with enough samples answered kin-graph in step {state.steps + 1} and before ({why})."
            return repeat_step(fed, state, record, failure)
        if not len(found.centroids):
            if record.values["phase"] == "components" and (found.features, self.features) == ("flat-gradients", "auto"):
                record.values["note"] = _FLAT
            return found.next(), record
        after, cut = self._cut(fed, found)
        return after, Record(record.answered, record.missing, {**cut.values, **record.values})

    def is_private(self) -> bool:
        """Whether there is an `epsilon`."""
        return self.epsilon is not None

    def ready(self, state: KinGraphState) -> bool:
        """Whether there are clusters."""
        return len(state.clusters) > 0

    def result(self, state: KinGraphState) -> dict[str, Any]:
        """Return the nodes of the graph with their clusters, and the parameters that turn samples into points."""
        head = {"head": final_head(state.head)} if state.head else {}
        return {**cut_nodes(state), "scales": without_labels(state.scales), **head}

    def nodes(self, state: KinGraphState) -> Nodes:
        """Return the nodes of the graph; of tables with the means of their columns."""
        cuts = [scale["labels"].long() for scale in state.scales if "labels" in scale]
        owners, spread = torch.full_like(state.clusters, -1), len(state.own) != len(state.centroids)
        if len(state.own) and not spread:
            owners[state.own[:, 1]] = state.own[:, 0]
        is_raw = state.features == "raw" and state.projection is None and state.bound is None
        back = (
            torch.linalg.pinv(state.directions) if is_raw else state.directions.new_zeros(state.directions.shape[1], 0)
        )
        return Nodes(
            state.centroids, state.counts, state.clusters,
            node_margins(cut_nodes(state), state.centroids, state.clusters), owners,
            torch.stack(cuts) if len(cuts) > 1 else state.clusters.new_zeros(0, len(state.clusters)),
            [scale["stability"] for scale in state.scales],
            state.centroids @ back + (state.mean if is_raw else 0.0),
        )  # fmt: skip

    @classmethod
    def figures(cls, records: Sequence[Mapping[str, Any]]) -> list[Figure]:
        """Describe how clusters were found, how stable they are, and coarser and finer ones."""
        figures: list[Figure] = []
        for record in records:
            values = record["values"]
            if not (scales := values.get("scales")):
                continue
            nodes, clients = pluralize(values["nodes"], "micro-cluster"), pluralize(len(record["answered"]), "client")
            gave = f"{pluralize(values['clusters'], 'cluster')}{_FOUND_IN[values['found_in']]}"
            figures.append(Text([f"In step {record['step']}, {nodes} from {clients} gave {gave}."]))
            if len(scales) > 1:
                caption = (
                    "Each row is one division of all samples, the coarsest first; fedkin cut gives its clusters. "
                    "Stability: how alike clusters are if some micro-clusters are left out, 1 is the same (ARI)."
                )
                rows = []
                for scale in scales:
                    name = f"{len(scale['samples'])}{' (found)' if scale['chosen'] else ''}"
                    sizes = ", ".join(f"{size:,}" for size in sorted(scale["samples"], reverse=True))
                    rows.append((name, [TableCell(shown(scale["stability"], "share")), TableCell(sizes)]))
                heads = ["stability", "samples of each"]
                figures.append(ResultTable("Coarser and finer clusters", caption, "clusters", heads, rows))
        return figures

    def before_cut(self, state: KinGraphState) -> KinGraphState:
        """Return the finished `state` reset to find clusters again; refuse more clusters than nodes."""
        if isinstance(self.n_clusters, int) and self.n_clusters > len(state.centroids):
            raise FedkinError(more_than_nodes(self.n_clusters, len(state.centroids)))
        return state.before_cut()

    def without(self, state: KinGraphState, clients: Collection[int]) -> KinGraphState | None:
        """Return the finished `state` reset to before its last step, without the nodes of `clients`."""
        left = without_clients(state, clients)
        return None if left is None else left.before_cut()

    def remains(self) -> str:
        return KEPT_OF_FORGOTTEN

    def clusters_of(self, state: KinGraphState, rng: torch.Generator) -> tuple[KinGraphState, dict[str, Any]]:
        """Find clusters of the nodes, by `n_clusters` and `resolution`; return the state and values for the record.

        The clusters of `state` are ignored. `rng` draws resamples; a run's is ``fed.rng("communities")``.
        """
        number = None if self.n_clusters == "auto" else self.n_clusters
        resolution = None if self.resolution == "auto" else self.resolution
        clusters, found = node_clusters(
            state.centroids, state.counts, self.neighbours, number, resolution, rng, state.discrete
        )
        values = {"phase": "graph", **found, **({"micro_clusters": len(state.own)} if len(state.own) else {})}
        scales = [{**scale, "labels": torch.from_numpy(scale["labels"]).short()} for scale in found["scales"]]
        values["scales"] = without_labels(scales)
        return replace(state, finished=True, clusters=clusters, scales=scales), values

    def conclude(self, fed: Federation, state: KinGraphState) -> Replies[Payload]:
        """Send clients the clusters of their micro-clusters, or of all nodes, or the head."""
        if not len(state.clusters):
            return Replies({}, {})
        if state.head:
            return broadcast(fed, assign_by_head, fed.all(head=final_head(state.head)))
        result = cut_nodes(state)
        payloads = fed.all(result=result)
        to_all = len(state.clusters) <= MAX_BROADCAST if self.broadcast_nodes == "auto" else self.broadcast_nodes
        if len(state.own) and not to_all:
            margins = node_margins(result, state.centroids, state.clusters)
            clients, sizes = state.own[:, 0].unique_consecutive(return_counts=True)
            for client, nodes in zip(clients.tolist(), state.own[:, 1].split(sizes.tolist()), strict=True):
                if client in payloads:
                    payloads[client] = {"clusters": state.clusters[nodes], "confidence": margins[nodes]}
        return broadcast(fed, receive_clusters, payloads)

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the cluster of samples ``(n, *shape)`` by the head or a vote of the nearest nodes; int64 ``(n,)``."""
        if "head" in result:
            return head_shares(result["head"], x).argmax(1)
        return counted(nearest_nodes(result["centroids"], points_of(result["space"], x)), result)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return how much nearer samples are to their cluster than to the next: `node_margins`, float32 ``(n,)``.

        With a head it is the difference of the two largest memberships.
        """
        if "head" in result:
            return share_margin(head_shares(result["head"], x))
        points = points_of(result["space"], x)
        return node_margins(result, points, counted(nearest_nodes(result["centroids"], points), result))

    @staticmethod
    def memberships(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return the head's probabilities, or parts of the nearest nodes' votes, float32 ``(n, n_clusters)``."""
        if "head" in result:
            return head_shares(result["head"], x)
        return counted_shares(nearest_nodes(result["centroids"], points_of(result["space"], x)), result)

    @classmethod
    def client_memberships(cls, result: Mapping[str, Any], client: Client) -> Tensor | None:
        """Return memberships of a client's own samples, ``None`` if the client has not received the nodes."""
        if "head" in result:
            return cls.memberships(result, client.x)
        memory = memory_of(client)
        return None if memory is None else counted_shares(memory, result)

    @staticmethod
    def contrast(result: Mapping[str, Any], x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next best cluster by the means of the clusters' nodes, and the parts of features.

        Means are taken back to features by the pseudoinverse of the directions.
        """
        space, clusters = result["space"], KinGraphMethod.predict(result, x)
        features, points = features_of(space, x).double(), points_of(space, x).double()
        weights = torch.zeros(int(result["clusters"].max()) + 1, len(result["clusters"]), dtype=torch.float64)
        weights[result["clusters"], torch.arange(len(result["clusters"]))] = result["counts"].double().clamp_min(1e-9)
        means = (weights / weights.sum(1, keepdim=True).clamp_min(1e-9)) @ result["centroids"].double()
        if len(means) < 2:
            return torch.full((len(x),), -1), torch.zeros_like(features)
        away = torch.cdist(points, means)
        away[torch.arange(len(x)), clusters] = torch.inf
        after = away.argmin(1)
        directions = space["directions"].double()
        between = (means[clusters] - means[after]) @ directions.T
        middle = space["mean"].double() + (means[clusters] + means[after]) / 2 @ torch.linalg.pinv(directions)
        return after, 2 * (features - middle) * between

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the principal components of samples ``(n, *shape)``: float32 ``(n, d)``."""
        return points_of(result["space"], x)

    def _common(self, fed: Federation, counts: Mapping[int, int]) -> bool:
        """Return whether micro-clusters are common; refuse clients with too few samples for their own."""
        if self.epsilon is not None or fed.secure_sums:
            return fed.secure_sums and self.epsilon is None
        common, most = self.common_micro_clusters, max(counts.values())
        if common == "auto":
            few = sum(counts.values()) < 40 * self.min_members * len(counts)
            common = few and len(counts) >= MIN_CLIENTS
        if not common and most < self.min_members:
            raise FedkinError(
                f"method.min_members is {self.min_members}, and no client has more than {most} samples; set it lower."
            )
        return common

    def _cut(self, fed: Federation, state: KinGraphState, again: bool = False) -> tuple[KinGraphState, Record]:
        """Find the clusters of the nodes and send them to clients; the record names the clients that received them."""
        after, values = self.clusters_of(state, fed.rng("communities"))
        if self.refine and again:
            values["note"] = "Clusters that are found again are not refined."
        replies = self.conclude(fed, after)
        record = Record(list(replies), replies.missing, values)
        if self.refine and not again and after.clusters.any():
            # Clients have received clusters before, which `cut` divides anew.
            after = replace(after, finished=False, head=begin(fed, after, self.min_members))
        return after.next(), record

    def _refined(self, fed: Federation, state: KinGraphState) -> tuple[KinGraphState, Record]:
        """Make one round of the head, and after the last send it to all clients."""
        head, record = refine(fed, state.head)
        after = replace(state, head=head, finished=head["rounds"] >= ROUNDS)
        if after.finished:
            self.conclude(fed, after)
        return after.next(), record
