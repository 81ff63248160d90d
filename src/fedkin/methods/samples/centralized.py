"""Centralised baselines: k-means and fuzzy c-means of all clients' samples together.

They are not federated: every client sends all of its samples to the server. Methods that do not move data are compared
with them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Gt
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means
from fedkin.clustering.k_means import k_means, kmeans_plusplus_seeds
from fedkin.core import Client, Federation, Payload, Task, client_task
from fedkin.core.method import Count, Positive
from fedkin.core.replies import features, is_name
from fedkin.features.kept_features import cached_features
from fedkin.methods.samples.centroid_method import CentroidState, OneRoundMethod, RoundOutcome, scaled_like_features


@client_task(takes={"features": is_name}, holds={"points": features(None, None)}, moves_data=True)
def send_samples(client: Client, payload: Payload) -> Payload:
    """Send the features of all samples: **the data leave the client**."""
    return {"points": cached_features(payload["features"], client.x)}


@dataclass(frozen=True)
class CentralizedMethod(OneRoundMethod):
    """Base of centralised baselines, which cluster all samples at the server."""

    client_task: ClassVar[Task] = send_samples
    points_name: ClassVar[str] = "points"

    traits = OneRoundMethod.traits.replace(moves_data=True)

    def payload(self, state: CentroidState) -> Payload:
        """Return the name of the features that clients send."""
        return {"features": state.features}

    def cluster(self, fed: Federation, state: CentroidState, replies: dict[int, Payload]) -> RoundOutcome:
        """Find the centroids of all samples received."""
        points = torch.cat([reply["points"] for reply in replies.values()])
        centroids, values = self.centroids(points, fed.rng("centroids"))
        return {"centroids": scaled_like_features(state.features, centroids)}, values

    @abstractmethod
    def centroids(self, points: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Any]]:
        """Return centroids ``(k, width)`` of points ``(n, width)``, and plain values for the record."""


@dataclass(frozen=True)
class KMeansMethod(CentralizedMethod):
    """Centralised baseline: k-means of all samples together; the data leave the clients.

    Attributes
    ----------
    n_init : int
        Number of k-means++ starts; the best is kept.
    max_iter : int
        Maximum number of Lloyd iterations per start.
    """

    traits = CentralizedMethod.traits.replace(sends="the features of all its samples", baseline=True)

    n_init: Count = 10
    max_iter: Count = 300

    def centroids(self, points: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Any]]:
        """Return the centroids of Lloyd's algorithm, the best of several k-means++ starts."""
        found = k_means(points, self.n_clusters, rng, self.n_init, self.max_iter)
        return found.centres, {"iterations": found.iterations}


@dataclass(frozen=True)
class FuzzyCMeansMethod(CentralizedMethod):
    """Centralised baseline: fuzzy c-means of all samples together; the data leave the clients.

    A sample belongs to the cluster of the nearest centroid, in which its membership is largest.

    Attributes
    ----------
    fuzziness : float
        Exponent m, above 1. With the usual 2 all centroids of images coincide; 1.1 is the value in SDA-FC's code.
    tolerance : float
        The search ends when no centroid moves further than this.
    max_iter : int
        Maximum number of iterations.
    """

    traits = CentralizedMethod.traits.replace(sends="the features of all its samples", baseline=True)

    soft = True

    fuzziness: Annotated[float, Gt(1)] = 1.1
    tolerance: Positive = 1e-4
    max_iter: Count = 1000

    def centroids(self, points: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Any]]:
        """Return the centroids of fuzzy c-means, started from k-means++ seeds."""
        seeds = kmeans_plusplus_seeds(points, self.n_clusters, rng)
        found = fuzzy_c_means(points, seeds, self.fuzziness, self.tolerance, self.max_iter)
        return found.centres, {"iterations": found.iterations, "moved": found.moved}

    def result(self, state: CentroidState) -> dict[str, Any]:
        """Return the centroids, the name of their features, and the fuzziness."""
        return super().result(state) | {"fuzziness": self.fuzziness}
