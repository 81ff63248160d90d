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
from fedkin.core.method import Count, Fraction, refuse_unused
from fedkin.methods.clients.client_method import PositiveFraction
from fedkin.methods.clients.update_splits import Round, SplitState, UpdateDistances, UpdateMethod, cosine_distances

_BY_KMEANS = 3
"""Number of clusters by k-means if none is given: as many as the paper's scenarios have."""


@dataclass(frozen=True)
class OCFLState(SplitState):
    """State of OCFL: the previous round's distances between updates, by which clustering is triggered.

    `present` are the clients whose updates were compared; empty in the first round. `distances`, float64 ``(n, n)``,
    are cosine distances between these updates; 0 between updates of different models. `fired` says whether the clients
    have been clustered, even into a single cluster.
    """

    present: list[int] = field(default_factory=list)
    distances: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.float64))
    fired: bool = False


@dataclass(frozen=True)
class OCFLMethod(UpdateMethod):
    """Trains one model until the clients' updates diverge, then clusters the clients once.

    ``Gamma`` holds ``1 - cosine`` between every two updates of a round (zero diagonal); the *clustering
    temperature* is its Frobenius norm over ``sqrt(4 n (n - 1))``, in [0, 1], and 0.5 where all are orthogonal. It falls
    while the common model learns what all clients have in common, and rises once their updates diverge. Where clients
    are missing, two rounds are compared over the clients that replied in both.

    Attributes
    ----------
    clusterer : {"linkage", "hdbscan", "kmeans", "meanshift", "affinity"}
        The algorithm that clusters the clients by Gamma. "linkage", which is not the paper's, is average linkage, cut
        into `n_clusters`, or into the number of clusters, up to 10, with the greatest silhouette; then clusters whose
        directions have a cosine above 0.5 are one. It holds where updates are noisy, with many clients or few samples.
        The paper favours "hdbscan". "meanshift" makes one cluster of six clients or fewer, since its bandwidth is 0
        there.
    n_clusters : int or None
        Number of clusters, for "linkage" and "kmeans". None finds it by "linkage", and is 3 for "kmeans". The others
        find the number themselves and take none.
    trigger : {"first-rise", "printed"}
        "first-rise" clusters at the first strict rise of the temperature, never in the first round, as the authors'
        code does and their figures show. "printed" is algorithm 1 to the letter: from minus infinity, at the first
        temperature not below the last, which is always the first round.
    similarity : {"corrected", "paper"}
        For "affinity": whether it is given similarities or, as in the authors' code, distances in their place.
    smallest_cluster : float
        For "hdbscan": minimum size of a cluster as a fraction of the clients, and at least 2 clients (20 % in the
        paper).
    noise : {"cluster", "nearest"}
        For "hdbscan": whether clients without a cluster form one, as in the paper, or join the nearest.
    again : float or None
        Not the paper's. After the clustering, clients of a cluster are placed again when its temperature rises by at
        least this much within one round, in (0, 1]. In the next round they train the model that was divided, and each
        joins the cluster with the most similar mean update of then. A single cluster is clustered once more. None
        clusters once.
    compare : {"parameters", "floats", "everything"}
        Which part of an update is compared; the authors' code compares the whole state.
    """

    clusterer: from_distances.Clusterer = "linkage"
    n_clusters: Count | None = None
    trigger: Literal["first-rise", "printed"] = "first-rise"
    similarity: from_distances.Similarity = "corrected"
    smallest_cluster: Fraction = 0.2
    noise: from_distances.NoiseRule = "cluster"
    again: PositiveFraction | None = None
    weighting: Literal["samples", "clients"] = "clients"

    state_type: ClassVar[type[SplitState]] = OCFLState

    def __post_init__(self) -> None:
        super().__post_init__()
        here = f"with clusterer = '{self.clusterer}'"
        unused = {} if self.clusterer == "affinity" else {"similarity": here}
        if self.clusterer != "hdbscan":
            unused |= {"smallest_cluster": here, "noise": here}
        if self.clusterer not in ("linkage", "kmeans"):
            unused["n_clusters"] = f"{here}, which finds the number itself ('linkage' and 'kmeans' take one)"
        refuse_unused(self, unused)

    def can_split(self, state: OCFLState) -> bool:
        """Whether the clients are not clustered yet, or may be reassigned."""
        return not state.fired or self.again is not None

    def divided(
        self, fed: Federation, state: OCFLState, part: Round
    ) -> tuple[list[int] | None, Tensor, dict[str, Any]]:
        """Cluster all clients at once, if the temperature triggers it."""
        distances = cosine_distances(part.compared)
        common = [client for client in part.clients if client in state.present]
        before = _temperature_of(common, state.present, state.distances)
        now = _temperature_of(common if state.present else part.clients, part.clients, distances)
        warmth = temperature(distances) if len(distances) > 1 else None
        if state.fired:
            rises = self.again is not None and before is not None and now is not None and now - before >= self.again
            values = {"temperatures": {str(part.cluster): warmth}, "rises": {str(part.cluster): rises}}
            alone = rises and not state.splits
            return (self.clustered(fed, state, distances) if alone else None), distances, values
        fires = now is not None and self.fires(before, now)
        values = {"temperature": warmth, "fired": fires}
        return (self.clustered(fed, state, distances) if fires else None), distances, values

    def kept(self, state: OCFLState, watched: Sequence[UpdateDistances]) -> dict[str, Any]:
        """Keep the clients that replied, their distances, and whether the trigger fired."""
        if state.fired:
            calm = [seen for seen in watched if not any(seen.values["rises"].values())]
            clients = [client for seen in calm for client in seen.clients]
            return {"present": clients, "distances": _blocks(calm)}
        (seen,) = watched
        if len(seen.clients) < 2:
            return {}
        fired = seen.values["fired"]
        if fired:  # there are several models from the next round on
            return {"present": [], "distances": _blocks([]), "fired": True}
        return {"present": seen.clients, "distances": seen.distances, "fired": False}

    def to_reassign(self, state: OCFLState, watched: Sequence[UpdateDistances]) -> list[int]:
        """Return the clusters whose temperature has risen, if there are several."""
        if not (state.fired and state.splits):
            return []
        return [int(cluster) for seen in watched for cluster, rises in seen.values["rises"].items() if rises]

    def fires(self, before: float | None, now: float) -> bool:
        """Whether to cluster the clients, by the temperature of this round and of the last, if any."""
        if self.trigger == "printed":
            return before is None or now >= before
        return before is not None and now > before

    def clustered(self, fed: Federation, state: State, distances: Tensor) -> list[int]:
        """Return the cluster of each client, by their cosine distances (Gamma)."""
        rng = fed.rng("grouper", state.steps)
        if self.clusterer == "kmeans":
            return from_distances.kmeans(distances, self.n_clusters or _BY_KMEANS, rng)
        if self.clusterer == "meanshift":
            return from_distances.meanshift(distances)
        if self.clusterer == "affinity":
            return from_distances.affinity(distances, self.similarity, rng)
        if self.clusterer == "linkage":
            return from_distances.average_linkage(distances, self.n_clusters)
        return from_distances.hdbscan(distances, self.smallest_cluster, self.noise)


def _blocks(watched: Sequence[UpdateDistances]) -> Tensor:
    """Return the distances of all clusters as one block-diagonal matrix, 0 between clusters."""
    found: Tensor = torch.block_diag(torch.zeros(0, 0, dtype=torch.float64), *(seen.distances for seen in watched))
    return found


def _temperature_of(some: Sequence[int], clients: Sequence[int], distances: Tensor) -> float | None:
    """Return the clustering temperature over the clients `some`; ``None`` for fewer than two."""
    at = torch.tensor([clients.index(client) for client in some], dtype=torch.int64)
    return temperature(distances[at][:, at]) if len(at) > 1 else None


def temperature(distances: Tensor) -> float:
    """Return the clustering temperature of a matrix of cosine distances (eq. 4), in [0, 1]; 0 for a single client."""
    n = len(distances)
    return float(distances.norm()) / math.sqrt(4 * n * (n - 1)) if n > 1 else 0.0
