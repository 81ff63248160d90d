"""FFCM: federated fuzzy c-means (Stallmann and Wilbik 2022).

The server sends centres. Every client runs fuzzy c-means on its own samples from these centres and sends its centres
with their supports, the sums of memberships. The server aggregates them to new centres, until convergence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Gt
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means_of_sets, memberships_of_sets
from fedkin.clustering.k_means import k_means, kmeans_plusplus_rows, repeats
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, block_task, client_task
from fedkin.core import payload as forms
from fedkin.core.client_array import Block, PerClient
from fedkin.core.method import Count, Positive
from fedkin.core.seeds import draw_seed
from fedkin.features.extractors import extract
from fedkin.methods.samples.centroid_method import (
    CentroidMethod,
    CentroidState,
    features_for,
    features_of,
    scaled_like_features,
)
from fedkin.methods.samples.sample_method import describe_clients, reasons
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import check_enough, summed

_CHUNK = 1 << 16
"""Centres at a time whose products with weights are in memory, of millions of clients."""


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
        Exponent m, above 1. With the paper's 2 all centres of images coincide.
    local_clusters : int or None
        Local clusters per client, the paper's k_l; by default `n_clusters`. With fewer, a client starts from the
        centres with the largest support among its samples, and sends only these. No client looks for
        more clusters than it has samples.
    tolerance : float
        A client stops when none of its centres moves further than this, in units of the features. The server stops when
        none does within one round, or within two: centres of dissimilar clients may oscillate.
    rounds : int
        Maximum number of rounds. While clients come and go, centres may not converge.
    start : {"clients", "uniform"}
        Start of the first round: k-means++ seeds at every client, or centres drawn uniformly from [0, 1], as in the
        paper.
    """

    aggregation: Literal["kmeans", "mean"] = "kmeans"
    fuzziness: Annotated[float, Gt(1)] = 1.1
    local_clusters: Count | None = None
    tolerance: Positive = 1e-4
    rounds: Count = 20
    start: Literal["clients", "uniform"] = "clients"

    traits = CentroidMethod.traits.replace(
        cost="cheap",
        sums_suffice={"aggregation": "mean", "start": "uniform"},
        paper={"fuzziness": 2.0, "start": "uniform", "rounds": 1000},
    )
    state_type: ClassVar[type[State]] = FFCMState
    soft = True

    def init(self, fed: Federation) -> FFCMState:
        """Return the first state, with random centres if `start` is "uniform"."""
        shape = describe_clients(fed).shape
        state = FFCMState(**features_for(self.features, shape))
        if self.start == "clients":
            return state
        random = torch.rand(self.n_clusters, *shape, generator=fed.rng("start"))
        return replace(state, centroids=extract(state.features, random))

    def step(self, fed: Federation, state: FFCMState) -> tuple[FFCMState, Record]:
        """Do one round; after the last, broadcast the centres."""
        payload: Payload = {
            "features": state.features,
            "centroids": state.centroids,
            "fuzziness": self.fuzziness,
            "tolerance": self.tolerance,
            "local_clusters": self.local_clusters if self.local_clusters is not None else self.n_clusters,
        }
        answered, missing, centroids = self._aggregated(fed, state, payload)
        last = state.steps + 1 == self.rounds
        if answered:
            moved, in_two = (_distance(before, centroids) for before in (state.centroids, state.before))
            finished = last or min(moved, in_two) <= self.tolerance
            after = state.next(centroids=centroids, before=state.centroids, finished=finished)
        elif last and not self.ready(state):
            raise FedkinError(f"No client answered FFCM in {self.rounds} rounds ({reasons(missing)}).")
        else:
            after = state.next(finished=last)
        if after.finished:
            self.conclude(fed, after)
        return after, Record(answered, missing)

    def result(self, state: FFCMState) -> dict[str, Any]:
        centroids = scaled_like_features(state.features, state.centroids)
        return super().result(state) | {"centroids": centroids, "fuzziness": self.fuzziness}

    def _aggregated(
        self, fed: Federation, state: FFCMState, payload: Payload
    ) -> tuple[list[int], dict[int, str], Tensor]:
        """Ask clients for centres; return who replied and who did not, and new centres, in the order of any before."""
        before = state.centroids
        if fed.secure_sums:
            check_enough(len(fed.present))
            terms = [Term("sums", tuple(before.shape)), Term("supports", (len(before),))]
            secret = summed(fed, move_centres_in_place, fed.all(**payload), terms)
            if 0 not in secret:
                return [], secret.missing, before
            return secret[0].clients, secret.missing, _means(before, **secret[0].totals)
        indices = forms.below(len(before)) if len(before) else forms.below(forms.MAX_COUNT)
        replies = fed.ask(move_centres, fed.all(**payload), {"centres": (None, state.width), "indices": indices})
        if not replies:
            return [], replies.missing, before
        pooled = replies.cat("centres")
        if self.aggregation == "mean" and len(before):
            sums = _by_index(before, pooled, replies.cat("supports"), replies.cat("indices"))
            return list(replies), replies.missing, _means(before, *sums)
        # The same seeds in every round, so that centres stay once clients no longer move them; ten starts.
        centres = k_means(pooled, self.n_clusters, fed.rng("kmeans"), exact=True).centres
        centres = in_order_of(before, centres) if len(before) else centres
        return list(replies), replies.missing, centres


_MOVE: forms.Expected = {
    "features": forms.is_name, "centroids": forms.reals(None, None), "fuzziness": forms.within(1),
    "tolerance": forms.within(0), "local_clusters": forms.counts_to(forms.MANY),
}  # fmt: skip


@block_task(
    takes=_MOVE,
    holds={
        "centres": forms.reals("centres", None), "supports": forms.reals("centres"), "indices": forms.int64("centres"),
    },
    sends="Groups of rows: their middle, and how many rows each has",
)  # fmt: skip
def move_centres(block: Block, payload: Payload) -> Payload:
    """Run fuzzy c-means on a client's own samples from the centres received, or from its own seeds without any.

    The reply has ``centres`` ``(k_l, width)``, their ``supports`` ``(k_l,)``, and ``indices``, int64 ``(k_l,)``: the
    received centre that each started from.
    """
    points, centroids, fuzziness = features_of(block, payload["features"]), payload["centroids"], payload["fuzziness"]
    clients, n, _ = points.shape
    count, valid = min(payload["local_clusters"], n), None
    if len(centroids):
        indices = torch.arange(len(centroids)).expand(clients, -1)
        if count < len(centroids):
            support = memberships_of_sets(points, centroids, fuzziness).sum(1)
            indices = support.topk(count).indices.sort().values
        start = centroids[indices]
    else:
        rows = kmeans_plusplus_rows(points, count, [draw_seed(rng) for rng in block.rngs()])
        start = points.gather(1, rows[..., None].expand(-1, -1, points.shape[2]))
        valid = ~repeats(start)
        indices = valid.cumsum(1) - 1
    moved = fuzzy_c_means_of_sets(points, start, valid, fuzziness, payload["tolerance"])
    # Of centres with hardly a sample the server hears nothing, unless there are no others.
    supported = moved.supports >= moved.supports.amax(1, keepdim=True).clamp_max(0.5)
    if valid is not None:
        supported &= valid
    parts = {"centres": moved.centres, "supports": moved.supports, "indices": indices}
    return {name: PerClient.where(part, supported) for name, part in parts.items()}


@client_task(takes=_MOVE, sends="Groups of rows: their middle, and how many rows each has")
def move_centres_in_place(client: Client, payload: Payload) -> Payload:
    """Move centres as `move_centres` does, with replies that can be summed over clients (see `_by_index`)."""
    (reply,) = move_centres.run([client], [payload])
    sums, supports = _by_index(payload["centroids"], reply["centres"], reply["supports"], reply["indices"])
    return {"sums": sums, "supports": supports}


def _by_index(before: Tensor, centres: Tensor, supports: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return centres times supports ``(k, width)``, float64, and supports ``(k,)``, summed by starting centre."""
    sums, mass = torch.zeros(before.shape, dtype=torch.float64), torch.zeros(len(before), dtype=torch.float64)
    for rows in torch.arange(len(centres)).split(_CHUNK):
        weights = supports[rows].double()
        # One after another, as the order of a sum changes its last digits.
        sums.index_add_(0, indices[rows], weights[:, None] * centres[rows])
        mass.index_add_(0, indices[rows], weights)
    return sums, mass


def _means(before: Tensor, sums: Tensor, supports: Tensor) -> Tensor:
    """Return sums ``(k, width)`` divided by supports ``(k,)``; a centre of `before` without support stays."""
    supported = supports[:, None] > 0
    return torch.where(supported, (sums / supports[:, None]).float(), before)


def in_order_of(before: Tensor, centres: Tensor) -> Tensor:
    """Return the rows of `centres` ``(j, width)`` in the order of the rows of `before` ``(k, width)`` they match.

    Matching minimises the sum of squared distances. With j < k, unmatched rows of `before` stay; with j > k, unmatched
    rows of `centres` come last.
    """
    rows, columns = linear_sum_assignment(torch.cdist(before.double(), centres.double()).square().numpy())
    after = before.clone()
    after[rows] = centres[columns]
    unmatched = torch.ones(len(centres), dtype=torch.bool)
    unmatched[columns] = False
    return torch.cat([after, centres[unmatched]])


def _distance(before: Tensor, after: Tensor) -> float:
    """Return the largest distance that a centre moved; infinite if the number of centres changed."""
    return float((after - before).norm(dim=1).max()) if len(before) == len(after) else inf
