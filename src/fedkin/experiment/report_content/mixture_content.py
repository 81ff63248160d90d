"""True classes within the clusters of samples, and clusters that mix several classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.experiment.measure_titles import join_words

PURE, MIXED = 0.9, 0.8
"""Fraction of the most frequent class from which a cluster counts as one class, and below which it is a mixture."""
_NAMED_CLASSES, _WORTH_NAMING = 3, 0.1
_NAMED_CLUSTERS = 3


@dataclass(frozen=True)
class ClusterMixture:
    """Composition of a cluster: names of true classes with their fractions of its samples, the largest first."""

    cluster: int
    fractions: tuple[tuple[str, float], ...]

    @property
    def is_pure(self) -> bool:
        """Whether nearly all samples of the cluster are of one class."""
        return self.fractions[0][1] >= PURE

    @property
    def is_mixed(self) -> bool:
        """Whether many samples of the cluster are not of its most frequent class."""
        return self.fractions[0][1] < MIXED

    @property
    def mostly(self) -> str:
        """Most frequent class and its fraction, such as ``'8: 64 %'``."""
        name, fraction = self.fractions[0]
        return f"{name}: {100 * fraction:.0f} %"

    @property
    def in_words(self) -> str:
        """Classes in words, such as ``'class 8 (64 %) and class 1 (21 %)'``; only the first may be below a tenth."""
        worth = [own for own in self.fractions[1:_NAMED_CLASSES] if own[1] >= _WORTH_NAMING]
        return join_words([f"class {name} ({100 * part:.0f} %)" for name, part in (self.fractions[0], *worth)])


def mixtures_of(clients: Sequence[Client], population: Population) -> dict[int, ClusterMixture]:
    """Return the composition of every cluster that `clients` keep, by cluster; empty without a truth."""
    if population.truth is None or not clients:
        return {}
    truth = torch.cat([population.truth[client.id] for client in clients])
    found = torch.cat([client.state["clusters"] for client in clients])
    return {
        cluster: _mixture(cluster, truth[found == cluster], population.classes) for cluster in found.unique().tolist()
    }


def mixed_in_words(mixtures: Sequence[ClusterMixture]) -> str:
    """Write a clause on the clusters that mix classes, the worst first; empty if there are none."""
    mixed = sorted((each for each in mixtures if each.is_mixed), key=lambda each: each.fractions[0][1])
    if not mixed:
        return ""
    named = [f"cluster {each.cluster} mixes {each.in_words}" for each in mixed[:_NAMED_CLUSTERS]]
    more = len(mixed) - len(named)
    return join_words([*named, f"{more} more {'is a mixture' if more == 1 else 'are mixtures'}"] if more else named)


def _mixture(cluster: int, truth: torch.Tensor, classes: Sequence[str]) -> ClusterMixture:
    labels, counts = truth.unique(return_counts=True)
    order = counts.argsort(descending=True, stable=True)
    named = [
        (classes[label] if label < len(classes) else str(label), count / len(truth))
        for label, count in zip(labels[order].tolist(), counts[order].tolist(), strict=True)
    ]
    return ClusterMixture(cluster, tuple(named))
