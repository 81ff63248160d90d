"""Tables and pictures of sample clusters, from the clients' ``state["clusters"]``, and the true classes within them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray

from fedkin.core import Client
from fedkin.data.population import Population, client_name
from fedkin.data.scaling import Scaling
from fedkin.experiment.measure_titles import join_words
from fedkin.report import ClusterPictures, ClusterTable, Profiles

PURE, MIXED = 0.9, 0.8
"""Fraction of the most frequent class from which a cluster counts as one class, and below which it is a mixture."""
_NAMED_CLASSES, _WORTH_NAMING = 3, 0.1
_NAMED_CLUSTERS = 3

_MEMBERS = 11  # with the mean they fill a card
_COLUMNS = 40
_CLUSTERS = 12
_ROUNDING = 1e-3
"""Values this far outside [0, 1] count as rounding errors; less than half a shade of grey."""


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


def cluster_table(
    clients: Sequence[Client],
    clusters: Sequence[int],
    names: Sequence[str],
    mixtures: Mapping[int, ClusterMixture],
    min_members: int = 0,
) -> ClusterTable:
    """Build the table of samples by client and cluster, with confidence and the most frequent classes.

    `clients` are simulated, so that all their samples are counted, also fewer than the `min_members` that one reports.
    """
    columns = torch.tensor(clusters)
    counts = torch.stack([(client.state["clusters"][:, None] == columns).sum(0) for client in clients])
    rows = [client_name(client.id, names) for client in clients]
    all_counted = (
        " The clients are simulated, so all their samples are counted; sites send no number below "
        f"{min_members}, and have no such table."
    )
    caption = f"Samples of each client by cluster.{all_counted if min_members else ''}{_sureness(clients, clusters)}"
    mostly = [mixtures[cluster].mostly for cluster in clusters] if mixtures else []
    return ClusterTable(rows, clusters, counts.numpy(), caption, mostly=mostly)


def _sureness(clients: Sequence[Client], clusters: Sequence[int]) -> str:
    """Describe the mean confidence in each cluster, if it is known of every sample and clusters are few."""
    known = [
        client.state for client in clients if len(client.state.get("confidence", ())) == len(client.state["clusters"])
    ]
    if not known or len(known) < len(clients) or not 1 < len(clusters) <= _CLUSTERS:
        return ""
    found = torch.cat([state["clusters"] for state in known])
    confidence = torch.cat([state["confidence"] for state in known]).double()
    means = [
        f"{float(confidence[found == each].mean()):.2f} in cluster {each}" for each in clusters if (found == each).any()
    ]
    return f" The mean confidence, 1 in the middle of a cluster and 0 between two, is {join_words(means)}."


def cluster_pictures(
    clients: Sequence[Client], clusters: Sequence[int], scaling: Scaling, mixtures: Mapping[int, ClusterMixture]
) -> list[ClusterPictures]:
    """Build the pictures of clusters of images in original values, rescaled together if beyond [0, 1]."""
    cards = [_pictures_of(clients, cluster, scaling) for cluster in clusters]
    if mixtures:
        cards = [replace(card, mostly=_classes(mixtures[card.cluster])) for card in cards]
    shown = [images for each in cards for images in (each.mean, each.members)]
    low = min((float(images.min()) for images in shown), default=0.0)
    high = max((float(images.max()) for images in shown), default=1.0)
    if low >= -_ROUNDING and high <= 1 + _ROUNDING:
        low, high = 0.0, 1.0

    def on_unit(images: NDArray[Any]) -> NDArray[Any]:
        return ((images - low) / (high - low or 1.0)).clip(0, 1)

    return [replace(each, mean=on_unit(each.mean), members=on_unit(each.members)) for each in cards]


def _classes(mixture: ClusterMixture) -> str:
    """Describe the true classes of a cluster for its card."""
    return f"A mixture: {mixture.in_words}" if mixture.is_mixed else mixture.in_words.capitalize()


def _pictures_of(clients: Sequence[Client], cluster: int, scaling: Scaling) -> ClusterPictures:
    owners = [client for client in clients if (client.state["clusters"] == cluster).any()]
    x = torch.cat([client.x[client.state["clusters"] == cluster] for client in owners])
    if scaling.mode == "standard":
        x = (x * scaling.scale.view(1, -1, 1, 1) + scaling.mean.view(1, -1, 1, 1)).float()
    # Grey as (H, W), colour as (H, W, 3); of any other number of channels the first is shown.
    x = x.movedim(1, -1) if x.shape[1] == 3 else x[:, 0]
    spread = torch.linspace(0, len(x) - 1, min(_MEMBERS, len(x))).round().long()
    return ClusterPictures(cluster, len(x), len(owners), x.mean(0).numpy(), x[spread].numpy())


def cluster_profiles(
    clients: Sequence[Client], clusters: Sequence[int], columns: Sequence[str], limited: bool = False
) -> Profiles:
    """Return the standardised feature means by cluster; of many columns, those that differ most.

    With `limited` the caption says that values beyond the limits of a column count as these.
    """
    x = torch.cat([client.x for client in clients]).double()
    labels = torch.cat([client.state["clusters"] for client in clients])
    spread = torch.where(x.amin(0) == x.amax(0), torch.inf, x.std(0, correction=0))
    x = (x - x.mean(0)) / spread
    means = torch.stack([x[labels == cluster].mean(0) for cluster in clusters])
    names = columns or [f"column {index + 1}" for index in range(x.shape[1])]
    kept = means.abs().amax(0).argsort(descending=True, stable=True)[:_COLUMNS].sort().values
    caption = "Mean of each column by cluster, in standard deviations from the mean of all samples."
    if limited:
        caption += " Values far from all others count as a limit."
    if len(kept) < len(names):
        caption += f" Shown are the {len(kept)} of {len(names)} columns in which a cluster stands out most."
    return Profiles([names[index] for index in kept.tolist()], clusters, means[:, kept].numpy(), caption)
