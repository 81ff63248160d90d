"""Federated learning with hierarchical clustering of local updates (Briggs, Fan, Andras 2020; algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from scipy.spatial.distance import pdist, squareform
from torch import Tensor

from fedkin.clustering.from_distances import cut_tree
from fedkin.core import Federation, FedkinError
from fedkin.core.method import Count
from fedkin.methods.clients.client_method import NotNegative
from fedkin.methods.clients.update_splits import (
    Division,
    SplitState,
    UpdateMethod,
    Updates,
    cosine_distances,
    cosine_similarities,
)

Distance = Literal["cosine", "euclidean", "manhattan", "similarity"]
Linkage = Literal["average", "complete", "single", "ward"]


@dataclass(frozen=True)
class HierarchicalMethod(UpdateMethod):
    """Trains one model for some rounds, then clusters clients once by a tree of their updates, cut at a height.

    Attributes
    ----------
    clustering_round : int
        The round, counted from 1, whose updates are clustered; at most `rounds`.
    distance : {"cosine", "euclidean", "manhattan", "similarity"}
        Distance between updates; the paper tries the first three (its L2 and L1). "similarity" reproduces a
        mistake in the code of OCFL (baseline BCL): cosine similarities used as distances, so that the most
        dissimilar clients merge first.
    linkage : {"average", "complete", "single", "ward"}
        "ward" goes with "euclidean" only.
    threshold : float
        Height of the cut: clusters at a greater distance stay separate. At 1, "cosine" separates clusters whose updates
        do not point the same way on average.
    """

    clustering_round: Count = 5
    distance: Distance = "cosine"
    linkage: Linkage = "average"
    threshold: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.linkage == "ward" and self.distance != "euclidean":
            raise FedkinError(f"linkage 'ward' needs distance 'euclidean', not '{self.distance}'.")

    def can_split(self, state: SplitState) -> bool:
        return state.steps + 1 == self.clustering_round

    def split(self, fed: Federation, state: SplitState, part: Updates) -> Division:
        """Cluster all clients at once, by cutting the tree of their updates."""
        distances = distances_between(part.compared, self.distance)
        # Similarities as distances would give negative heights, which SciPy refuses; adding 1 to all changes nothing.
        shift = 1.0 if self.distance == "similarity" else 0.0
        labels = cut_tree(distances.add_(shift), self.linkage, self.threshold + shift)
        return Division(labels.tolist())


def distances_between(updates: Tensor, distance: Distance) -> Tensor:
    """Return the distance between every two updates ``(n, size)``: float64 ``(n, n)``, zero diagonal."""
    if distance == "cosine":
        return cosine_distances(updates)
    if distance == "similarity":
        return cosine_similarities(updates).fill_diagonal_(0.0)
    rows = updates.double().numpy()
    return torch.from_numpy(squareform(pdist(rows, "cityblock" if distance == "manhattan" else "euclidean")))
