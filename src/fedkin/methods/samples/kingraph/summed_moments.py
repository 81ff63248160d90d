"""Moments of all clients' features, and the scatter between neighbours, from secure sums over clients.

Features are added up in fixed point, see `fixed_point`, so that a sum is the same in any order of clients.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedkin.clustering.whitening import MIN_SAMPLES
from fedkin.core import Client, Payload, client_task
from fedkin.core.replies import doubles, positive, whole
from fedkin.data.preparing.fixed_point import SCALED_UNITS, of_digits, to_digits
from fedkin.features.pca import FeatureMoments, lower_triangle, symmetric
from fedkin.methods.samples.kingraph.kingraph_space import SPACE, client_features, neighbour_scatter
from fedkin.secure_aggregation.client_sums import ClientSums

_BATCH = 2048
_DIGITS = len(SCALED_UNITS)


@client_task(
    takes={"space": SPACE},
    holds={"count": whole(1), "total": doubles(_DIGITS, "width"), "squares": doubles(_DIGITS, 1)},
)
def send_feature_sums(client: Client, payload: Payload) -> Payload:
    """Send count, sum and sum of squares of a client's features, the last two as fixed-point digits."""
    features = client_features(client, payload["space"])
    squares = sum(batch.double().square().sum() for batch in features.split(_BATCH))
    return {
        "count": torch.tensor([len(client)]),
        "total": to_digits(features.sum(0, dtype=torch.float64), SCALED_UNITS),
        "squares": to_digits(torch.as_tensor(squares, dtype=torch.float64)[None], SCALED_UNITS),
    }


@client_task(takes={"space": SPACE, "scale": positive}, holds={"scatter": doubles(None)})
def send_feature_scatter(client: Client, payload: Payload) -> Payload:
    """Send the lower triangle of a client's scaled outer products of features about the common mean."""
    mean, scale = payload["space"]["mean"], payload["scale"]
    scatter = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for batch in client_features(client, payload["space"]).split(_BATCH):
        centred = (batch - mean) / scale
        scatter += centred.T @ centred
    return {"scatter": lower_triangle(scatter)}


@client_task(takes={"space": SPACE}, holds={"samples": whole(1), "scatter": doubles("components", "components")})
def send_neighbour_scatter(client: Client, payload: Payload) -> Payload:
    """Send the scatter between neighbours times the number of samples, and that number; zeros for fewer than 64."""
    width = payload["space"]["directions"].shape[1]
    samples = len(client) if len(client) >= MIN_SAMPLES else 0
    scatter = torch.zeros(width, width, dtype=torch.float64)
    if samples:
        scatter = samples * neighbour_scatter(client, payload["space"])
    return {"samples": torch.tensor([samples]), "scatter": scatter}


def summed_moments(sums: ClientSums, space: Payload, width: int) -> FeatureMoments | None:
    """Return the moments of all clients' features, from two sums; ``None`` if a sum failed.

    Parameters
    ----------
    sums : ClientSums
    space : dict
        Parameters of `features_of`.
    width : int
        Number of features.
    """
    wanted = {"count": (1,), "total": (_DIGITS, width), "squares": (_DIGITS, 1)}
    first = sums.ask(send_feature_sums, {"space": space}, wanted)
    if first is None:
        return None
    count, total = float(first["count"]), of_digits(first["total"], SCALED_UNITS)
    scale = math.sqrt(float(of_digits(first["squares"], SCALED_UNITS)) / count) or 1.0
    centred = space | {"mean": (total / count).float(), "directions": torch.zeros(width, 0)}
    second = sums.ask(
        send_feature_scatter, {"space": centred, "scale": scale}, {"scatter": (width * (width + 1) // 2,)}
    )
    if second is None:
        return None
    return FeatureMoments(count, total, symmetric(second["scatter"] * scale**2, width))


def summed_differences(sums: ClientSums, space: Payload) -> tuple[Tensor, int] | None:
    """Return the mean scatter between neighbours, float64 ``(d, d)``, and its samples; ``None`` if the sum failed."""
    width = space["directions"].shape[1]
    found = sums.ask(send_neighbour_scatter, {"space": space}, {"samples": (1,), "scatter": (width, width)})
    if found is None:
        return None
    samples = round(float(found["samples"]))
    return found["scatter"] / max(samples, 1), samples
