"""The space in which kin-graph compares samples, how it is found, the method's state, and what clients keep of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.node_cut import FEW_DIMENSIONS, Discrete
from fedkin.clustering.node_votes import Votes, counted, nearest_nodes, node_margins
from fedkin.clustering.whitening import whitened
from fedkin.core import Client, Federation, FedkinError, Payload, State, block_task
from fedkin.core.client_array import Block
from fedkin.core.payload import (
    MAX_COUNT,
    Array,
    Expected,
    Nullable,
    Optional,
    common_shape,
    int64,
    is_count,
    is_flag,
    is_name,
    is_seed,
    is_shape,
    positive,
    reals,
)
from fedkin.data.columns import aligned
from fedkin.data.preparation import encoding_of
from fedkin.features.extractors import drop, extract, is_encoder, kept_or_computed
from fedkin.features.gradients import flat_images
from fedkin.features.pca import (
    Components,
    FeatureMoments,
    components,
    random_projection,
    shared_basis,
    width_kept,
)
from fedkin.methods.samples.private_releases import send_shape

MAX_NODES = 20_000  # of the graph: the time of its links grows with the square
ENOUGH = 5 * MAX_NODES  # micro-clusters of all clients: of more clients or groups some are asked, and stand for all
MAX_BROADCAST = 2_000  # nodes sent to all clients: of more, sending them improves nothing
CONTINUOUS, UNKNOWN = -1, -2
"""What stands for a column that is not discrete, and for one of which a client cannot tell."""
_BATCH = 2048
SPACE: Expected = {
    "features": is_name, "projection": Nullable(is_seed), "bound": Nullable(positive), "mean": reals("width"),
    "directions": reals("width", "components"),
}  # fmt: skip
"""Payload schema of the parameters that turn samples into points."""


@dataclass(frozen=True)
class KinGraphState(State):
    """State of kin-graph: the space, and the nodes of the graph with their clusters.

    Attributes
    ----------
    features : str
    width : int
        Name and number of the features by which samples are compared.
    common : bool
        Whether micro-clusters are common to all clients.
    projection : int or None
        Seed of the random projection of too many features.
    bound : float or None
        Features are divided by this, or by their own length if that is greater; ``None`` leaves them unchanged.
    blocks : Tensor
        int64 ``(width,)``, which features are discrete, see `blocks_of`; empty if none is looked at.
    samples : float
        With differential privacy, the noisy total number of samples.
    mean, directions, variances : Tensor
        The principal components, once found; see `fedkin.features.pca.Components`.
    whitened : bool
        Whether directions are whitened by the scatter between neighbours.
    centroids, counts, clusters : Tensor
        float32 ``(m, d)``, nodes of the graph; int64 ``(m,)``, samples and cluster of each.
    own : Tensor
        int64 ``(p, 3)``, client, node and samples of each micro-cluster that a client sent, in order of clients; empty
        where they are common.
    scales : list of dict
        Partitions of the nodes, see `fedkin.clustering.node_cut`, with ``labels`` int16 ``(m,)``.
    head : dict
        The softmax head that refines the clusters, see `fedkin.methods.samples.kingraph.refinement`; empty without one.
    """

    features: str = "raw"
    width: int = 0
    common: bool = False
    projection: int | None = None
    bound: float | None = None
    blocks: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    samples: float = 0.0
    mean: Tensor = field(default_factory=lambda: torch.zeros(0))
    directions: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    variances: Tensor = field(default_factory=lambda: torch.zeros(0))
    whitened: bool = False
    centroids: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    counts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    clusters: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    own: Tensor = field(default_factory=lambda: torch.zeros(0, 3, dtype=torch.int64))
    scales: list[dict[str, Any]] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)

    def before_cut(self) -> KinGraphState:
        """Return the finished state reset to before its clusters were found, with its nodes, to find them again.

        There is no head then: the step that finds clusters again asks clients for nothing.
        """
        steps = self.steps - 1 - (self.head["rounds"] if self.head else 0)
        return replace(self, steps=steps, finished=False, clusters=self.clusters[:0], scales=[], head={})

    def at(self, found: Components) -> KinGraphState:
        """Return the state with the principal components `found`."""
        return replace(self, mean=found.mean, directions=found.directions, variances=found.variances)

    def without_differences(self, scatter: Tensor, samples: int) -> KinGraphState:
        """Return the state with directions `whitened` by the mean `scatter` between neighbours of so many samples."""
        ties = self.discrete != "none" and len(scatter) <= FEW_DIMENSIONS
        return replace(self, whitened=True, directions=whitened(self.directions, scatter, samples, ties))

    @property
    def discrete(self) -> Discrete:
        """Whether all, some or none of the directions are made of discrete columns."""
        own = self.blocks >= 0
        if not own.any() or not self.directions[own].any():
            return "none"
        return "all" if own.all() else "some"

    @property
    def space(self) -> Payload:
        """Parameters that turn samples into points."""
        return {name: getattr(self, name) for name in SPACE}


@block_task(
    takes={"counted": is_flag},
    holds={
        "shape": is_shape, "blocks": Array(("columns",), torch.int64, UNKNOWN, MAX_COUNT), "flat": Nullable(is_flag),
        "samples": Optional(is_count),
    },
    sends="What columns there are, or how large a picture is, and, unless sums are secure, how many rows",
    fewest="none",
)  # fmt: skip
def describe_columns(block: Block, payload: Payload) -> Payload:
    """Send the shape of a sample, discrete columns, whether rows look like images, and, if ``counted``, their number.

    See `blocks_of` and `flat_images`.
    """
    blocks = blocks_of_sets(block.x) if block.client is None else blocks_of(block.client)[None]
    described = {"shape": list(block.x.shape[2:]), "blocks": blocks, "flat": tuple(flat_images(block.x))}
    return described | ({"samples": torch.full((len(block),), block.size)} if payload["counted"] else {})


def described(fed: Federation, private: bool) -> tuple[tuple[int, ...], Tensor, bool, dict[int, int]]:
    """Return the shape of a sample, which columns are discrete, whether all are flat images, and clients' samples.

    Their numbers are by client; none with secure sums alone. `private` clients send the shape of a sample alone.
    """
    if private:
        shape = common_shape(fed.keep_majority(fed.ask_until_all_reply(send_shape, {})))
        return shape, torch.zeros(0, dtype=torch.int64), False, {}
    replies = fed.keep_majority(fed.ask_until_all_reply(describe_columns, {"counted": not fed.secure_sums}))
    shape = common_shape(replies)
    blocks = common_blocks(replies.each("blocks"), shape[0] if len(shape) == 1 else 0)
    answers = replies.each("flat")
    flat = True in answers and False not in answers  # some client's are, and no other's are clearly none
    counts = {} if fed.secure_sums else dict(zip(replies, replies.each("samples"), strict=True))
    return shape, blocks, flat, counts


def features_of(space: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return features of samples: float32 ``(n, width)``.

    With a ``projection`` seed in `space` they are projected at random. With a ``bound`` they are divided by it, or by
    their own length if that is greater, so that none is longer than 1.
    """
    rows = extract(space["features"], x)
    if space["projection"] is not None:
        kept = width_kept(rows.shape[1], is_encoder(space["features"]))
        rows = rows @ random_projection(rows.shape[1], kept, space["projection"])
    if space["bound"] is not None:
        rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(space["bound"])
    return rows


def client_features(x: Tensor, space: Mapping[str, Any]) -> Tensor:
    """Return `features_of` samples that a client has, or several of a block, kept for the tasks that follow."""
    if space["features"] == "raw" and space["projection"] is None and space["bound"] is None:
        return x.flatten(1)
    how = (space["features"], space["projection"], space["bound"])
    return kept_or_computed(x, how, lambda batch: features_of(space, batch))


def client_points(x: Tensor, space: Mapping[str, Any]) -> Tensor:
    """Return `points_of` samples that a client has, by their `client_features`."""
    features = client_features(x, space)
    points = _components(space, features.split(_BATCH))
    if points.shape != (len(features), space["directions"].shape[1]):
        raise FedkinError(f"Points of {len(features)} samples have shape {tuple(points.shape)}, not one row each.")
    return points


def points_of(space: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return principal components of samples' features, computed in batches: float32 ``(n, d)``."""
    return _components(space, (features_of(space, batch) for batch in x.split(_BATCH)) if len(x) else ())


def _components(space: Mapping[str, Any], batches: Iterable[Tensor]) -> Tensor:
    mean, directions = space["mean"], space["directions"]
    return torch.cat([directions.new_zeros(0, directions.shape[1]), *((rows - mean) @ directions for rows in batches)])


def leading_components(found: FeatureMoments, state: KinGraphState, count: int) -> tuple[Components, float]:
    """Return the principal components of features, and the fraction of the variance that they explain.

    Discrete columns are replaced by what they share with others, see `shared_basis`; there are at most `count`.
    """
    if not (state.blocks >= 0).any():
        leading = components(found, count)
        return leading, leading.explained_variance(found)
    basis = shared_basis(found.scatter / found.count, found.count, state.blocks)
    shared = found.along(basis)
    leading = components(shared, count)
    directions = (basis @ leading.directions.double()).float()
    explained = leading.explained_variance(shared)
    return replace(leading, mean=(found.total / found.count).float(), directions=directions), explained


def cut_nodes(state: KinGraphState) -> Payload:
    """Return a payload with all that a client needs to assign samples to clusters by their nearest nodes."""
    n_clusters = int(state.clusters.max()) + 1 if len(state.clusters) else 0
    nodes = {"centroids": state.centroids, "counts": state.counts, "clusters": state.clusters}
    return {"n_clusters": n_clusters, "space": state.space, **nodes}


def without_labels(scales: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return scales as results and records have them, without the labels of all nodes."""
    return [{name: value for name, value in scale.items() if name != "labels"} for scale in scales]


@block_task(
    takes={
        "clusters": Optional(int64(None)), "confidence": Optional(reals(None)),
        "result": Optional(
            {
                "n_clusters": is_count, "space": SPACE, "centroids": reals("nodes", "components"),
                "clusters": int64("nodes"),
                "counts": lambda value: isinstance(value, Tensor),  # also noisy ones, as votes do not use them
            }
        ),
    },
    accounted=True,
)  # fmt: skip
def receive_clusters(block: Block, payload: Payload) -> Payload:
    """Assign every sample to the cluster of its micro-cluster, or by a vote of the nodes if the payload has them."""
    if "result" in payload:
        result = payload["result"]
        if result["n_clusters"] > len(result["clusters"]):
            raise FedkinError(
                f"The result names {result['n_clusters']} clusters of {len(result['clusters'])} nodes.", public=True
            )
        points = client_points(block.rows, result["space"])
        votes = nearest_nodes(result["centroids"], points)
        clusters = counted(votes, result)
        values = {"clusters": clusters, "confidence": node_margins(result, points, clusters)}
        values |= {"nearest_nodes": votes.nodes.int(), "squared_distances": votes.squares}
        values = {name: block.by_client(part) for name, part in values.items()}
    else:
        micro_clusters = block.state("micro_clusters")
        values = {name: payload[name][micro_clusters] for name in ("clusters", "confidence")}
    for name, part in values.items():
        block.keep(name, part)
    drop(block.rows)
    return {}


def memory_of(client: Client) -> Votes | None:
    """Return the nearest nodes of a client's samples from its state; ``None`` if it has not received the nodes."""
    if "nearest_nodes" not in client.state:
        return None
    return Votes(client.state["nearest_nodes"], client.state["squared_distances"])


def nodes_of_samples(client: Client, own: Tensor) -> Votes:
    """Return the nodes that decide the clusters of a client's samples, ``(n, 5)``, from its state after the last step.

    They are ``(n, 1)``, the node of each sample's micro-cluster and no distance, if the client did not receive the
    nodes. `own`, int64 ``(p, 3)``, are client, node and samples of clients' own micro-clusters.
    """
    if (memory := memory_of(client)) is not None:
        return memory
    nodes = own[own[:, 0] == client.id, 1][client.state["micro_clusters"]]
    return Votes(nodes[:, None].int(), torch.ones(len(nodes), 1))


# Which columns of prepared rows are discrete: categories, truth values, and numbers with few values.


def common_blocks(by_client: Iterable[Tensor], width: int) -> Tensor:
    """Return which columns are discrete, from the `blocks_of` all clients; those of another width do not count.

    Discrete are categories, truth values, in arrays indicators of categories, and numbers of which no client with 20 or
    more has more than three different values. Return int64 ``(width,)``: the same number, at least 0, for the columns
    that one discrete column is encoded as, and -1 for others. `width` is the number of columns of a row; 0 if samples
    are no rows.
    """
    blocks = torch.stack([torch.full((width,), UNKNOWN), *(columns for columns in by_client if len(columns) == width)])
    numbers = torch.where(blocks >= 0, blocks, MAX_COUNT).amin(0)
    return torch.where((blocks == CONTINUOUS).any(0) | (numbers == MAX_COUNT), CONTINUOUS, numbers)


def blocks_of(client: Client) -> Tensor:
    """Return which columns of a client's prepared rows are discrete as far as it can tell, int64 ``(width,)``.

    Columns of one discrete column have the same number, at least 0; -1 stands for a continuous column and -2 for one
    of which it cannot tell. Empty if samples are no rows.
    """
    if client.x.ndim != 2:
        return torch.zeros(0, dtype=torch.int64)
    encoding = encoding_of(client.state)
    if client.table is None or encoding is None or encoding.shape:
        return _blocks_of_array(client.x)
    columns = encoding.schema.columns
    values = aligned(client.table, columns, f"Client {client.id}", imputes=True)
    blocks = torch.empty(client.x.shape[1], dtype=torch.int64)
    for column, look, (_, start, end) in zip(columns, _looks_discrete(values).tolist(), encoding.blocks, strict=True):
        blocks[start:end] = start
        if column.kind not in ("category", "boolean"):
            blocks[start] = look or start
    return blocks


def blocks_of_sets(x: Tensor) -> Tensor:
    """Do `blocks_of` for arrays of several clients ``(clients, n, width)``: int64 ``(clients, width)``."""
    if x.ndim != 3:
        return torch.zeros(len(x), 0, dtype=torch.int64)
    ordered = x[:, :: max(1, x.shape[1] // 1_000)].sort(1).values
    may_be = x.shape[1] >= 20 and bool((((ordered[:, 1:] != ordered[:, :-1]).sum(1)) < 3).any())
    if may_be or x.shape[2] > 2_000:
        return torch.stack([_blocks_of_array(rows) for rows in x])
    return torch.full((len(x), x.shape[2]), UNKNOWN if x.shape[1] < 20 else CONTINUOUS)


def _looks_discrete(values: Tensor) -> Tensor:
    """Return for each column of numbers 0 if it is discrete, else `CONTINUOUS` or `UNKNOWN`; empty cells are NaN.

    It is if a thousand of its rows have at most three different values: four or more, such as answers from 1 to 5, are
    near enough to a continuous column. With fewer than 20 rows a client cannot tell.
    """
    rows = (~values.isnan()).sum(0)
    ordered = values[:: max(1, len(values) // 1_000)].sort(0).values  # NaN comes last
    changes = ((ordered[1:] != ordered[:-1]) & ~ordered[1:].isnan()).sum(0)
    return torch.where(rows < 20, UNKNOWN, torch.where(changes < 3, 0, CONTINUOUS))


def _blocks_of_array(x: Tensor) -> Tensor:
    """Return the blocks of an array of at most 2,000 columns, in which categories may be indicators already.

    These are columns side by side of which every row has exactly one.
    """
    if not len(x) or x.shape[1] > 2_000:
        return torch.full((x.shape[1],), UNKNOWN)
    looks, low, high = _looks_discrete(x), x.amin(0), x.amax(0)
    blocks = torch.where(looks == 0, torch.arange(x.shape[1]), looks)
    ones = (x == high) & (high > low)
    may_be = (blocks >= 0) & (ones | (x == low)).all(0)
    start = 0
    while start < x.shape[1]:
        rows, end = torch.zeros(len(x), dtype=torch.int64), start + 1
        for i in range(start, x.shape[1]):
            rows = rows + ones[:, i]
            if not may_be[i] or int(rows.amax()) > 1:
                break
            if int(rows.amin()) == 1:
                end = i + 1
                blocks[start:end] = start
                break
        start = end
    return torch.where((blocks >= 0) & (high == low), UNKNOWN, blocks)
