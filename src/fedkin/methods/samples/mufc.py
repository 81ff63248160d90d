"""MUFC: one-shot federated clustering with unlearning (Pan, Sima, Prakash, Rana, Milenkovic 2023).

A client draws centroids among its own samples as k-means++ draws seeds, rounds them to a grid, and sends them with the
sizes of their clusters; the server clusters them by weighted k-means. A client that is to forget samples draws anew
only from the first centroid that is one of them: the outcome has the distribution of a run without these samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.nearest import pairwise_distances
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, Task, client_task
from fedkin.core.federation import Replies
from fedkin.core.method import Count
from fedkin.core.replies import Expected, counts_to, int64, is_count, is_name, reals, within
from fedkin.features.kept_features import cached_features
from fedkin.methods.samples.centroid_method import (
    CENTROIDS,
    CentroidMethod,
    PointsState,
    RoundOutcome,
    assign_to_nearest,
    nothing_remains,
    one_round_of_points,
    scaled_like_features,
    without_points,
)
from fedkin.methods.samples.sample_method import FINAL_ATTEMPTS
from fedkin.nn.network_forms import MANY

FORGOTTEN = -1
"""Cluster of a sample that has been forgotten."""
_ROWS, _PRESENT = "centroid_rows", "present"
"""In a client's state: rows of its centroids, int64 ``(m,)``, and samples not forgotten, uint8 ``(n,)``."""
_HOW: Expected = {"features": is_name, "local_clusters": counts_to(MANY), "grid": within(0)}
_POINTS: Expected = {"centres": reals("points", None), "sizes": int64("points"), "kept": is_count}


@client_task(takes=_HOW, holds=_POINTS)
def draw_centroids(client: Client, payload: Payload) -> Payload:
    """Send rounded ``centres`` ``(m, width)`` and their clusters' ``sizes``; the client keeps the centres' rows."""
    client.state[_PRESENT] = torch.ones(len(client), dtype=torch.uint8)
    return _drawn(client, payload, [], draws=True)


@client_task(takes={**_HOW, "rows": int64(None)}, holds=_POINTS)
def forget(client: Client, payload: Payload) -> Payload:
    """Remove some ``rows`` from the client's samples, and send what `draw_centroids` sends.

    Centroids before the first removed one are ``kept``, the others are drawn anew; none is if no centroid was removed.
    """
    rows = payload["rows"]
    if _PRESENT not in client.state:
        raise FedkinError("This client has drawn no centroids, so it has nothing to forget.", public=True)
    if len(rows) and int(rows.max()) >= len(client):
        raise FedkinError(f"Row {int(rows.max())} is not among the {len(client)} rows of this client.")
    present = client.state[_PRESENT].clone()
    present[rows] = 0
    client.state[_PRESENT] = present
    drawn = client.state[_ROWS].tolist()
    removed = [place for place, row in enumerate(drawn) if not present[row]]
    return _drawn(client, payload, drawn[: removed[0]] if removed else drawn, draws=bool(removed))


@client_task(takes={"result": CENTROIDS})
def assign_remaining(client: Client, payload: Payload) -> Payload:
    """Assign every remaining sample to its nearest centroid; clusters stay at the client."""
    assign_to_nearest(client, payload)
    if _PRESENT in client.state:
        forgotten = client.state[_PRESENT] == 0
        client.state["clusters"][forgotten], client.state["confidence"][forgotten] = FORGOTTEN, 0.0
    return {}


@dataclass(frozen=True)
class MUFCState(PointsState):
    """State of MUFC: the clients' rounded centroids and their sizes, and the number of requests to forget so far."""

    requests: int = 0


@dataclass(frozen=True)
class MUFCMethod(CentroidMethod):
    """One-shot k-means of the clients' rounded k-means++ seeds, which supports unlearning.

    Differences from the paper: clients' points are sent openly, where the paper uses secure aggregation so that the
    server does not learn whose they are. The server weights a point by its size, where the paper puts as many points at
    random into its cell of the grid.

    Attributes
    ----------
    local_clusters : int or None
        Centroids of each client; by default `n_clusters`. A client with fewer different samples has fewer.
    grid : float
        Spacing of the grid, in the units of the features; 0 sends centroids, which are samples, without rounding.
    """

    local_clusters: Count | None = None
    grid: Annotated[float, Ge(0)] = 0.05

    state_type: ClassVar[type[State]] = MUFCState
    traits = CentroidMethod.traits.replace(
        sends="some of its samples, rounded to a grid, and how many are nearest to each", cost="cheap"
    )
    assign_task: ClassVar[Task] = assign_remaining
    without = staticmethod(without_points)
    remains = staticmethod(nothing_remains)

    def payload(self, state: MUFCState) -> Payload:
        """Return the features, the number of centroids, and the grid, which clients need."""
        return {"features": state.features, "local_clusters": self.local_clusters or self.n_clusters, "grid": self.grid}

    def step(self, fed: Federation, state: MUFCState) -> tuple[MUFCState, Record]:
        """Ask clients for rounded centroids, cluster these by weighted k-means, and send all clients the result."""

        def cluster(points: Mapping[str, Tensor], sizes: Mapping[str, Tensor]) -> RoundOutcome:
            changes = {"centroids": self._centroids(fed, state.features, points, sizes)}
            return changes, {"local_clusters": [len(part) for part in points.values()]}

        return one_round_of_points(self, fed, state, draw_centroids, self.payload(state), cluster)

    def unlearned(
        self, fed: Federation, state: MUFCState, rows: Mapping[int, Tensor | None]
    ) -> tuple[MUFCState, dict[str, Any]]:
        """Forget samples, or all of a client's; cluster the rest, and send all clients the new clusters.

        The result has the distribution of a run without these samples, given how samples were prepared: scaling is not
        computed anew. Raises FedkinError if a client took no part, does not reply, or has no such row; or if nothing
        would be left.

        `state` is that of a finished run. `rows` are by client those of its samples to forget, int64 ``(m,)``; ``None``
        for the whole client, which is not asked for anything. Return the state and a certificate: ``clients``, by
        client as text, ``rows`` forgotten (``None``: all), and the numbers of centroids ``kept`` and ``drawn`` anew;
        ``request``, counted from 1; ``samples``, the number left at all clients.
        """
        for client in rows:
            if str(client) not in state.points:
                label = fed.client_label(client)
                raise FedkinError(f"{label} has no part in the clusters, so there is nothing to forget.")
        payload = self.payload(state)
        payloads = {client: {**payload, "rows": part} for client, part in rows.items() if part is not None}
        expected = {"centres": reals("points", state.width)}
        replies = fed.ask_again(forget, payloads, FINAL_ATTEMPTS, expected) if payloads else Replies({}, {})
        for client, reason in replies.missing.items():
            label = fed.client_label(client)
            raise FedkinError(f"{label} has not forgotten its samples ({reason}); nothing is changed.")
        points, sizes = dict(state.points), dict(state.sizes)
        certificates: dict[str, Any] = {}
        for client, part in rows.items():
            name = str(client)
            before = len(points.pop(name))
            sizes.pop(name)
            certificates[name] = {"rows": None, "kept": 0, "drawn": 0}
            if part is not None:
                reply = replies[client]
                count, kept = len(reply["centres"]), min(reply["kept"], before)
                if count:
                    points[name], sizes[name] = reply["centres"], reply["sizes"]
                certificates[name] = {"rows": len(part), "kept": kept, "drawn": max(0, count - kept)}
        if not points:
            raise FedkinError("Nothing would be left to cluster.")
        points, sizes = ({name: parts[name] for name in sorted(parts, key=int)} for parts in (points, sizes))
        centroids, requests = self._centroids(fed, state.features, points, sizes), state.requests + 1
        after = replace(state, points=points, sizes=sizes, centroids=centroids, requests=requests)
        self.conclude(fed, after)
        samples = sum(int(part.sum()) for part in sizes.values())
        return after, {"request": requests, "clients": certificates, "samples": samples}

    def _centroids(
        self, fed: Federation, features: str, points: Mapping[str, Tensor], sizes: Mapping[str, Tensor]
    ) -> Tensor:
        pooled, weights = torch.cat(list(points.values())), torch.cat(list(sizes.values()))
        weights = weights.double().clamp_min(1e-9)  # a centroid without samples
        rng = fed.rng("centroids")  # independent of forgotten samples
        return scaled_like_features(features, k_means(pooled.double(), self.n_clusters, rng, weights=weights).centres)


def _drawn(client: Client, payload: Payload, kept: Sequence[int], draws: bool) -> Payload:
    """Return a reply with centroids that begin with the rows `kept`; further ones are drawn only if `draws`."""
    points = cached_features(payload["features"], client.x)
    present = client.state[_PRESENT].bool()
    rows = drawn_rows(points, present, payload["local_clusters"], client.rng, kept) if draws else list(kept)
    client.state[_ROWS] = torch.tensor(rows, dtype=torch.int64)
    centres, grid = points[rows], payload["grid"]
    nearest = pairwise_distances(points[present], centres).argmin(1) if rows else torch.zeros(0, dtype=torch.int64)
    rounded = (centres / grid).round() * grid if grid > 0 else centres
    return {"centres": rounded, "sizes": nearest.bincount(minlength=len(rows)), "kept": len(kept)}


def drawn_rows(
    points: Tensor, present: Tensor, count: int, rng: torch.Generator, kept: Sequence[int] = ()
) -> list[int]:
    """Draw rows as k-means++ seeds: each with probability proportional to its squared distance from those before.

    Only rows that are `present`, bool ``(n,)``, may be drawn. There are `count` rows in all, fewer if there are not so
    many distinct points; the first are those `kept`, which were drawn before.
    """
    rows: list[int] = []
    exact, chances = points.double(), present.double()

    def add(row: int) -> Tensor:
        """Return the squared distances from the nearest seed after `row` was added to the seeds, as chances."""
        squares = (exact - exact[row]).square().sum(1)
        nearest = torch.minimum(chances, squares) if rows else squares
        rows.append(row)
        return nearest * present

    for row in kept:
        chances = add(row)
    while len(rows) < count and chances.sum() > 0:
        chances = add(int(torch.multinomial(chances, 1, generator=rng)))
    return rows
