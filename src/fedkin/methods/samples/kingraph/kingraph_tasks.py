"""What clients do for kin-graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.nearest import neighbours_vote
from fedkin.core import Client, Payload, task
from fedkin.core.replies import are_counts, is_count, is_number
from fedkin.features.extractors import extract
from fedkin.features.pca import PROJECTED, moments, random_projection
from fedkin.methods.samples.kingraph.micro_clusters import smoothed, summarised
from fedkin.methods.samples.kingraph.whitening import FEW, local_scatter

_BATCH = 2048
_VOTERS = 5
_PAIRS = 1 << 24
"""Distances held at a time."""
_ATOP = 1e-30
"""A squared distance below which a point lies on a node."""


@task(holds={"count": is_number}, may_be_empty=True)
def send_moments(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Count, sum and outer products of a client's features; of too few samples, nothing."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        enough = len(client) >= payload["least"]
        replies.append(moments(client.x, partial(features_of, payload["space"])).payload() if enough else {})
    return replies


@task(holds={"samples": is_count}, may_be_empty=True)
def send_differences(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """How a client's samples differ from their neighbours, and how many they are; of fewer than 64, nothing."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        if len(client) < max(payload["least"], FEW):
            replies.append({})
            continue
        scatter = local_scatter(points_of(payload["space"], client.x), client.rng)
        replies.append({"scatter": scatter, "samples": len(client)})
    return replies


@task(holds={"counts": are_counts}, may_be_empty=True)
def send_summary(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Centroids and counts of a client's small clusters, of too few samples nothing; it remembers who is in which."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        if len(client) < payload["least"]:
            replies.append({})
            continue
        points = points_of(payload["space"], client.x)
        points = smoothed(points, payload["smoothing"], payload["rounds"], client.rng)
        local_clusters = min(payload["most"], len(points) // payload["least"])
        found = summarised(points, local_clusters, payload["least"], client.rng)
        client.state["local_clusters"] = found.labels
        replies.append({"centroids": found.centroids, "counts": found.counts})
    return replies


@task(accounted=True)
def take_clusters(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Every sample's cluster: that of its small cluster, or that which the nodes vote for if all of them came."""
    for client, payload in zip(clients, payloads, strict=True):
        if "result" in payload:
            result = payload["result"]
            points = points_of(result["space"], client.x)
            points = smoothed(points, payload["smoothing"], payload["rounds"], client.rng)
            client.state["clusters"] = voted(result, points)
        else:
            client.state["clusters"] = payload["clusters"][client.state["local_clusters"]]
    return [{} for _ in clients]


def features_of(space: Mapping[str, Any], x: Tensor) -> Tensor:
    """Features of samples: float32 ``(n, width)``.

    If `space` has a seed for that, they are projected at random; if it has a bound, they are divided by it, or by their
    own length if that is greater, so that none is longer than 1.
    """
    rows = extract(space["features"], x)
    if space["projection"] is not None:
        rows = rows @ random_projection(rows.shape[1], PROJECTED, space["projection"])
    if space["bound"] is not None:
        rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(space["bound"])
    return rows


def points_of(space: Mapping[str, Any], x: Tensor) -> Tensor:
    """Principal components of samples' features, a batch at a time: float32 ``(n, d)``."""
    mean, directions = space["mean"], space["directions"]
    parts = [(features_of(space, part) - mean) @ directions for part in x.split(_BATCH)] if len(x) else []
    return torch.cat([directions.new_zeros(0, directions.shape[1]), *parts])


def voted(result: Mapping[str, Any], points: Tensor) -> Tensor:
    """Cluster that the five nodes nearest to each point vote for, by the inverse of its squared distance: int64 ``(n,)``.

    A point's own node outvotes four others that are more than twice as far away, so that a cluster of one is not lost.
    """
    centroids, clusters = result["centroids"], result["clusters"]
    found = [clusters.new_zeros(0)]
    for part in points.split(max(1, _PAIRS // len(centroids))):
        distances, nearest = torch.cdist(part, centroids).topk(min(_VOTERS, len(centroids)), largest=False)
        weights = 1 / distances.square().clamp_min(_ATOP)
        found.append(neighbours_vote(clusters[nearest], weights, result["n_clusters"]))
    return torch.cat(found)
