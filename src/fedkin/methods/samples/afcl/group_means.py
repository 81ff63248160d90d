"""Tasks of AFCL's clients: send means of small groups of samples that have the same nearest seed."""

from __future__ import annotations

import torch
from torch import Tensor

from fedkin.clustering.k_means import kmeans_plusplus_seeds
from fedkin.clustering.nearest import nearest_centroids, pairwise_distances
from fedkin.core import Client, Payload, client_task
from fedkin.core.replies import Expected, counts_to, features, is_name, reals, whole
from fedkin.features.kept_features import own_features
from fedkin.nn.network_forms import MANY

_ORDER = "sample_order"
"""Key in a client's state of the order in which samples are grouped, the same in all rounds."""
_GROUPS: Expected = {"means": features("groups", None), "counts": whole("groups")}


@client_task(takes={"features": is_name, "seeds": counts_to(MANY), "members": counts_to(MANY)}, holds=_GROUPS)
def propose_seeds(client: Client, payload: Payload) -> Payload:
    """Send the mean of the samples nearest to each k-means++ seed, of ``members`` or more, and their ``counts``."""
    client.state[_ORDER] = torch.randperm(len(client), generator=client.rng)
    points = own_features(payload["features"], client.x)
    near = _nearest(points, kmeans_plusplus_seeds(points, payload["seeds"], client.rng), payload["members"])
    return _means(points, near if len(points) >= payload["members"] else near[:0])


@client_task(
    takes={
        "features": is_name, "seeds": reals("seeds", "width"), "lowest": reals("width"),
        "span": reals("width", minimum=1e-30), "members": counts_to(MANY),
    },
    holds=_GROUPS,
)  # fmt: skip
def send_group_means(client: Client, payload: Payload) -> Payload:
    """Send means of small groups of samples with the same nearest seed, and the groups' ``counts``."""
    points = (own_features(payload["features"], client.x) - payload["lowest"]) / payload["span"]
    if _ORDER not in client.state:  # it has come later
        client.state[_ORDER] = torch.randperm(len(client), generator=client.rng)
    order, members = client.state[_ORDER], payload["members"]
    near = _nearest(points, payload["seeds"], members)[order]
    return _means(points[order], groups_of(near, members))


def _nearest(points: Tensor, seeds: Tensor, members: int) -> Tensor:
    """Return the nearest seed of each point ``(n,)``, among seeds nearest to `members` points or more; 0 if none is."""
    near = nearest_centroids(points, seeds)
    large = near.bincount(minlength=len(seeds)) >= members
    if not bool(large.any()):
        return torch.zeros_like(near)
    small = ~large[near]
    distances = pairwise_distances(points[small], seeds).masked_fill(~large, torch.inf)
    return near.masked_scatter(small, distances.argmin(1))


def groups_of(labels: Tensor, members: int) -> Tensor:
    """Divide points of equal label into groups, in the order of the points; return the group of each, int64 ``(n,)``.

    Each of the `labels`, int64 ``(n,)``, that occurs does so `members` times or more, unless there are fewer points.
    Groups have `members` to ``2 * members - 1`` points; there are none if there are too few points.
    """
    if len(labels) < members:
        return labels[:0]
    groups, begun = torch.zeros_like(labels), 0
    for label in labels.unique().tolist():
        rows = (labels == label).nonzero()[:, 0]
        parts = max(1, len(rows) // members)
        groups[rows] = begun + torch.arange(len(rows)) * parts // len(rows)
        begun += parts
    return groups


def _means(points: Tensor, groups: Tensor) -> Payload:
    """Return the mean and the size of each group; nothing if `groups` is empty."""
    if not len(groups):
        return {"means": points[:0], "counts": groups}
    groups = groups.unique(return_inverse=True)[1]
    counts = groups.bincount()
    sums = torch.zeros(len(counts), points.shape[1], dtype=torch.float64).index_add_(0, groups, points.double())
    return {"means": (sums / counts[:, None]).float(), "counts": counts}
