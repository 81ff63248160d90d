"""FedDP-KMeans: private k-means initialised with samples of the server (Scott, Lampert, Saulpic, ICML 2025).

The server has a few samples of its own, related to the clients' but perhaps of another distribution. Clients send only
sums with Gaussian noise, of rows that they clip to a length of 1, in units of a `bound` that does not depend on data:

1. outer products of rows, sensitivity 1: their leading eigenvectors span the space of the initialisation;
2. number of rows nearest to each sample of the server, sensitivity 1: k-means of these samples with these weights;
3. sums and counts of the rows nearest to each centre in that space, sensitivity sqrt(2): the first centroids;
4. in each round of Lloyd's algorithm, sums and counts of the rows nearest to each centroid, likewise.

Two data sets are neighbours if one of them has one more sample, at one client. Each of the four stages has a quarter of
the squared budget, as mu of Gaussian differential privacy, see `fedkin.privacy.gaussian`. Clients clip and keep an
account themselves, see `fedkin.privacy.budget`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from annotated_types import Ge, Interval
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.core import Federation, FedkinError, Payload, Record, State, Task, block_task
from fedkin.core import payload as forms
from fedkin.core.client_array import Block
from fedkin.core.method import Positive, ServerData, Values
from fedkin.features.extractors import extract
from fedkin.features.pca import symmetric
from fedkin.methods.samples import private_releases as private
from fedkin.methods.samples.centroid_method import (
    CentroidMethod,
    CentroidState,
    features_for,
    features_of,
    scaled_like_features,
)
from fedkin.methods.samples.sample_method import reasons, repeat_step
from fedkin.privacy.budget import clipped, nearest_points, noise_source, place, released_of_block, sum_products
from fedkin.privacy.gaussian import gaussian_mu

WIDEST = 4096
"""Maximum number of features, as a client sends their outer products."""
SUMS_SENSITIVITY = math.sqrt(2)
_MAX_POINTS = 1000


@dataclass(frozen=True)
class FedDPKMeansState(CentroidState):
    """State of FedDP-KMeans, with rows in units of the bound, a length of features.

    `points` ``(m, width)`` are samples of the server. Once found, `directions` ``(width, rank)`` are the leading
    eigenvectors of the outer products, and `starts` ``(k, rank)`` the initial centres in their space. `updates` is the
    number of times that centroids were computed.
    """

    bound: float = 1.0
    points: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    directions: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    starts: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    updates: int = 0


class FedDPKMeansValues(Values, total=False):
    """Values of a step: the server's `points`, clusters `hidden` by noise, and the guarantee."""

    points: int
    hidden: int
    epsilon: float
    delta: float
    noise_source: str


@dataclass(frozen=True)
class FedDPKMeansMethod(CentroidMethod):
    """Differentially private k-means by noisy sums, initialised with the server's own samples.

    All that leaves a client is (epsilon, delta)-differentially private with regard to adding or removing any one of its
    samples. The scaling of samples is not covered: give data in [0, 1] or standardised by public numbers.

    Attributes
    ----------
    epsilon, delta : float
        Guarantee for all that leaves a client in a run. Simulated noise follows from the run's seed, and hides nothing
        from who knows it.
    server_data : str or None
        Samples of the server: a name or path, see `fedkin.data.sources.load`, prepared as the clients'
        are. At most 1,000 of them are used, drawn at random. They are not protected: clients receive values computed
        from them.
    bound : float or "auto"
        Length that features are clipped to; choose it without looking at the data. "auto" is 1 for "unit" features and
        otherwise the root of their number.
    rounds : int
        Rounds of Lloyd's algorithm, which share a quarter of the squared budget.
    read : callable, optional
        Function from `server_data` to prepared samples; set by the run.
    """

    epsilon: Positive = 4.0
    delta: Annotated[float, Interval(gt=0, lt=1)] = 1e-5
    server_data: str | None = None
    bound: Positive | Literal["auto"] = "auto"
    rounds: Annotated[int, Ge(0)] = 1
    read: Callable[[str], Tensor] | None = None

    traits = CentroidMethod.traits.replace(cost="cheap")
    state_type: ClassVar[type[State]] = FedDPKMeansState
    record_type: ClassVar[type[Any]] = FedDPKMeansValues

    @property
    def stage_mu(self) -> float:
        """Budget of each of the four stages, as mu of Gaussian differential privacy; without rounds there are three."""
        return gaussian_mu(self.epsilon, self.delta) / math.sqrt(4 if self.rounds else 3)

    def with_server_data(self, read: ServerData) -> Self:
        return self if self.server_data is None else replace(self, read=read)

    def is_private(self) -> bool:
        return True

    def init(self, fed: Federation) -> FedDPKMeansState:
        """Choose the features for the clients' samples, and read those of the server."""
        shape = forms.common_shape(fed.keep_majority(fed.ask_until_all_reply(private.send_shape, {})))
        name, width = features_for(self.features, shape).values()
        if width > WIDEST:
            raise FedkinError(f"FedDP-KMeans takes at most {WIDEST:,} features, and samples have {width:,}.")
        bound = self.bound if self.bound != "auto" else 1.0 if name == "unit" else math.sqrt(width)
        points = torch.zeros(0, width)
        if self.server_data is not None:
            if self.read is None:
                raise FedkinError("method.server_data is read by a run; give a method without one `read`, too.")
            x = self.read(self.server_data)
            if x.shape[1:] != shape:
                raise FedkinError(
                    f"A sample of method.server_data has the shape {tuple(x.shape[1:])}, the clients' have {shape}."
                )
            points = extract(name, x[torch.randperm(len(x), generator=fed.rng("server data"))[:_MAX_POINTS]])
        return FedDPKMeansState(features=name, width=width, bound=bound, points=clipped(points / bound).float())

    def step(self, fed: Federation, state: FedDPKMeansState) -> tuple[FedDPKMeansState, Record]:
        """Find the directions, the initial centres, the first centroids, or better ones, in this order."""
        if not len(state.directions):
            return self._find_directions(fed, state)
        return self._find_centroids(fed, state) if len(state.starts) else self._find_starts(fed, state)

    def _find_directions(self, fed: Federation, state: FedDPKMeansState) -> tuple[FedDPKMeansState, Record]:
        """Return the state with the leading eigenvectors of noisy outer products, and points if the server has none."""
        width, size = state.width, state.width * (state.width + 1) // 2
        expected = {"products": forms.reals(size)}
        sent, record, _ = self._ask(fed, state, send_products, {"width": width}, self.stage_mu, 1.0, expected)
        if not sent:
            return self._repeat(fed, state, record)
        total = symmetric(torch.stack([reply["products"] for reply in sent]).double().sum(0), width)
        values, vectors = torch.linalg.eigh(total)
        rank = min(self.n_clusters, width)
        directions = vectors.flip(1)[:, :rank].float().contiguous()
        points = state.points
        if not len(points):  # thirty for each cluster, as long as the bound in the mean
            spread = values.flip(0)[:rank].clamp_min(0).sqrt().float()
            drawn = torch.randn(30 * self.n_clusters, rank, generator=fed.rng("points")) * spread
            length = drawn.square().sum(1).mean().sqrt().clamp_min(1e-12)
            points = clipped(drawn @ directions.T / length).float()
        guarantee = {"epsilon": self.epsilon, "delta": self.delta, "noise_source": noise_source(fed)}
        record.values.update(phase="directions", points=len(points), **guarantee)
        return state.next(directions=directions, points=points), record

    def _find_starts(self, fed: Federation, state: FedDPKMeansState) -> tuple[FedDPKMeansState, Record]:
        """Return the state with k-means centres of the server's samples, weighted by noisy counts of nearest rows."""
        points = state.points @ state.directions
        request = {"directions": state.directions, "points": points}
        expected = {"counts": forms.doubles(len(points))}
        sent, record, noise = self._ask(fed, state, count_by_point, request, self.stage_mu, 1.0, expected)
        if not sent:
            return self._repeat(fed, state, record)
        counts = torch.stack([reply["counts"] for reply in sent]).sum(0)
        clear = counts > noise
        heaviest = counts.argsort(descending=True)[: max(self.n_clusters, int(clear.sum()))]
        weights = counts[heaviest].clamp_min(1.0)
        starts = k_means(points[heaviest], self.n_clusters, fed.rng("starts"), weights=weights, exact=True).centres
        record.values.update(phase="weights", points=len(heaviest), hidden=int((~clear).sum()))
        return state.next(starts=starts), record

    def _find_centroids(self, fed: Federation, state: FedDPKMeansState) -> tuple[FedDPKMeansState, Record]:
        """Return the state with means of the rows nearest to each initial centre, or to each centroid."""
        lloyd = len(state.centroids) > 0
        points = state.centroids / state.bound if lloyd else state.starts
        mu = self.stage_mu / (math.sqrt(self.rounds) if lloyd else 1)
        request = {"points": points, "width": state.width}
        if not lloyd:
            request["directions"] = state.directions
        expected = {"counts": forms.doubles(len(points)), "sums": forms.doubles(len(points), state.width)}
        sent, record, noise = self._ask(fed, state, send_sums, request, mu, SUMS_SENSITIVITY, expected)
        if not sent:
            return self._repeat(fed, state, record)
        counts, sums = (torch.stack([reply[name] for reply in sent]).sum(0) for name in ("counts", "sums"))
        clear = counts > noise
        before = points if lloyd else points @ state.directions.T
        moved = clipped(sums / counts.clamp_min(1.0)[:, None]).float()
        centroids = torch.where(clear[:, None], moved, before) * state.bound
        record.values.update(phase="lloyd" if lloyd else "centres", hidden=int((~clear).sum()))
        scaled = scaled_like_features(state.features, centroids)
        after = state.next(centroids=scaled, updates=state.updates + 1, finished=state.updates >= self.rounds)
        if after.finished:
            self.conclude(fed, after)
        return after, record

    def _ask(
        self, fed: Federation, state: FedDPKMeansState, task: Task, request: Payload, mu: float, sensitivity: float,
        expected: forms.Expected,
    ) -> tuple[list[Payload], Record, float]:  # fmt: skip
        """Return non-empty replies, a record, and two standard deviations of their noise: above, a count is clear."""
        deviation, budget = sensitivity / mu, gaussian_mu(self.epsilon, self.delta)
        shared = {"features": state.features, "bound": state.bound, "deviation": deviation, "budget": budget}
        replies = fed.pools(task, fed.all(**shared, **request), expected)
        pools = list(replies)
        record = Record(sorted(client for clients, _ in pools for client in clients), replies.missing)
        noises = sum(len(clients) for clients, reply in pools if reply)
        return [reply for _, reply in pools if reply], record, 2.0 * deviation * math.sqrt(noises)

    def _repeat(self, fed: Federation, state: FedDPKMeansState, record: Record) -> tuple[FedDPKMeansState, Record]:
        private.check_budgets(record.missing, self.epsilon)
        failure = f"No client answered FedDP-KMeans in step {state.steps + 1} and before ({reasons(record.missing)})."
        return repeat_step(fed, state, record, failure)


# Tasks of FedDP-KMeans's clients: send sums and counts of clipped rows, with Gaussian noise.


_WIDTH = forms.counts_to(WIDEST)
_SHARED: forms.Expected = {
    "features": private.is_row_by_row, "bound": forms.positive, "deviation": forms.positive, "budget": forms.positive,
}  # fmt: skip
_COUNTS = forms.doubles("points", minimum=-forms.MAX_SAMPLE, maximum=forms.MAX_SAMPLE)


@block_task(
    takes={**_SHARED, "width": _WIDTH},
    holds={"products": forms.reals(None)},
    may_be_empty=True,
    accounted=True,
    pools=True,
    sends="How much values differ, and which columns rise and fall together, with noise",
    fewest="noise",
)
def send_products(block: Block, payload: Payload) -> Payload:
    """Send the noisy sum of outer products of a client's rows, as a lower triangle."""
    width = payload["width"]
    rows, columns = torch.tril_indices(width, width)
    products = sum_products(_batches(block, payload, width), width)[:, rows, columns] * private.scale_of(width)
    (noisy,) = released_of_block(block, [products], 1.0, payload)
    return {"products": private.without_scale(noisy, width).double().sum(0).float()}


@block_task(
    takes={**_SHARED, "directions": private.UnitDirections(("width", "rank")), "points": forms.reals("points", "rank")},
    holds={"counts": _COUNTS},
    may_be_empty=True,
    accounted=True,
    pools=True,
    sends="How many rows are nearest to each of some points, with noise",
    fewest="noise",
)
def count_by_point(block: Block, payload: Payload) -> Payload:
    """Send noisy counts of a client's rows nearest to each point in the space of the directions."""
    counts = torch.zeros(len(block), len(payload["points"]), dtype=torch.int64)
    for rows in _batches(block, payload, len(payload["directions"])):
        near = _nearest(rows, payload)
        counts.scatter_add_(1, near, torch.ones_like(near))
    (noisy,) = released_of_block(block, [counts], 1.0, payload)
    return {"counts": noisy.sum(0)}


@block_task(
    takes={
        **_SHARED, "directions": forms.Optional(private.UnitDirections(("width", "rank"))), "width": _WIDTH,
        "points": forms.reals("points", None),
    },
    holds={"counts": _COUNTS, "sums": forms.doubles("points", None)},
    may_be_empty=True, accounted=True, pools=True,
    sends="Groups of rows: their middle and size, with noise", fewest="noise",
)  # fmt: skip
def send_sums(block: Block, payload: Payload) -> Payload:
    """Send noisy sums and counts of a client's rows by nearest point, in the space of any ``directions``."""
    width, count = payload["width"], len(payload["points"])
    counts = torch.zeros(len(block), count, dtype=torch.int64)
    sums = torch.zeros(len(block), count, width, dtype=torch.float64)
    for rows in _batches(block, payload, width):
        near = _nearest(rows, payload)
        counts.scatter_add_(1, near, torch.ones_like(near))
        members = torch.zeros(len(block), count, rows.shape[1], dtype=torch.float64)
        sums += members.scatter_(1, near[:, None], 1.0) @ rows
    counts, sums = released_of_block(block, [counts, sums], SUMS_SENSITIVITY, payload)
    return {"counts": counts.sum(0), "sums": sums.sum(0)}


def _batches(block: Block, payload: Payload, width: int) -> Iterator[Tensor]:
    """Yield the clients' rows, some at a time, in units of the bound: `clipped`, float64 ``(clients, b, width)``."""
    rows = features_of(block, payload["features"])
    if rows.shape[2] != width:
        raise FedkinError(f"Samples have {rows.shape[2]} features here, not {width}.", public=True)
    for batch in rows.split(2048, dim=1):
        yield clipped(batch.flatten(0, 1).double() / payload["bound"]).view(batch.shape)


def _nearest(rows: Tensor, payload: Payload) -> Tensor:
    """Return the nearest point of rows ``(clients, b, width)``, int64 ``(clients, b)``."""
    flat, points = rows.flatten(0, 1), payload["points"]
    placed = place(flat, payload["directions"]) if "directions" in payload else flat
    if placed.shape[1] != points.shape[1]:
        raise FedkinError(f"Points have {points.shape[1]} numbers, where rows have {placed.shape[1]}.", public=True)
    return nearest_points(placed, points).view(rows.shape[:2])
