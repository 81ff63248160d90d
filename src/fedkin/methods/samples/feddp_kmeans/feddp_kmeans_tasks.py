"""Tasks of FedDP-KMeans's clients: send sums and counts of clipped rows, with Gaussian noise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedkin.clustering.nearest import nearest_centroids, pairwise_distances
from fedkin.core import Client, FedkinError, Payload, client_task
from fedkin.core.replies import MAX_SAMPLE, Expected, Maybe, counts_to, doubles, positive, reals, within
from fedkin.features.kept_features import own_features
from fedkin.methods.samples.private_releases import is_row_by_row, triangle_of, without_scale
from fedkin.privacy.budget import clipped, released

WIDEST = 4096
"""Maximum number of features, as a client sends their outer products."""
SUMS_SENSITIVITY = math.sqrt(2)
_BATCH = 2048
_SHARED: Expected = {"features": is_row_by_row, "bound": positive, "deviation": positive, "budget": positive}
_COUNTS = doubles("points", minimum=-MAX_SAMPLE, maximum=MAX_SAMPLE)


@client_task(
    takes={**_SHARED, "width": counts_to(WIDEST)}, holds={"products": reals(None)}, may_be_empty=True, accounted=True
)
def send_products(client: Client, payload: Payload) -> Payload:
    """Send the noisy sum of outer products of a client's rows, as a lower triangle."""
    width = payload["width"]
    products = torch.zeros(width, width, dtype=torch.float64)
    for rows in _batches(client, payload, width):
        products += rows.T @ rows
    found = released(client, [triangle_of(products)], 1.0, payload)
    return {} if found is None else {"products": without_scale(found[0], width)}


@client_task(
    takes={**_SHARED, "directions": reals("width", "rank"), "points": reals("points", "rank")},
    holds={"counts": _COUNTS},
    may_be_empty=True,
    accounted=True,
)
def count_by_point(client: Client, payload: Payload) -> Payload:
    """Send noisy counts of a client's rows nearest to each point in the space of the directions."""
    counts = torch.zeros(len(payload["points"]), dtype=torch.int64)
    for rows in _batches(client, payload, len(payload["directions"])):
        near = nearest_centroids(rows @ payload["directions"], payload["points"])
        counts += near.bincount(minlength=len(counts))
    found = released(client, [counts], 1.0, payload)
    return {} if found is None else {"counts": found[0]}


@client_task(
    takes={
        **_SHARED, "directions": Maybe(reals("width", "rank")), "points": reals("points", None),
        "margin": within(0, 1), "width": counts_to(WIDEST),
    },
    holds={"counts": _COUNTS, "sums": doubles("points", None)},
    may_be_empty=True,
    accounted=True,
)  # fmt: skip
def send_sums(client: Client, payload: Payload) -> Payload:
    """Send noisy sums and counts of a client's rows by nearest point, of rows clearly nearest to one point.

    Points are in the space of the ``directions`` if there are any. A row counts if its distance to the nearest point
    is at most ``margin`` times that to the second nearest.
    """
    points, width = payload["points"], payload["width"]
    counts = torch.zeros(len(points), dtype=torch.int64)
    sums = torch.zeros(len(points), width, dtype=torch.float64)
    for rows in _batches(client, payload, width):
        placed = rows @ payload["directions"] if "directions" in payload else rows
        if placed.shape[1] != points.shape[1]:
            raise FedkinError(f"Points have {points.shape[1]} numbers, where rows have {placed.shape[1]}.", public=True)
        near, counted = _clearly_nearest(placed, points, payload["margin"])
        counts += near[counted].bincount(minlength=len(points))
        sums.index_add_(0, near[counted], rows[counted].double())
    found = released(client, [counts, sums], SUMS_SENSITIVITY, payload)
    return {} if found is None else {"counts": found[0], "sums": found[1]}


def _batches(client: Client, payload: Payload, width: int) -> list[Tensor]:
    """Return a client's rows in batches, in units of the bound: float32 ``(b, width)``, of length at most 1."""
    rows = own_features(payload["features"], client.x)
    wanted = (len(client), width)
    if rows.shape != wanted:
        raise FedkinError(f"Features of {len(client)} samples have shape {tuple(rows.shape)}, not {wanted}.")
    return [clipped(batch / payload["bound"]) for batch in rows.split(_BATCH)]


def _clearly_nearest(rows: Tensor, points: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return the nearest point of each row ``(n,)``, and whether its distance is small enough by `margin`."""
    if margin == 1 or len(points) == 1:
        return nearest_centroids(rows, points), torch.ones(len(rows), dtype=torch.bool)
    near, at = pairwise_distances(rows, points).topk(2, largest=False)
    return at[:, 0], near[:, 0] <= margin * near[:, 1]
