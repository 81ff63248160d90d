"""Yardsticks: k-means and fuzzy c-means of all samples together.

They are not federated. Every client sends all of its samples to the server, which nobody should do whose data may not be
moved; they tell what methods that leave the data where they are have to be measured against.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Gt
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means
from fedkin.clustering.k_means import k_means, kmeans_plusplus_seeds
from fedkin.core import Client, Federation, Payload, Task, task
from fedkin.core.method import Count, Positive
from fedkin.features.extractors import extract
from fedkin.methods.samples.centroid_method import CentroidState, on_its_sphere
from fedkin.methods.samples.one_round import OneRoundMethod, RoundOutcome


@task(holds={"points": (None, None)}, moves_data=True)
def send_samples(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """The features of all samples. They leave the client."""
    pairs = zip(clients, payloads, strict=True)
    return [{"points": extract(payload["features"], client.x)} for client, payload in pairs]


@dataclass(frozen=True)
class CentralizedMethod(OneRoundMethod):
    """Base of methods that cluster all samples at the server."""

    asked: ClassVar[Task] = send_samples
    sent: ClassVar[str] = "points"

    @property
    def moves_data(self) -> bool:
        return True

    def payload(self, state: CentroidState) -> Payload:
        """Which features to send."""
        return {"features": state.features}

    def clustered(self, fed: Federation, state: CentroidState, replies: dict[int, Payload]) -> RoundOutcome:
        """The centroids of all samples that came."""
        points = torch.cat([reply["points"] for reply in replies.values()])
        centroids, told = self.centroids(points, fed.rng("centroids"))
        return {"centroids": on_its_sphere(state.features, centroids)}, told

    @abstractmethod
    def centroids(self, points: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Any]]:
        """Centroids ``(k, width)`` of points ``(n, width)``, and plain values that tell about the search."""


@dataclass(frozen=True)
class KMeansMethod(CentralizedMethod):
    """k-means of all samples together (scikit-learn's). The data are moved: a yardstick, not a federated method.

    Attributes
    ----------
    n_init : int
        Sets of k-means++ seeds to try; the best is kept.
    max_iter : int
        Most iterations of Lloyd's algorithm from each.
    """

    n_init: Count = 10
    max_iter: Count = 300

    def centroids(self, points: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Any]]:
        """By Lloyd's algorithm."""
        found = k_means(points, self.n_clusters, rng, self.n_init, self.max_iter)
        return found.centres, {"iterations": found.iterations}


@dataclass(frozen=True)
class FuzzyCMeansMethod(CentralizedMethod):
    """Fuzzy c-means of all samples together. The data are moved: a yardstick, not a federated method.

    A sample's cluster is that of the nearest centroid, in which its membership is greatest.

    Attributes
    ----------
    fuzziness : float
        m, above 1. The usual 2 makes all centroids of images one and the same; 1.1 is that of SDA-FC's code.
    tolerance : float
        The search ends when no centroid moves further.
    max_iter : int
        Most iterations.
    """

    fuzziness: Annotated[float, Gt(1)] = 1.1
    tolerance: Positive = 1e-4
    max_iter: Count = 1000

    def centroids(self, points: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Any]]:
        """From k-means++ seeds."""
        seeds = kmeans_plusplus_seeds(points, self.n_clusters, rng)
        found = fuzzy_c_means(points, seeds, self.fuzziness, self.tolerance, self.max_iter)
        return found.centres, {"iterations": found.iterations, "moved": found.moved}
