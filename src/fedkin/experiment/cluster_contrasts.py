"""What tells clusters apart that the same columns describe: how each differs from the others like it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkin.data.preparing.cluster_profile import ClusterProfile
from fedkin.experiment.column_words import contrasted


def contrasts(profile: ClusterProfile, cluster: int, others: Sequence[int]) -> list[tuple[float, str]]:
    """Return by column how a cluster differs from `others` taken together: an effect size and a phrase.

    Columns in which they differ little have an empty phrase; those that distinguish them most come first.
    """
    return contrasted(_pair(profile, cluster, others))


def alike(said: Sequence[Sequence[str]], described: Sequence[int]) -> dict[int, list[int]]:
    """Return for each cluster the others of which the same is said, but for numbers; without those that have none.

    `said` has the phrases of each cluster's sentence; `described` are the clusters that have one.
    """
    words = {cluster: frozenset(phrase.rpartition(" (")[0] for phrase in said[cluster]) for cluster in described}
    others = {
        cluster: [one for one in described if one != cluster and words[one] == words[cluster]] for cluster in words
    }
    return {cluster: own for cluster, own in others.items() if own}


def _pair(profile: ClusterProfile, cluster: int, others: Sequence[int]) -> ClusterProfile:
    """Return the profile of two clusters: `cluster`, and `others` as one."""

    def two(of_clusters: Tensor) -> Tensor:
        return torch.stack([of_clusters[cluster], of_clusters[list(others)].sum(0)])

    return ClusterProfile(
        profile.columns, two(profile.samples), two(profile.filled), profile.around, two(profile.sum),
        two(profile.squares), two(profile.counts),
    )  # fmt: skip
