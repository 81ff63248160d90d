"""Tables and pictures of sample clusters, from the clients' ``state["clusters"]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray

from fedkin.core import Client
from fedkin.data.preparing.scaling import Scaling
from fedkin.experiment.client_names import client_name
from fedkin.experiment.measure_titles import join_words
from fedkin.experiment.report_content.mixture_content import ClusterMixture
from fedkin.report import ClusterPictures, ClusterTable, Profiles

_MEMBERS = 11  # with the mean they fill a card
_COLUMNS = 40
_CLUSTERS = 12
_ROUNDING = 1e-3
"""Values this far outside [0, 1] count as rounding errors; less than half a shade of grey."""


def cluster_table(
    clients: Sequence[Client], clusters: Sequence[int], names: Sequence[str], mixtures: Mapping[int, ClusterMixture]
) -> ClusterTable:
    """Build the table of samples by client and cluster, with confidence and the most frequent classes."""
    columns = torch.tensor(clusters)
    counts = torch.stack([(client.state["clusters"][:, None] == columns).sum(0) for client in clients])
    rows = [client_name(client.id, names) for client in clients]
    caption = f"Samples of each client by cluster.{_sureness(clients, clusters)}"
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


def cluster_profiles(clients: Sequence[Client], clusters: Sequence[int], columns: Sequence[str]) -> Profiles:
    """Return the standardised feature means by cluster; of many columns, those that differ most."""
    x = torch.cat([client.x for client in clients]).double()
    labels = torch.cat([client.state["clusters"] for client in clients])
    spread = torch.where(x.amin(0) == x.amax(0), torch.inf, x.std(0, correction=0))
    x = (x - x.mean(0)) / spread
    means = torch.stack([x[labels == cluster].mean(0) for cluster in clusters])
    names = columns or [f"column {index + 1}" for index in range(x.shape[1])]
    kept = means.abs().amax(0).argsort(descending=True, stable=True)[:_COLUMNS].sort().values
    caption = "Mean of each column by cluster, in standard deviations from the mean of all samples."
    if len(kept) < len(names):
        caption += f" Shown are the {len(kept)} of {len(names)} columns in which a cluster stands out most."
    return Profiles([names[index] for index in kept.tolist()], clusters, means[:, kept].numpy(), caption)
