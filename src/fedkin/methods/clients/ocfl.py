"""OCFL, one-shot clustered federated learning (Zuziak, Pellungrini, Rinzivillo; algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedkin.clustering import from_distances
from fedkin.core import Federation, State
from fedkin.core.method import Count, Fraction
from fedkin.methods.clients.update_splits import Round, SplitState, UpdateDistances, UpdateMethod, cosine_distances


@dataclass(frozen=True)
class OCFLState(SplitState):
    """With what the trigger goes by.

    Attributes
    ----------
    present : list of int
        Clients that answered in the round before; empty in the first.
    distances : Tensor
        float64 ``(n, n)`` between their updates.
    fired : bool
        Whether the clients have been clustered, be it in a single cluster.
    """

    present: list[int] = field(default_factory=list)
    distances: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.float64))
    fired: bool = False


@dataclass(frozen=True)
class OCFLMethod(UpdateMethod):
    """Trains one model until the clients' updates begin to part, then clusters the clients, once.

    ``Gamma`` holds ``1 - cosine`` between every two updates of a round (zero diagonal); the *temperature* is its
    Frobenius norm over ``sqrt(4 n (n - 1))``, in [0, 1] and 0.5 where all are orthogonal. While the common model still
    learns what all clients share it falls; once their ways part it rises, and that is the moment. Where clients are
    absent, the temperatures of two rounds are compared over those that were there in both.

    Attributes
    ----------
    clusterer : {"hdbscan", "kmeans", "meanshift", "affinity"}
        What clusters the clients by Gamma. Only "kmeans" needs the number of clusters. "meanshift" makes one cluster of six
        clients or fewer, for its bandwidth is 0 there.
    n_clusters : int
        Number of clusters, for "kmeans".
    trigger : {"first-rise", "printed"}
        "first-rise" clusters at the first strict rise of the temperature, never in the first round, as the authors' code
        does and their figures show. "printed" is algorithm 1 to the letter: from minus infinity, at the first
        temperature not below the last, which is always the first round.
    similarity : {"corrected", "paper"}
        For "affinity": whether it is given similarities or, as in the authors' code, distances in their place.
    smallest_cluster : float
        For "hdbscan": least share of the clients in a cluster, at least 2 clients (20 % in the paper).
    noise : {"cluster", "nearest"}
        For "hdbscan": whether clients without a cluster become one, as in the paper, or join the nearest.
    compare : {"parameters", "floats", "everything"}
        What of an update is compared; the authors' code takes the whole state.
    """

    clusterer: from_distances.Clusterer = "hdbscan"
    n_clusters: Count = 3
    trigger: Literal["first-rise", "printed"] = "first-rise"
    similarity: from_distances.Similarity = "corrected"
    smallest_cluster: Fraction = 0.2
    noise: from_distances.NoiseRule = "cluster"
    weighting: Literal["samples", "clients"] = "clients"

    state_type: ClassVar[type[SplitState]] = OCFLState

    def watching(self, state: OCFLState) -> bool:
        """Until the clients are clustered."""
        return not state.fired

    def divided(
        self, fed: Federation, state: OCFLState, part: Round
    ) -> tuple[list[int] | None, Tensor, dict[str, Any]]:
        """Everyone at once, when the temperature says so."""
        distances = cosine_distances(part.compared)
        common = [client for client in part.clients if client in state.present]
        before = _temperature_of(common, state.present, state.distances)
        now = _temperature_of(common if state.present else part.clients, part.clients, distances)
        fires = now is not None and self.fires(before, now)
        values = {"temperature": temperature(distances) if len(distances) > 1 else None, "fired": fires}
        return (self.clustered(fed, state, distances) if fires else None), distances, values

    def kept(self, state: OCFLState, watched: Sequence[UpdateDistances]) -> dict[str, Any]:
        """Who was there and how far apart, for the next round, and whether it fired in this one."""
        (seen,) = watched
        if len(seen.clients) < 2:
            return {}
        return {"present": seen.clients, "distances": seen.distances, "fired": seen.told["fired"]}

    def fires(self, before: float | None, now: float) -> bool:
        """Whether clients are to be clustered, by the temperatures of the last round, if any, and of this one."""
        if self.trigger == "printed":
            return before is None or now >= before
        return before is not None and now > before

    def clustered(self, fed: Federation, state: State, distances: Tensor) -> list[int]:
        """The part of each client, by Gamma."""
        rng = fed.rng("clusterer", state.steps)
        if self.clusterer == "kmeans":
            return from_distances.kmeans(distances, self.n_clusters, rng)
        if self.clusterer == "meanshift":
            return from_distances.meanshift(distances)
        if self.clusterer == "affinity":
            return from_distances.affinity(distances, self.similarity, rng)
        return from_distances.hdbscan(distances, self.smallest_cluster, self.noise)


def _temperature_of(some: Sequence[int], clients: Sequence[int], distances: Tensor) -> float | None:
    """The temperature of `some` of the clients; ``None`` of fewer than two, which have none."""
    at = torch.tensor([clients.index(client) for client in some], dtype=torch.int64)
    return temperature(distances[at][:, at]) if len(at) > 1 else None


def temperature(distances: Tensor) -> float:
    """Clustering temperature of a matrix of cosine distances (eq. 4), in [0, 1]; 0 of a single client."""
    n = len(distances)
    return float(distances.norm()) / math.sqrt(4 * n * (n - 1)) if n > 1 else 0.0
