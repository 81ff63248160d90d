"""Tasks of kin-graph with differential privacy: sums with Gaussian noise, charged to the client's budget."""

from __future__ import annotations

import math

import torch

from fedkin.clustering.nearest import nearest_centroids
from fedkin.core import Client, FedkinError, Payload, client_task
from fedkin.core.replies import MAX_SAMPLE, Expected, counts_to, doubles, is_number, positive, reals
from fedkin.methods.samples.kingraph.kingraph_space import SPACE, client_features, client_points
from fedkin.methods.samples.private_releases import is_row_by_row, triangle_of, without_scale
from fedkin.privacy.releases import clipped, released

MOMENTS_SENSITIVITY, SUMS_SENSITIVITY = math.sqrt(3), math.sqrt(2)
_BATCH = 2048

PRIVATE_SPACE: Expected = {**SPACE, "features": is_row_by_row, "bound": positive}


@client_task(
    takes={"space": PRIVATE_SPACE, "width": counts_to(2**15), "deviation": positive, "budget": positive},
    holds={"count": is_number, "total": doubles("width"), "second": reals(None)},
    may_be_empty=True,
    accounted=True,
)
def send_noisy_moments(client: Client, payload: Payload) -> Payload:
    """Send the noisy count, sum and outer products of a client's features; nothing if its budget does not suffice."""
    width = payload["width"]
    total, second = torch.zeros(width, dtype=torch.float64), torch.zeros(width, width, dtype=torch.float64)
    for batch in client_features(client, payload["space"]).split(_BATCH):
        rows = clipped(batch)
        if rows.shape[1] != width:
            raise FedkinError(f"Features have {rows.shape[1]} numbers here, not {width}.")
        total += rows.sum(0, dtype=torch.float64)
        second += rows.T @ rows
    exact = [torch.tensor(float(len(client))), triangle_of(second), total]
    found = released(client, exact, MOMENTS_SENSITIVITY, payload)
    if found is None:
        return {}
    count, triangle, total = found
    return {"count": float(count), "total": total, "second": without_scale(triangle, width)}


@client_task(
    takes={
        "space": PRIVATE_SPACE, "centres": reals("centres", "components"), "radius": positive, "deviation": positive,
        "budget": positive,
    },
    holds={"counts": doubles("centres", minimum=-MAX_SAMPLE, maximum=MAX_SAMPLE), "sums": doubles("centres", None)},
    may_be_empty=True,
    accounted=True,
)  # fmt: skip
def send_noisy_sums(client: Client, payload: Payload) -> Payload:
    """Send noisy counts and sums of components by nearest centre; nothing if the client's budget does not suffice."""
    centres, radius = payload["centres"], payload["radius"]
    points = clipped(client_points(client, payload["space"]) / radius)
    labels = nearest_centroids(points, centres / radius)
    sums = torch.zeros(centres.shape, dtype=torch.float64).index_add_(0, labels, points.double())
    found = released(client, [labels.bincount(minlength=len(centres)), sums], SUMS_SENSITIVITY, payload)
    return {} if found is None else dict(zip(("counts", "sums"), found, strict=True))
