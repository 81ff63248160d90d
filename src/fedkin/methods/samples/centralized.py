"""Centralised baselines: k-means and fuzzy c-means of all clients' samples together.

They are not federated: every client sends all of its samples to the server. Methods that do not move data are compared
with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from annotated_types import Gt
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means
from fedkin.clustering.k_means import k_means, kmeans_plusplus_seeds
from fedkin.core import Federation, Payload, Record
from fedkin.core.federation import Replies
from fedkin.core.method import Count, Positive
from fedkin.methods.samples.centroid_method import (
    CentroidMethod,
    CentroidState,
    one_round,
    scaled_like_features,
    send_samples,
)

_TRAITS = CentroidMethod.traits.replace(moves_data=True, baseline=True, cost="cheap")


def cluster_all(
    method: CentroidMethod, fed: Federation, state: CentroidState, search: Callable[[Tensor, torch.Generator], Tensor]
) -> tuple[CentroidState, Record]:
    """Do the only step of a centralised baseline; `search` returns centroids ``(k, width)`` of samples ``(n,
    width)``.
    """

    def cluster(replies: Replies[Payload]) -> dict[str, Any]:
        centroids = search(replies.cat("points"), fed.rng("centroids"))
        return {"centroids": scaled_like_features(state.features, centroids)}

    return one_round(method, fed, state, send_samples, {"features": state.features}, cluster, "points")


@dataclass(frozen=True)
class KMeansMethod(CentroidMethod):
    """Centralised baseline: k-means of all samples together; the data leave the clients.

    Attributes
    ----------
    n_init : int
        Number of k-means++ starts; the best is kept.
    max_iter : int
        Maximum number of Lloyd iterations per start.
    """

    n_init: Count = 10
    max_iter: Count = 300

    traits = _TRAITS

    def step(self, fed: Federation, state: CentroidState) -> tuple[CentroidState, Record]:
        """Cluster all samples, and send clients the centroids."""

        def search(points: Tensor, rng: torch.Generator) -> Tensor:
            return k_means(points, self.n_clusters, rng, self.n_init, self.max_iter).centres

        return cluster_all(self, fed, state, search)


@dataclass(frozen=True)
class FuzzyCMeansMethod(CentroidMethod):
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

    fuzziness: Annotated[float, Gt(1)] = 1.1
    tolerance: Positive = 1e-4
    max_iter: Count = 1000

    traits = _TRAITS
    soft = True

    def step(self, fed: Federation, state: CentroidState) -> tuple[CentroidState, Record]:
        """Cluster all samples, started from k-means++ seeds, and send clients the centroids."""

        def search(points: Tensor, rng: torch.Generator) -> Tensor:
            seeds = kmeans_plusplus_seeds(points, self.n_clusters, rng)
            return fuzzy_c_means(points, seeds, self.fuzziness, self.tolerance, self.max_iter).centres

        return cluster_all(self, fed, state, search)

    def result(self, state: CentroidState) -> dict[str, Any]:
        return super().result(state) | {"fuzziness": self.fuzziness}
