"""Bases of methods whose clusters are centroids: a sample belongs to the nearest one in its feature space."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.k_means import distance_margin, nearest_centroids, pairwise_distances, share_margin
from fedkin.core import Federation, FedkinError, Payload, Record, State, Task, block_task
from fedkin.core.client_array import Block
from fedkin.core.federation import MAX_ATTEMPTS, Replies
from fedkin.core.method import Count, display_name
from fedkin.core.payload import Expected, Optional, features, is_count, is_name, positive, reals
from fedkin.features.extractors import cached_features, extract, is_encoder, width_of
from fedkin.methods.samples.sample_method import SampleMethod, assigned, describe_clients, reasons, repeat_step

_BATCH = 4096
"""Samples whose distances are in memory at once."""


@dataclass(frozen=True)
class CentroidState(State):
    """State of methods that find centroids: these, float32 ``(k, width)``, and the name and number of their features.

    `fedkin.features.extractors.extract` takes the name.
    """

    features: str = "raw"
    width: int = 0
    centroids: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


CENTROIDS: Expected = {
    "n_clusters": is_count, "centroids": reals("clusters", "width"), "features": is_name,
    "fuzziness": Optional(positive),
}  # fmt: skip
"""Payload schema of a result whose clusters are centroids."""


def features_of(block: Block, name: str) -> Tensor:
    """Return features of clients' samples, float32 ``(clients, n, width)``; those of a single client are kept."""
    return block.by_client(cached_features(name, block.rows))


@block_task(
    takes={"features": is_name}, holds={"points": features(None, None)}, moves_data=True, sends="The rows themselves"
)
def send_samples(block: Block, payload: Payload) -> Payload:
    """Send the features of all samples: **the data leave the client**."""
    return {"points": features_of(block, payload["features"])}


@block_task(takes={"result": CENTROIDS}, accounted=True)
def assign_to_centroids(block: Block, payload: Payload) -> Payload:
    """Store the nearest centroid, the margin and any memberships of each sample at its client, by ``result``."""
    x, result = block.rows, payload["result"]
    cached_features(result["features"], x)  # once for all three
    for name, part in assigned(x, result, CentroidMethod).items():
        block.keep(name, block.by_client(part))
    return {}


@dataclass(frozen=True)
class CentroidMethod(SampleMethod):
    """Base of methods that find a given number of centroids.

    Attributes
    ----------
    n_clusters : int
        Clusters to find.
    features : str
        Features between which distances are measured: "raw", the samples; "unit", samples scaled to length 1, so that
        they are compared by cosine, as for the baselines of CCFC; an encoder, "rocket" for series, "timm:NAME",
        "onnx:FILE" or "torch:FILE"; other names of `fedkin.features.extractors`, or a dotted path to a torch module.
        "auto" is "unit" for images and "raw" for tables.
    """

    n_clusters: Count = 10
    features: str = "auto"

    state_type: ClassVar[type[State]] = CentroidState
    assign_task: ClassVar[Task] = assign_to_centroids

    def init(self, fed: Federation) -> Any:
        return self.state_type(**features_for(self.features, describe_clients(fed).shape))

    def ready(self, state: Any) -> bool:
        return len(state.centroids) > 0

    def result(self, state: Any) -> dict[str, Any]:
        """Return the centroids, and the name of their features."""
        return {"n_clusters": len(state.centroids), "centroids": state.centroids, "features": state.features}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the nearest centroid of each sample ``(n, *shape)``, the lowest on ties: int64 ``(n,)``."""
        batches = cached_features(result["features"], x).split(_BATCH) if len(x) else ()
        nearest = [nearest_centroids(points, result["centroids"]) for points in batches]
        return torch.cat([torch.zeros(0, dtype=torch.int64), *nearest])

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor, clusters: Tensor | None = None) -> Tensor:
        """Return 1 - d1 / d2 with distances d1, d2 to a sample's centroid and the nearest other one: float32 ``(n,)``.

        `clusters`, int64 ``(n,)``, are by default those of the nearest centroids, with which a result that has a
        ``fuzziness`` gives the margin between memberships instead.
        """
        margins = [torch.zeros(0)]
        parts = repeat(None) if clusters is None else clusters.split(_BATCH)
        for distances, labels in zip(_distances(result, x), parts, strict=False):
            if clusters is None and "fuzziness" in result:
                margins.append(share_margin(_memberships(distances, result["fuzziness"])))
            else:
                margins.append(distance_margin(distances, labels))
        return torch.cat(margins)

    @staticmethod
    def memberships(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return memberships ``(n, k)``, float32, of samples in fuzzy clusters; ``None`` without a ``fuzziness``."""
        if "fuzziness" not in result:
            return None
        parts = [_memberships(distances, result["fuzziness"]).float() for distances in _distances(result, x)]
        return torch.cat([torch.zeros(0, len(result["centroids"])), *parts])

    @staticmethod
    def contrast(result: Mapping[str, Any], x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the cluster of the second nearest centroid, and the difference of squared distances by feature."""
        centroids, features = result["centroids"].double(), extract(result["features"], x).double()
        if len(centroids) < 2:
            return torch.full((len(x),), -1), torch.zeros_like(features)
        near = pairwise_distances(features, centroids).topk(2, largest=False).indices
        away = [(features - centroids[near[:, place]]).square() for place in (0, 1)]
        return near[:, 1], away[1] - away[0]

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the features of samples ``(n, *shape)``: float32 ``(n, width)``."""
        return extract(result["features"], x)


def _distances(result: Mapping[str, Any], x: Tensor) -> Iterator[Tensor]:
    """Return distances of samples from the centroids, in batches: float64 ``(b, k)``."""
    for points in cached_features(result["features"], x).split(_BATCH) if len(x) else ():
        yield pairwise_distances(points.double(), result["centroids"].double())


def _memberships(distances: Tensor, fuzziness: float) -> Tensor:
    """Return memberships of fuzzy c-means ``(n, k)``, given distances from the centroids ``(n, k)``."""
    near = distances.amin(1, keepdim=True)
    closeness = torch.where(distances > 0, near / distances, 1.0).pow(2 / (fuzziness - 1))
    return closeness / closeness.sum(1, keepdim=True)


def scaled_like_features(features: str, centroids: Tensor) -> Tensor:
    """Return centroids ``(k, width)`` scaled to length 1 if the features are, otherwise unchanged."""
    return normalize(centroids, dim=1) if features == "unit" or is_encoder(features) else centroids


def features_for(features: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the fields of a `CentroidState` for samples of `shape`: the name of their features, and the number.

    "auto" is "unit" for images and "raw" for tables.
    """
    name = features if features != "auto" else "unit" if len(shape) == 3 else "raw"
    return {"features": name, "width": width_of(name, shape)}


# Methods with a single exchange: clients send points, and the server clusters them.


def one_round(
    method: Any, fed: Federation, state: Any, task: Task, payload: Payload,
    cluster: Callable[[Replies[Payload]], dict[str, Any]], points: str = "centres",
) -> tuple[Any, Record]:  # fmt: skip
    """Have clients do `task` with the same `payload`, cluster what they send, and send them the centroids.

    A reply has `points` ``(n, width)`` under this name; `cluster` takes one or more, and returns changes of the state.
    Clients that do not reply are
    missing, but their samples are assigned at the end, too. If none replies, the next step tries again, up to twenty
    times.
    """
    replies = fed.ask(task, fed.all(**payload), {points: ("points", state.width)})
    record = Record(answered=list(replies), missing=replies.missing)
    if not replies:
        name = display_name(type(method))
        failure = f"No client answered {name} in {MAX_ATTEMPTS} attempts ({reasons(record.missing)})."
        return repeat_step(fed, state, record, failure)
    after = state.next(finished=True, **cluster(replies))
    method.conclude(fed, after)
    return after, record


@dataclass(frozen=True)
class PointsState(CentroidState):
    """State of methods that keep what clients sent, and can so forget a client.

    They are `points`, float32 ``(m, width)``, by client in order of id; `sizes`, int64 ``(m,)``, the number of samples
    that each stands for; and `owners`, int64 ``(m,)``, the client of each.
    """

    points: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    sizes: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    owners: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


class KeepsPoints:
    """What a `CentroidMethod` does with one exchange of ``centres`` and ``sizes``, which a `PointsState` keeps."""

    def round_of_points(
        self: Any, fed: Federation, state: Any, task: Task, payload: Payload, cluster: Callable[[Any], dict[str, Any]]
    ) -> tuple[Any, Record]:
        """Do `one_round`, where `cluster` takes a state that has the points.

        Nobody is asked if the state has some already, because others' were left out by `without`.
        """
        if len(state.points):
            after = state.next(finished=True, **cluster(state))
            replies = self.conclude(fed, after)
            return after, Record(list(replies), replies.missing)

        def cluster_replies(replies: Replies[Payload]) -> dict[str, Any]:
            sent = with_replies({}, replies)
            return {**cluster(replace(state, **sent)), **sent}

        return one_round(self, fed, state, task, payload, cluster_replies)

    def without(self, state: Any, clients: Collection[int]) -> Any:
        """Return the finished `state` reset to before its step, without the points of `clients`."""
        kept = ~torch.isin(state.owners, torch.tensor(sorted(clients), dtype=torch.int64))
        if not bool(kept.any()):
            raise FedkinError("Nothing would be left to cluster.")
        left = {name: part[kept] for name, part in points_of(state).items()}
        return replace(state, steps=state.steps - 1, finished=False, centroids=torch.zeros(0, 0), **left)

    def remains(self) -> str:
        """Return what remains of a client without its points: nothing, for they are all that it sends."""
        return ""


def points_of(state: Any) -> dict[str, Tensor]:
    """Return the points of a `PointsState`, their sizes and owners."""
    return {name: getattr(state, name) for name in ("points", "sizes", "owners")}


def with_replies(sent: Mapping[str, Tensor], replies: Replies[Payload]) -> dict[str, Tensor]:
    """Return `points_of` with the centres of more `replies`, in order of their clients."""
    more = {"points": replies.cat("centres"), "sizes": replies.cat("sizes"), "owners": replies.owners("sizes")}
    both = {name: torch.cat([sent[name], part]) if sent else part for name, part in more.items()}
    order = both["owners"].argsort(stable=True)
    return {name: part[order] for name, part in both.items()}
