"""FFCM: federated fuzzy c-means (Stallmann and Wilbik 2022).

The server sends centres. Every client runs fuzzy c-means on its own samples from these centres and sends its centres
with their supports, the sums of memberships. The server aggregates them to new centres, until convergence.

The paper starts from random centres (``start="uniform"``) and runs up to 1000 rounds with a fuzziness of 2. With that
fuzziness all centres of images coincide, so the default is 1.1. By default clients start from k-means++ seeds of their
own, and the server clusters their centres by k-means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Gt
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means, memberships
from fedkin.clustering.k_means import k_means, kmeans_plusplus_seeds
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, client_task
from fedkin.core.method import Count, Positive
from fedkin.core.replies import (
    Expected,
    are_counts,
    below,
    count_or,
    counts_to,
    int64,
    is_count,
    is_name,
    reals,
    within,
)
from fedkin.features.extractors import extract
from fedkin.features.kept_features import cached_features
from fedkin.methods.samples.centroid_method import CentroidMethod, CentroidState, scaled_like_features
from fedkin.methods.samples.sample_method import describe_clients, own_count, reasons
from fedkin.nn.network_forms import MANY
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import check_enough, summed

_MIN_SUPPORT = 0.5
"""Minimum support, in samples, of a centre that a client sends."""
_SEEDS_AT_SERVER = 10


_MOVE: Expected = {
    "features": is_name, "centroids": reals(None, None), "fuzziness": within(1), "tolerance": within(0),
    "local_iterations": counts_to(MANY), "local_clusters": count_or("given"),
}  # fmt: skip


@client_task(
    takes=_MOVE,
    holds={
        "centres": reals("centres", None), "supports": reals("centres"), "indices": int64("centres"),
        "iterations": is_count,
    },
)  # fmt: skip
def move_centres(client: Client, payload: Payload) -> Payload:
    """Run fuzzy c-means on a client's own samples from the centres received.

    The reply has ``centres`` ``(k_l, width)``, their ``supports`` ``(k_l,)``, and ``indices``, int64 ``(k_l,)``: the
    received centre that each started from.
    """
    points = cached_features(payload["features"], client.x)
    wanted = min(own_count(client, payload["local_clusters"], "local_clusters"), len(points))
    start, indices = _start(points, payload["centroids"], wanted, payload["fuzziness"], client.rng)
    limits = (payload["tolerance"], payload["local_iterations"])
    found = fuzzy_c_means(points, start, payload["fuzziness"], *limits)
    kept = found.supports >= min(_MIN_SUPPORT, float(found.supports.max()))
    return {
        "centres": found.centres[kept],
        "supports": found.supports[kept],
        "indices": indices[kept],
        "iterations": found.iterations,
    }


@dataclass(frozen=True)
class FFCMState(CentroidState):
    """State of FFCM: the centres, now and `before` the last round, ``(k, width)``."""

    before: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class FFCMMethod(CentroidMethod):
    """Federated fuzzy c-means; one step is one communication round.

    Attributes
    ----------
    aggregation : {"kmeans", "mean"}
        Aggregation of the clients' centres: k-means of all of them, unweighted; or the mean of those that started from
        the same centre, weighted by support. A centre that no client sends stays unchanged.
    fuzziness : float
        Exponent m, above 1.
    local_clusters : int, "given" or None
        Local clusters per client, the paper's k_l; by default `n_clusters`. With fewer, a client starts from the
        centres with the largest support among its samples, and sends only these. "given": each client has its own
        number, int64 ``state["n_clusters"]``. No client looks for more clusters than it has samples.
    tolerance : float
        A client stops when none of its centres moves further than this, in units of the features. The server stops when
        none does within one round, or within two: centres of dissimilar clients may oscillate.
    rounds : int
        Maximum number of rounds. While clients come and go, centres may not converge.
    local_iterations : int
        Maximum number of iterations of a client per round.
    start : {"clients", "uniform"}
        Start of the first round: k-means++ seeds at every client, or centres drawn uniformly from [0, 1], as in the
        paper.
    """

    aggregation: Literal["kmeans", "mean"] = "kmeans"
    fuzziness: Annotated[float, Gt(1)] = 1.1
    local_clusters: Count | Literal["given"] | None = None
    tolerance: Positive = 1e-4
    rounds: Count = 20
    local_iterations: Count = 1000
    start: Literal["clients", "uniform"] = "clients"

    traits = CentroidMethod.traits.replace(
        sends="a centroid and a sum of weights for each cluster, in every round",
        cost="cheap",
        sums_suffice={"aggregation": "mean", "start": "uniform"},
    )
    state_type: ClassVar[type[State]] = FFCMState
    soft = True

    def init(self, fed: Federation) -> FFCMState:
        """Return the first state, with random centres if `start` is "uniform"."""
        facts = describe_clients(fed)
        state = FFCMState(**self.fields(facts.shape))
        if self.start == "clients":
            return state
        random = torch.rand(self.n_clusters, *facts.shape, generator=fed.rng("start"))
        return replace(state, centroids=extract(state.features, random))

    def step(self, fed: Federation, state: FFCMState) -> tuple[FFCMState, Record]:
        """Do one round; after the last, broadcast the centres."""
        payload: Payload = {
            "features": state.features,
            "centroids": state.centroids,
            "fuzziness": self.fuzziness,
            "tolerance": self.tolerance,
            "local_iterations": self.local_iterations,
            "local_clusters": self.local_clusters if self.local_clusters is not None else self.n_clusters,
        }
        answered, centroids, iterations = self._moved(fed, state, dict.fromkeys(fed.present, payload))
        missing, last = dict(fed.missing), state.steps + 1 == self.rounds
        if not answered:
            return self._unanswered(fed, state, missing, last)
        moved, in_two = (_distance(earlier, centroids) for earlier in (state.centroids, state.before))
        converged = min(moved, in_two) <= self.tolerance
        after = state.next(centroids=centroids, before=state.centroids, finished=last or converged)
        if after.finished:
            self.conclude(fed, after)
        return after, Record(answered, missing, {"moved": moved if isfinite(moved) else None, "iterations": iterations})

    def result(self, state: FFCMState) -> dict[str, Any]:
        """Return the centroids, scaled as the samples are, their features, and the fuzziness."""
        centroids = scaled_like_features(state.features, state.centroids)
        return super().result(state) | {"centroids": centroids, "fuzziness": self.fuzziness}

    def _moved(
        self, fed: Federation, state: FFCMState, payloads: dict[int, Payload]
    ) -> tuple[list[int], Tensor, dict[str, int]]:
        """Ask clients for centres; return who replied, the new centres ``(k, width)``, and iterations per client."""
        before = state.centroids
        if fed.secure_sums:
            check_enough(len(payloads))
            terms = [Term("sums", tuple(before.shape)), Term("supports", (len(before),))]
            found = summed(fed, move_centres_in_place, payloads, terms).get(0)
            return (found.clients, _means(before, **found.totals), {}) if found else ([], before, {})
        known = below(len(before)) if len(before) else are_counts
        replies = fed.ask(move_centres, payloads, {"centres": (None, state.width), "indices": known})
        if not replies:
            return [], before, {}
        iterations = {str(client): reply["iterations"] for client, reply in replies.items()}
        return list(replies), self._aggregated(fed, before, list(replies.values())), iterations

    def _aggregated(self, fed: Federation, before: Tensor, replies: list[Payload]) -> Tensor:
        """Return new centres ``(k, width)``, in the order of the previous ones if there are any."""
        if self.aggregation == "mean" and len(before):
            return mean_by_index(before, replies)
        pooled = torch.cat([reply["centres"] for reply in replies])
        # The same seeds in every round, so that centres stay once clients no longer move them.
        found = k_means(pooled.double(), self.n_clusters, fed.rng("kmeans"), _SEEDS_AT_SERVER).centres
        return in_order_of(before, found) if len(before) else found

    def _unanswered(
        self, fed: Federation, state: FFCMState, missing: dict[int, str], last: bool
    ) -> tuple[FFCMState, Record]:
        if last and not self.ready(state):
            raise FedkinError(f"No client answered FFCM in {self.rounds} rounds ({reasons(missing)}).")
        after = state.next(finished=last)
        if last:
            self.conclude(fed, after)
        return after, Record([], missing, {"moved": None, "iterations": {}})


@client_task(takes=_MOVE)
def move_centres_in_place(client: Client, payload: Payload) -> Payload:
    """Move centres as `move_centres` does, with replies that can be summed over clients (see `_by_index`)."""
    (reply,) = move_centres.run([client], [payload])
    sums, supports = _by_index(payload["centroids"], reply)
    return {"sums": sums, "supports": supports}


def mean_by_index(before: Tensor, replies: Sequence[Payload]) -> Tensor:
    """Return the means of centres that started from the same row of `before`, weighted by their supports.

    A reply has ``centres`` ``(k_l, width)``, ``supports`` ``(k_l,)`` and ``indices`` int64 ``(k_l,)``.
    """
    sums = torch.zeros(before.shape, dtype=torch.float64)
    supports = torch.zeros(len(before), dtype=torch.float64)
    for reply in replies:
        own_sums, own_supports = _by_index(before, reply)
        sums += own_sums
        supports += own_supports
    return _means(before, sums, supports)


def _by_index(before: Tensor, reply: Payload) -> tuple[Tensor, Tensor]:
    """Return a client's centres times supports ``(k, width)``, float64, and supports ``(k,)``, by starting centre."""
    supports = reply["supports"].double()
    sums = torch.zeros(before.shape, dtype=torch.float64)
    sums.index_add_(0, reply["indices"], supports[:, None] * reply["centres"])
    return sums, torch.zeros(len(before), dtype=torch.float64).index_add_(0, reply["indices"], supports)


def _means(before: Tensor, sums: Tensor, supports: Tensor) -> Tensor:
    """Return sums ``(k, width)`` divided by supports ``(k,)``; a centre of `before` without support stays."""
    known = supports > 0
    after = before.clone()
    after[known] = (sums[known] / supports[known, None]).float()
    return after


def in_order_of(before: Tensor, found: Tensor) -> Tensor:
    """Return the rows of `found` ``(j, width)`` in the order of the rows of `before` ``(k, width)`` they match.

    Matching minimises the sum of squared distances. With j < k, unmatched rows of `before` stay; with j > k, unmatched
    rows of `found` come last.
    """
    rows, columns = linear_sum_assignment(torch.cdist(before.double(), found.double()).square().numpy())
    after = before.clone()
    after[rows] = found[columns]
    new = torch.ones(len(found), dtype=torch.bool)
    new[columns] = False
    return torch.cat([after, found[new]])


def _distance(before: Tensor, after: Tensor) -> float:
    """Return the largest distance that a centre moved; infinite if the number of centres changed."""
    return float((after - before).norm(dim=1).max()) if len(before) == len(after) else inf


def _start(
    points: Tensor, centroids: Tensor, wanted: int, fuzziness: float, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return a client's first centres ``(k_l, width)``: rows of `centroids` with their indices, or its own seeds."""
    if not len(centroids):
        seeds = kmeans_plusplus_seeds(points, wanted, rng)
        return seeds, torch.arange(len(seeds))
    indices = torch.arange(len(centroids))
    if wanted < len(centroids):
        support = memberships(points, centroids, fuzziness).sum(0)
        indices = support.topk(wanted).indices.sort().values
    return centroids[indices], indices
