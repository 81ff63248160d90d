"""Methods whose clusters are centroids: a sample belongs to the nearest one, in the space of some features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.nearest import nearest_centroids
from fedkin.core import Client, Federation, Payload, State, task
from fedkin.core.method import Count
from fedkin.features.extractors import extract, width_of
from fedkin.methods.samples.sample_method import SampleMethod, broadcast
from fedkin.methods.samples.sample_tasks import keep_clusters

_BATCH = 4096


@dataclass(frozen=True)
class CentroidState(State):
    """What the server knows.

    Attributes
    ----------
    features : str
        The space that centroids lie in, see `fedkin.features.extractors.extract`.
    width : int
        Numbers of a sample's features.
    centroids : Tensor
        float32 ``(k, width)``; one row per cluster.
    """

    features: str = "raw"
    width: int = 0
    centroids: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class CentroidMethod(SampleMethod):
    """Base of methods that find centroids.

    Attributes
    ----------
    n_clusters : int
        Clusters to find.
    features : str
        What distances are taken between: "raw", samples as they are; "unit", each scaled to length 1, so that they are
        compared by cosine, as the baselines of CCFC are; other names of `fedkin.features.extractors`, or a dotted path
        to a torch module. "auto" is "unit" for images and "raw" for tables.
    """

    n_clusters: Count = 10
    features: str = "auto"

    state_type: ClassVar[type[State]] = CentroidState

    def space(self, shape: tuple[int, ...]) -> str:
        """The features that are used for samples of `shape`."""
        if self.features != "auto":
            return self.features
        return "unit" if len(shape) == 3 else "raw"

    def fields(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """What the state tells of the features: their name and width."""
        features = self.space(shape)
        return {"features": features, "width": width_of(features, shape)}

    def result(self, state: Any) -> dict[str, Any]:
        """The centroids, and the space they lie in."""
        return {"n_clusters": len(state.centroids), "centroids": state.centroids, "features": state.features}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Cluster of samples ``(n, *shape)``: that of the nearest centroid; int64 ``(n,)``."""
        return nearest(result, x)

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """The features of samples ``(n, *shape)``: float32 ``(n, width)``."""
        return extract(result["features"], x)

    def conclude(self, fed: Federation, state: Any) -> None:
        """Have every client assign its samples to the centroids of `state`."""
        payload: Payload = {"result": self.result(state)}
        broadcast(fed, assign_to_centroids, dict.fromkeys(fed.present, payload))


@task
def assign_to_centroids(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Every sample's cluster is that of its nearest centroid; it stays at the client."""
    return keep_clusters(clients, payloads, nearest)


def nearest(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Index of the centroid nearest to each sample of ``(n, *shape)``, int64 ``(n,)``; the lowest on ties."""
    centroids = result["centroids"]
    if not len(x):
        return torch.zeros(0, dtype=torch.int64)
    parts = [nearest_centroids(extract(result["features"], part), centroids) for part in x.split(_BATCH)]
    return torch.cat(parts)


def on_its_sphere(features: str, centroids: Tensor) -> Tensor:
    """Centroids ``(k, width)`` of "unit" features scaled to length 1, as the samples are; others as they came."""
    if features != "unit":
        return centroids
    return normalize(centroids, dim=1)
