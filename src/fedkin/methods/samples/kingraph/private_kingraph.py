"""kin-graph with differential privacy: only sums with Gaussian noise leave a client.

Two data sets are neighbours if one of them has one more sample, at one client. That sample changes nothing that other
clients send, so a guarantee for every client is one for the federation.

A sample's features are scaled to a length of at most 1, by a constant that does not depend on data. A sample enters

1. the moments: a count, the features and their outer product; their sensitivity is sqrt(3);
2. in each of four rounds, the sums of the nearest of the server's common centres: a count and the components, clipped
   to a length of 1; their sensitivity is sqrt(2).

With noise of standard deviation s, a release of sensitivity c is (c / s)-GDP. All five adaptive releases together are
GDP with the root of the sum of squares; `fedkin.privacy.gaussian` converts that to epsilon and delta. Everything else,
the components, the first centres drawn from them, the clusters kept, the graph and its clusters, is computed from these
sums alone. Number, range and means of samples are never sent. A client keeps an account of its releases in a run, and
sends nothing if a request exceeds the budget named by the server, or if that budget exceeds its own. A repeated release
has the same noise. The client clips lengths itself, whatever the server asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Payload, Record, client_task
from fedkin.core.payload import MAX_SAMPLE, Expected, counts_to, doubles, is_number, positive, reals
from fedkin.features.pca import Components, symmetric
from fedkin.methods.samples.kingraph.kingraph_space import SPACE, KinGraphState, client_features
from fedkin.methods.samples.private_releases import (
    UnitDirections,
    check_budgets,
    is_row_by_row,
    triangle_of,
    without_scale,
)
from fedkin.privacy.budget import clipped, nearest_points, noise_source, place, released, sum_products
from fedkin.privacy.gaussian import gaussian_mu

_MOMENTS_SENSITIVITY, _SUMS_SENSITIVITY = math.sqrt(3), math.sqrt(2)
_BATCH = 2048
_SPACE: Expected = {
    **SPACE, "features": is_row_by_row, "bound": positive, "directions": UnitDirections(("width", "components")),
}  # fmt: skip
_ROUNDS = 4
_MOMENTS_FRACTION = 0.3
"""Fraction of the squared budget for the moments."""
_MAX_COMPONENTS, _MAX_CENTRES, _MIN_CENTRES = 25, 400, 10
_RADIUS = 1.5
"""Length that components are clipped to, as a multiple of the root mean square of their length."""
_MASS = 5.0
"""Intended number of samples per centre, as a multiple of the length of the noise on its sum."""
_ALIVE = 2.0
"""Standard deviations of the noise above which a count is significant."""


@client_task(
    takes={"space": _SPACE, "width": counts_to(2**15), "deviation": positive, "budget": positive},
    holds={"count": is_number, "total": doubles("width"), "second": reals(None)},
    may_be_empty=True,
    accounted=True,
    sends="How much values differ, and which columns rise and fall together, with noise",
    fewest="noise",
)
def send_noisy_moments(client: Client, payload: Payload) -> Payload:
    """Send the noisy count, sum and outer products of a client's features; nothing if its budget does not suffice."""
    width = payload["width"]
    total = torch.zeros(width, dtype=torch.float64)
    for rows in _clipped_features(client, payload["space"], width):
        total += rows.sum(0)
    second = sum_products(_clipped_features(client, payload["space"], width), width)
    exact = [torch.tensor(len(client)), triangle_of(second), total]
    found = released(client, exact, _MOMENTS_SENSITIVITY, payload)
    if found is None:
        return {}
    count, triangle, total = found
    return {"count": float(count), "total": total, "second": without_scale(triangle, width)}


@client_task(
    takes={
        "space": _SPACE, "centres": reals("centres", "components"), "radius": positive, "deviation": positive,
        "budget": positive,
    },
    holds={"counts": doubles("centres", minimum=-MAX_SAMPLE, maximum=MAX_SAMPLE), "sums": doubles("centres", None)},
    may_be_empty=True,
    accounted=True,
    sends="Small groups of rows: their middle and size, with noise", fewest="noise",
)  # fmt: skip
def send_noisy_sums(client: Client, payload: Payload) -> Payload:
    """Send noisy counts and sums of components by nearest centre; nothing if the client's budget does not suffice."""
    centres, radius = payload["centres"], payload["radius"]
    mean, directions = payload["space"]["mean"].double(), payload["space"]["directions"]
    middle = mean @ clipped(directions.T).T
    counts, sums = torch.zeros(len(centres), dtype=torch.int64), torch.zeros(centres.shape, dtype=torch.float64)
    for rows in _clipped_features(client, payload["space"], len(directions)):
        points = clipped((place(rows, directions) - middle) / radius)
        labels = nearest_points(points, centres / radius)
        counts += labels.bincount(minlength=len(centres))
        sums.index_add_(0, labels, points)
    found = released(client, [counts, sums], _SUMS_SENSITIVITY, payload)
    return {} if found is None else dict(zip(("counts", "sums"), found, strict=True))


def _clipped_features(client: Client, space: Payload, width: int) -> Iterator[Tensor]:
    """Return a client's features in batches, `clipped`: float64 ``(b, width)``."""
    features = client_features(client.x, space)
    if features.shape[1] != width:
        raise FedkinError(f"Features have {features.shape[1]} numbers here, not {width}.", public=True)
    yield from (clipped(batch) for batch in features.split(_BATCH))


@dataclass(frozen=True)
class PrivacyBudget:
    """Budget of all that leaves a client, its `mu` of Gaussian differential privacy, and the deviation of its noise."""

    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def moments_deviation(self) -> float:
        return _MOMENTS_SENSITIVITY / (self.mu * math.sqrt(_MOMENTS_FRACTION))

    @property
    def round_deviation(self) -> float:
        return _SUMS_SENSITIVITY / (self.mu * math.sqrt((1 - _MOMENTS_FRACTION) / _ROUNDS))


def private_step(
    fed: Federation, state: KinGraphState, budget: PrivacyBudget, components: int
) -> tuple[KinGraphState | None, Record]:
    """Return the state with the step's findings, and its record; ``None`` for the state to repeat the step."""
    return _nodes(fed, state, budget) if len(state.mean) else _components(fed, state, budget, components)


def _components(
    fed: Federation, state: KinGraphState, budget: PrivacyBudget, components: int
) -> tuple[KinGraphState | None, Record]:
    """Find the principal components of noisy moments that exceed the noise, and the noisy number of samples."""
    width, deviation = state.width, budget.moments_deviation
    request = {"space": state.space, "width": width, "deviation": deviation, "budget": budget.mu}
    expected = {"total": doubles(width), "second": reals(width * (width + 1) // 2)}
    replies = fed.ask(send_noisy_moments, fed.all(**request), expected)
    record = Record(list(replies), replies.missing, {"phase": "components", "features": state.features})
    sent = [reply for reply in replies.values() if reply]
    if not sent:
        check_budgets(record.missing, budget.epsilon)
        return None, record
    count = max(1.0, sum(reply["count"] for reply in sent))
    mean = torch.stack([reply["total"] for reply in sent]).sum(0) / count
    second = symmetric(torch.stack([reply["second"] for reply in sent]).double().sum(0) / count, width)
    values, vectors = torch.linalg.eigh(second - torch.outer(mean, mean))
    values, vectors = values.flip(0), vectors.flip(1)
    edge = deviation * math.sqrt(2 * width * len(sent)) / count  # of a symmetric Gaussian matrix
    kept = max(1, min(int((values > edge).sum()), components, _MAX_COMPONENTS))
    leading = Components(mean.float(), vectors[:, :kept].float().contiguous(), values[:kept].clamp_min(1e-9).float())
    record.values.update(components=kept, epsilon=budget.epsilon, delta=budget.delta, noise_source=noise_source(fed))
    return replace(state.at(leading), samples=count), record


def _nodes(fed: Federation, state: KinGraphState, budget: PrivacyBudget) -> tuple[KinGraphState | None, Record]:
    """Find common centres by four rounds of Lloyd's algorithm on noisy sums, and their noisy counts.

    The first centres are drawn from a Gaussian with the components' variances. Between rounds a centre without a
    significant count is drawn again near one of the others, chosen by their counts; after the last round it is
    dropped.
    """
    variances, deviation = state.variances, budget.round_deviation
    rng, radius = fed.rng("private"), _RADIUS * float(variances.sum().sqrt())
    on_a_sum = deviation * math.sqrt(len(fed.present) * len(variances))
    number = int(min(_MAX_CENTRES, max(_MIN_CENTRES, state.samples / (_MASS * on_a_sum))))
    centres = _within(torch.randn(number, len(variances), generator=rng) * variances.sqrt(), radius)
    counts, alive = torch.zeros(number), torch.zeros(number, dtype=torch.bool)
    request = {"space": state.space, "radius": radius, "deviation": deviation, "budget": budget.mu}
    expected = {"counts": doubles(number), "sums": doubles(*centres.shape)}
    record, answered, any_reply = Record([], {}, {"phase": "graph"}), set(fed.present), False
    for round_ in range(_ROUNDS):
        replies = fed.ask(send_noisy_sums, fed.all(**request, centres=centres), expected)
        answered &= set(replies)
        record.missing.update(replies.missing)
        sent = [reply for reply in replies.values() if reply]
        if not sent:
            continue
        any_reply = True
        counts = torch.stack([reply["counts"] for reply in sent]).sum(0).float()
        sums = torch.stack([reply["sums"] for reply in sent]).sum(0).float()
        alive = counts > _ALIVE * deviation * math.sqrt(len(sent))
        moved = _within(radius * sums / counts.clamp_min(1.0)[:, None], radius)
        centres = torch.where(alive[:, None], moved, centres)
        if round_ < _ROUNDS - 1:
            centres = _revived(centres, counts, alive, variances, rng)
    record.answered.extend(sorted(answered))
    if not any_reply:
        check_budgets(record.missing, budget.epsilon)
        return None, record
    if not alive.any():
        raise FedkinError(
            f"With method.epsilon = {budget.epsilon:g} the noise hides all clusters of about {state.samples:,.0f} "
            "samples; use more samples or a larger epsilon."
        )
    record.values["epsilon"] = budget.epsilon
    counts = counts[alive].round().clamp_min(1).long()
    return replace(state, centroids=centres[alive], counts=counts), record


def _revived(centres: Tensor, counts: Tensor, alive: Tensor, variances: Tensor, rng: torch.Generator) -> Tensor:
    """Return the centres, with those not `alive` drawn again near others."""
    dead = int((~alive).sum())
    if not dead or dead == len(alive):
        return centres
    near = torch.multinomial(torch.where(alive, counts, 0.0), dead, replacement=True, generator=rng)
    new = centres[near] + torch.randn(dead, len(variances), generator=rng) * variances.sqrt() / 2
    centres = centres.clone()
    centres[~alive] = new
    return centres


def _within(points: Tensor, radius: float) -> Tensor:
    """Return points clipped to length `radius`."""
    inside: Tensor = points * (radius / points.norm(dim=1, keepdim=True).clamp_min(radius))
    return inside
