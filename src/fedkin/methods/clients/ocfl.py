"""OCFL, one-shot clustered federated learning (Zuziak, Pellungrini, Rinzivillo; algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedkin.clustering import from_distances
from fedkin.clustering.k_means import k_means
from fedkin.core import Federation, State
from fedkin.core.method import Count, refuse_unused
from fedkin.methods.clients.update_splits import (
    Division,
    SplitState,
    SplitValues,
    UpdateMethod,
    Updates,
    cosine_distances,
)


@dataclass(frozen=True)
class OCFLState(SplitState):
    """State of OCFL: the previous round's distances between updates, by which clustering is triggered.

    `present` are the clients whose updates were compared; empty in the first round. `distances`, float64 ``(n, n)``,
    are cosine distances between these updates. `fired` says whether the clients have been clustered, even into a single
    cluster.
    """

    present: list[int] = field(default_factory=list)
    distances: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.float64))
    fired: bool = False


class OCFLValues(SplitValues, total=False):
    """Values of a round, with the `temperature` of the updates."""

    temperature: float


@dataclass(frozen=True)
class OCFLMethod(UpdateMethod):
    """Trains one model until the clients' updates diverge, then clusters the clients once.

    ``Gamma`` holds ``1 - cosine`` between every two updates of a round (zero diagonal); the *clustering
    temperature* is its Frobenius norm over ``sqrt(4 n (n - 1))``, in [0, 1], and 0.5 where all are orthogonal. It falls
    while the common model learns what all clients have in common, and rises once their updates diverge: clients are
    clustered at its first strict rise, as in the authors' code; algorithm 1 to the letter would always cluster them in
    the first round. Where clients are missing, two rounds are compared over the clients that replied in both.

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
    similarity : {"corrected", "paper"}
        For "affinity": whether it is given similarities or, as in the authors' code, distances in their place.
    """

    clusterer: from_distances.Clusterer = "linkage"
    n_clusters: Count | None = None
    similarity: from_distances.Similarity = "corrected"
    weighting: Literal["samples", "clients"] = "clients"

    traits = UpdateMethod.traits.replace(paper={"clusterer": "hdbscan"})
    state_type: ClassVar[type[SplitState]] = OCFLState
    record_type: ClassVar[type[Any]] = OCFLValues

    def __post_init__(self) -> None:
        super().__post_init__()
        reason = f"with clusterer = '{self.clusterer}'"
        unused = {} if self.clusterer == "affinity" else {"similarity": reason}
        if self.clusterer not in ("linkage", "kmeans"):
            unused["n_clusters"] = f"{reason}, which finds the number itself ('linkage' and 'kmeans' take one)"
        refuse_unused(self, unused)

    def can_split(self, state: OCFLState) -> bool:
        return not state.fired

    def split(self, fed: Federation, state: OCFLState, part: Updates) -> Division:
        """Cluster all clients at once, if the temperature triggers it."""
        distances = cosine_distances(part.compared)
        present = set(state.present)
        common = [client for client in part.clients if client in present]
        before = _temperature_of(common, state.present, state.distances)
        current = _temperature_of(common if state.present else part.clients, part.clients, distances)
        fires = before is not None and current is not None and current > before
        clusters = self.clustered(fed, state, distances) if fires else None
        if len(part.clients) < 2:  # what was compared last stays
            return Division(clusters, {"temperature": None, "fired": fires})
        # Once the clients are clustered nothing is compared any more, and the state need not hold the matrix.
        compared = {"present": [], "distances": distances[:0, :0]} if fires else {
            "present": part.clients, "distances": distances,
        }  # fmt: skip
        values = {"temperature": temperature(distances), "fired": fires}
        return Division(clusters, values, {**compared, "fired": fires})

    def clustered(self, fed: Federation, state: State, distances: Tensor) -> list[int]:
        rng = fed.rng("grouper", state.steps)
        searches: dict[str, Callable[[], Any]] = {
            "linkage": lambda: from_distances.average_linkage(distances, self.n_clusters),
            "hdbscan": lambda: from_distances.hdbscan(distances),
            # Two clients are alike if their distances to all others are; 3 clusters as in the paper's scenarios.
            "kmeans": lambda: k_means(distances, self.n_clusters or 3, rng).labels,
            "meanshift": lambda: from_distances.meanshift(distances),
            "affinity": lambda: from_distances.affinity(distances, self.similarity, rng),
        }
        labels: list[int] = searches[self.clusterer]().tolist()
        return labels


def _temperature_of(selected: Sequence[int], clients: Sequence[int], distances: Tensor) -> float | None:
    """Return the clustering temperature over the `selected` of the clients; ``None`` for fewer than two."""
    if len(selected) < 2 or len(selected) == len(clients):
        return temperature(distances) if len(selected) > 1 else None
    rows = torch.isin(torch.tensor(clients), torch.tensor(selected)).nonzero()[:, 0]
    return temperature(distances[rows][:, rows])


def temperature(distances: Tensor) -> float:
    """Return the clustering temperature of a matrix of cosine distances (eq. 4), in [0, 1]; 0 for a single client."""
    n = len(distances)
    return float(distances.norm()) / math.sqrt(4 * n * (n - 1)) if n > 1 else 0.0
