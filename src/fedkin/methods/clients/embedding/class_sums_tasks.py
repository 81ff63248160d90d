"""Tasks of clients that describe their data by class sums with Gaussian noise, instead of randomised bits.

A sample contributes the direction of its code, a vector of length 1. What leaves a client are sums over samples, whose
sensitivity to one sample is bounded, with noise charged to a privacy account; see `fedkin.privacy.budget`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.core import Client, Payload, client_task
from fedkin.core.replies import MAX_CLASSES, Expected, counts_to, positive, reals, updates
from fedkin.methods.clients.client_tasks import labels_of
from fedkin.nn.encoder import Encoder
from fedkin.nn.network_forms import ENCODER
from fedkin.privacy.budget import clipped, released

COUNTED = 0.5
"""Contribution of a sample to its count, besides the vector of length 1 that it adds to its sum; counts may be noisier
than sums, since a client with few samples of a class has an inaccurate sum of it anyway."""
SENSITIVITY = math.hypot(1.0, COUNTED)

_SHARED: Expected = {"encoder": ENCODER, "vector": updates("size"), "deviation": positive, "budget": positive}


@client_task(takes=_SHARED, holds={"total": reals(None)}, may_be_empty=True)
def send_code_total(client: Client, payload: Payload) -> Payload:
    """Send the noisy sum of the directions of a client's codes, and half the number of samples: ``(width + 1,)``.

    The reply is empty if the client's budget does not suffice.
    """
    rows = _counted(clipped(directions(client.x, payload)))
    found = released(client, [rows.sum(0)], SENSITIVITY, payload)
    return {} if found is None else {"total": found[0].float()}


@client_task(
    takes={**_SHARED, "centre": reals(None), "radius": positive, "segments": counts_to(MAX_CLASSES)},
    holds={"sums": reals(None, None)},
    may_be_empty=True,
)
def send_class_sums(client: Client, payload: Payload) -> Payload:
    """Send each class's noisy sum of directions and half its number of samples: ``(classes, width + 1)``.

    The reply is empty if the client's budget does not suffice.
    """
    sums = class_sums_of(client, payload)
    return {} if sums is None else {"sums": sums}


def class_sums_of(client: Client, how: Mapping[str, Any]) -> Tensor | None:
    """Return a client's noisy sums, float32 ``(segments, width + 1)``; ``None`` if its budget does not suffice.

    Labels beyond the segments are left out. `how` has ``encoder`` and ``vector``; ``centre`` ``(width,)`` of all
    directions and ``radius``, the distance from it that is scaled to 1 in these sums; ``segments``; ``deviation`` of
    the noise, and the ``budget`` of the run.
    """
    y = labels_of(client)
    rows = _counted(clipped((directions(client.x, how) - how["centre"].double()) / how["radius"]))
    known = y < how["segments"]
    sums = torch.zeros(how["segments"], rows.shape[1], dtype=torch.float64).index_add_(0, y[known], rows[known])
    found = released(client, [sums], SENSITIVITY, how)
    return None if found is None else found[0].float()


def directions(x: Tensor, how: Mapping[str, Any]) -> Tensor:
    """Return the samples' codes scaled to length 1: float64 ``(n, width)``; codes of zero stay zero."""
    codes = Encoder.of(how["encoder"]).codes(how["vector"], x).double().nan_to_num(0.0, 0.0, 0.0)
    return normalize(codes, dim=1)


def _counted(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_full((len(rows), 1), COUNTED)], 1)
