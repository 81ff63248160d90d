"""Samples in the latent representation in which a method clusters them, for the report's map of samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fedkin.data.population import Population

MAX_SAMPLES = 600


@dataclass(frozen=True)
class LatentSample:
    """Subset of all clients' samples in a method's latent representation, with clusters and classes.

    `points` are float32 ``(m, width)``, and `clusters` int64 ``(m,)``. So are the classes, `truth`, or ``None`` where
    they are not known.
    """

    points: Tensor
    clusters: Tensor
    truth: Tensor | None


def latents_of(
    method: Any, population: Population, result: Mapping[str, Any], limit: int = MAX_SAMPLES
) -> LatentSample | None:
    """Embed at most `limit` clustered samples, spread evenly over all clients; ``None`` if no sample has a cluster.

    The embedding is `SampleMethod.embed`; for other methods the samples themselves are returned.
    """
    holders = [client for client in population.clients if "clusters" in client.state]
    count = sum(map(len, holders))
    if not count:
        return None
    rows = torch.linspace(0, count - 1, min(limit, count), dtype=torch.float64).round().long()
    starts = torch.tensor([0, *map(len, holders)]).cumsum(0)
    own = [rows[(rows >= start) & (rows < stop)] - start for start, stop in pairwise(starts)]
    x = torch.cat([client.x[chosen] for client, chosen in zip(holders, own, strict=True)])
    clusters = torch.cat([client.state["clusters"][chosen] for client, chosen in zip(holders, own, strict=True)])
    truth = population.truth
    known = [] if truth is None else [truth[client.id][chosen] for client, chosen in zip(holders, own, strict=True)]
    points = method.embed(result, x) if method.clusters == "samples" else x.flatten(1)
    return LatentSample(points, clusters, torch.cat(known) if known else None)
