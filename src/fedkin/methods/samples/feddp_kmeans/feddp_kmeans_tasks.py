"""Tasks of FedDP-KMeans's clients: send sums and counts of clipped rows, with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, client_task
from fedkin.core.replies import MAX_SAMPLE, Expected, Maybe, counts_to, doubles, positive, reals, within
from fedkin.features.kept_features import own_features
from fedkin.methods.samples.private_releases import UnitDirections, is_row_by_row, triangle_of, without_scale
from fedkin.privacy.budget import clipped, nearest_points, place, released, sum_products

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
    products = sum_products(_batches(client, payload, width), width)
    found = released(client, [triangle_of(products)], 1.0, payload)
    return {} if found is None else {"products": without_scale(found[0], width)}


@client_task(
    takes={**_SHARED, "directions": UnitDirections(("width", "rank")), "points": reals("points", "rank")},
    holds={"counts": _COUNTS},
    may_be_empty=True,
    accounted=True,
)
def count_by_point(client: Client, payload: Payload) -> Payload:
    """Send noisy counts of a client's rows nearest to each point in the space of the directions."""
    counts = torch.zeros(len(payload["points"]), dtype=torch.int64)
    for rows in _batches(client, payload, len(payload["directions"])):
        near, _ = nearest_points(place(rows, payload["directions"]), payload["points"])
        counts += near.bincount(minlength=len(counts))
    found = released(client, [counts], 1.0, payload)
    return {} if found is None else {"counts": found[0]}


@client_task(
    takes={
        **_SHARED, "directions": Maybe(UnitDirections(("width", "rank"))), "points": reals("points", None),
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
        placed = place(rows, payload["directions"]) if "directions" in payload else rows
        if placed.shape[1] != points.shape[1]:
            raise FedkinError(f"Points have {points.shape[1]} numbers, where rows have {placed.shape[1]}.", public=True)
        near, counted = nearest_points(placed, points, payload["margin"])
        counts += near[counted].bincount(minlength=len(points))
        sums.index_add_(0, near[counted], rows[counted])
    found = released(client, [counts, sums], SUMS_SENSITIVITY, payload)
    return {} if found is None else {"counts": found[0], "sums": found[1]}


def _batches(client: Client, payload: Payload, width: int) -> Iterator[Tensor]:
    """Return a client's rows in batches, in units of the bound: `clipped`, float64 ``(b, width)``."""
    rows = own_features(payload["features"], client.x)
    wanted = (len(client), width)
    if rows.shape != wanted:
        raise FedkinError(f"Features of {len(client)} samples have shape {tuple(rows.shape)}, not {wanted}.")
    yield from (clipped(batch.double() / payload["bound"]) for batch in rows.split(_BATCH))
