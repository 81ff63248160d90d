"""FedGroup: clustering clients once by the directions of their first updates (Duan et al. 2021; algorithms 1 to 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.core import Federation
from fedkin.core.method import Count
from fedkin.methods.clients.update_splits import Division, SplitState, UpdateMethod, Updates

_SHORTEST = 1e-12  # a shorter vector has no direction


@dataclass(frozen=True)
class FedGroupMethod(UpdateMethod):
    """Clusters clients once, by the cosines of their updates with the updates' principal directions.

    The measure is the paper's EDC: updates are described by their cosines with the first K singular vectors of all
    updates, and k-means of these descriptions gives the clusters. A client that was missing, or an unseen one, trains
    the model of that round and joins the cluster with the most similar mean update, the paper's cold start.

    Attributes
    ----------
    clustering_round : int
        The round, counted from 1, whose updates are clustered; at most `rounds`.
    n_clusters : int
        K, the number of clusters.
    """

    clustering_round: Count = 1
    n_clusters: Count = 3

    traits = UpdateMethod.traits.replace(finds_k=False, takes_k=True)

    def can_split(self, state: SplitState) -> bool:
        return not state.splits and state.steps + 1 >= self.clustering_round

    def split(self, fed: Federation, state: SplitState, part: Updates) -> Division:
        """Cluster all clients at once, by k-means of their cosines with the principal directions."""
        cosines = decomposed_cosines(part.compared, self.n_clusters)
        labels = k_means(cosines, self.n_clusters, fed.rng("grouping")).labels
        return Division(labels.tolist())


def decomposed_cosines(updates: Tensor, directions: int) -> Tensor:
    """Return the cosines of updates ``(n, size)`` with their principal directions (EDC): float64 ``(n, m)``.

    m is `directions` or the rank of the updates, if less; rows of zeros are for updates of length 0.
    """
    wide = updates.double()
    _, values, vectors = torch.linalg.svd(wide, full_matrices=False)
    principal = vectors[:directions][values[:directions] > _SHORTEST * values[0]]
    lengths = wide.norm(dim=1, keepdim=True)
    return torch.where(lengths > 0, wide @ principal.T / lengths.clamp_min(_SHORTEST), 0.0)
