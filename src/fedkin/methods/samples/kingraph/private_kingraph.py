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
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedkin.core import Federation, FedkinError, Payload, Record
from fedkin.core.replies import doubles, reals
from fedkin.features.pca import Components, symmetric
from fedkin.methods.samples.kingraph.kingraph_space import KinGraphState
from fedkin.methods.samples.kingraph.private_kingraph_tasks import (
    MOMENTS_SENSITIVITY,
    SUMS_SENSITIVITY,
    send_noisy_moments,
    send_noisy_sums,
)
from fedkin.methods.samples.private_releases import check_budgets
from fedkin.privacy.gaussian import gaussian_mu

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


@dataclass(frozen=True)
class PrivacyBudget:
    """Budget of differential privacy, and the noise that it requires.

    Attributes
    ----------
    epsilon, delta : float
        Guarantee for all that leaves a client.
    """

    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        """Budget as mu of Gaussian differential privacy."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def moments_mu(self) -> float:
        return self.mu * math.sqrt(_MOMENTS_FRACTION)

    @property
    def round_mu(self) -> float:
        return self.mu * math.sqrt((1 - _MOMENTS_FRACTION) / _ROUNDS)

    @property
    def moments_deviation(self) -> float:
        """Standard deviation of the noise on each number of a client's moments."""
        return MOMENTS_SENSITIVITY / self.moments_mu

    @property
    def round_deviation(self) -> float:
        """Standard deviation of the noise on each number of a client's sums, in one round."""
        return SUMS_SENSITIVITY / self.round_mu


class NoisyRelease(NamedTuple):
    """Result of noisy exchanges, and the clients that replied.

    Attributes
    ----------
    value : Any
        Components and number of samples, or centroids and counts; None if no client sent anything.
    answered : list of int
        Clients that replied to every request.
    missing : dict of int to str
        Reasons why other clients did not, by client.
    """

    value: Any
    answered: list[int]
    missing: dict[int, str]


@dataclass(frozen=True)
class PrivatePath:
    """Steps of kin-graph with differential privacy.

    Attributes
    ----------
    budget : PrivacyBudget
    components : int
        As in `KinGraphMethod`.
    """

    budget: PrivacyBudget
    components: int

    def step(self, fed: Federation, state: KinGraphState) -> tuple[KinGraphState | None, Record]:
        """Return the state with the step's findings, and its record; ``None`` for the state to repeat the step."""
        budget = self.budget
        if not len(state.mean):
            found = private_components(fed, state.space, state.width, self.components, budget)
            record = Record(found.answered, found.missing, {"phase": "components", "features": state.features})
            if found.value is None:
                return None, record
            leading, samples = found.value
            record.values.update(components=len(leading.variances), epsilon=budget.epsilon, delta=budget.delta)
            return replace(state.at(leading), samples=samples), record
        found = private_clusters(fed, state.space, state.variances, state.samples, budget)
        if found.value is None:
            return None, Record(found.answered, found.missing, {"phase": "graph"})
        centroids, counts = found.value
        if not len(counts):
            raise FedkinError(
                f"With method.epsilon = {budget.epsilon:g} the noise hides all clusters of about {state.samples:,.0f} "
                "samples; use more samples or a larger epsilon."
            )
        record = Record(found.answered, found.missing, {"phase": "graph", "epsilon": budget.epsilon})
        return replace(state, centroids=centroids, counts=counts), record


def private_components(
    fed: Federation, space: Payload, width: int, maximum: int, budget: PrivacyBudget
) -> NoisyRelease:
    """Return principal components of noisy moments that exceed the noise, and the noisy number of samples.

    Parameters
    ----------
    fed : Federation
    space : dict
        Parameters of `features_of`, with features of length 1 at most.
    width : int
        Number of features.
    maximum : int
        Maximum number of components; never more than 25.
    budget : PrivacyBudget

    Raises
    ------
    FedkinError
        If all clients have spent their budgets.
    """
    request = {"space": space, "width": width, "deviation": budget.moments_deviation, "budget": budget.mu}
    expected = {"total": doubles(width), "second": reals(width * (width + 1) // 2)}
    replies = fed.ask(send_noisy_moments, fed.all(**request), expected)
    missing, sent = dict(fed.missing), [reply for reply in replies.values() if reply]
    if not sent:
        check_budgets(missing, budget.epsilon)
        return NoisyRelease(None, list(replies), missing)
    count = max(1.0, sum(reply["count"] for reply in sent))
    mean = torch.stack([reply["total"] for reply in sent]).sum(0) / count
    second = symmetric(torch.stack([reply["second"] for reply in sent]).double().sum(0) / count, width)
    values, vectors = torch.linalg.eigh(second - torch.outer(mean, mean))
    values, vectors = values.flip(0), vectors.flip(1)
    edge = budget.moments_deviation * math.sqrt(2 * width * len(sent)) / count  # of a symmetric Gaussian matrix
    kept = max(1, min(int((values > edge).sum()), maximum, _MAX_COMPONENTS))
    found = Components(mean.float(), vectors[:, :kept].float().contiguous(), values[:kept].clamp_min(1e-9).float())
    return NoisyRelease((found, count), list(replies), missing)


def private_clusters(
    fed: Federation, space: Payload, variances: Tensor, samples: float, budget: PrivacyBudget
) -> NoisyRelease:
    """Return common centres after four rounds of Lloyd's algorithm on noisy sums, and their noisy counts.

    The first centres are drawn from a Gaussian with the components' variances. Between rounds a centre without a
    significant count is drawn again near one of the others, chosen by their counts; after the last round it is dropped.

    Parameters
    ----------
    fed : Federation
    space : dict
        Parameters of `points_of`.
    variances : Tensor
        float32 ``(d,)``, variances of the components.
    samples : float
        Noisy number of samples of all clients.
    budget : PrivacyBudget

    Raises
    ------
    FedkinError
        If all clients have spent their budgets.
    """
    rng, deviation, clients = fed.rng("private"), budget.round_deviation, len(fed.present)
    radius = _RADIUS * float(variances.sum().sqrt())
    on_a_sum = deviation * math.sqrt(clients * len(variances))
    number = int(min(_MAX_CENTRES, max(_MIN_CENTRES, samples / (_MASS * on_a_sum))))
    centres = _within(torch.randn(number, len(variances), generator=rng) * variances.sqrt(), radius)
    counts, alive = torch.zeros(number), torch.zeros(number, dtype=torch.bool)
    answered, missing, any_reply = set(fed.present), {}, False
    for round_ in range(_ROUNDS):
        request = {"space": space, "centres": centres, "radius": radius, "deviation": deviation, "budget": budget.mu}
        replies = fed.ask(
            send_noisy_sums, fed.all(**request), {"counts": doubles(number), "sums": doubles(*centres.shape)}
        )
        answered &= set(replies)
        missing.update(fed.missing)
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
    if not any_reply:
        check_budgets(missing, budget.epsilon)
        return NoisyRelease(None, sorted(answered), missing)
    return NoisyRelease((centres[alive], counts[alive].round().clamp_min(1).long()), sorted(answered), missing)


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
