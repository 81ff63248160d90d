"""MUFC: one-shot federated clustering with unlearning (Pan, Sima, Prakash, Rana, Milenkovic 2023).

A client draws centroids among its own samples as k-means++ draws seeds, rounds them to a grid, and sends them with the
sizes of their clusters; the server clusters them by weighted k-means. A client that is to forget samples draws anew
only from the first centroid that is one of them: the outcome has the distribution of a run without these samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.clustering.k_means import k_means, pairwise_distances
from fedkin.core import Client, Federation, FedkinError, Payload, Record, State, Task, block_task, client_task
from fedkin.core.client_array import Block, PerClient, single
from fedkin.core.method import Count
from fedkin.core.payload import MANY, Expected, counts_to, int64, is_count, is_name, reals, within
from fedkin.methods.samples.centroid_method import (
    CENTROIDS,
    CentroidMethod,
    KeepsPoints,
    PointsState,
    assign_to_centroids,
    features_of,
    points_of,
    scaled_like_features,
    with_replies,
)
from fedkin.methods.samples.sample_method import FINAL_ATTEMPTS

FORGOTTEN = -1
"""Cluster of a sample that has been forgotten."""
_ROWS, _PRESENT = "centroid_rows", "present"
"""In a client's state: rows of its centroids, int64 ``(m,)``, and samples not forgotten, uint8 ``(n,)``."""
_HOW: Expected = {"features": is_name, "local_clusters": counts_to(MANY), "grid": within(0)}
_POINTS: Expected = {"centres": reals("points", None), "sizes": int64("points"), "kept": is_count}


@block_task(takes=_HOW, holds=_POINTS, sends="Groups of rows: their size, and one of their rows, rounded")
def draw_centroids(block: Block, payload: Payload) -> Payload:
    """Send rounded ``centres`` ``(m, width)`` and their clusters' ``sizes``; the client keeps the centres' rows."""
    return _drawn(block, payload, torch.ones(len(block), block.size, dtype=torch.uint8), [])


@client_task(
    takes={**_HOW, "rows": int64(None)},
    holds=_POINTS,
    sends="Groups of rows: their size, and one of their rows, rounded",
)
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
    drawn = client.state[_ROWS].tolist()
    removed = [place for place, row in enumerate(drawn) if not present[row]]
    kept = drawn[: removed[0]] if removed else drawn
    return single(_drawn(Block.of(client), payload, present[None], kept), 0)


# Clients of one array forget nothing.
@client_task(takes={"result": CENTROIDS}, block=assign_to_centroids.block)
def assign_remaining(client: Client, payload: Payload) -> Payload:
    """Assign every remaining sample to its nearest centroid; clusters stay at the client."""
    assign_to_centroids.run([client], [payload])
    if _PRESENT in client.state:
        forgotten = client.state[_PRESENT] == 0
        client.state["clusters"][forgotten], client.state["confidence"][forgotten] = FORGOTTEN, 0.0
    return {}


@dataclass(frozen=True)
class MUFCState(PointsState):
    """State of MUFC: the clients' rounded centroids and their sizes, and the number of requests to forget so far."""

    requests: int = 0


@dataclass(frozen=True)
class MUFCMethod(KeepsPoints, CentroidMethod):
    """One-shot k-means of the clients' rounded k-means++ seeds, which supports unlearning.

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
    traits = CentroidMethod.traits.replace(cost="cheap")
    assign_task: ClassVar[Task] = assign_remaining

    def payload(self, state: MUFCState) -> Payload:
        """Return the features, the number of centroids, and the grid, which clients need."""
        return {"features": state.features, "local_clusters": self.local_clusters or self.n_clusters, "grid": self.grid}

    def step(self, fed: Federation, state: MUFCState) -> tuple[MUFCState, Record]:
        """Ask clients for rounded centroids, cluster these by weighted k-means, and send all clients the result."""

        def cluster(state: PointsState) -> dict[str, Any]:
            return {"centroids": self._centroids(fed, state.features, state.points, state.sizes)}

        return self.round_of_points(fed, state, draw_centroids, self.payload(state), cluster)

    def unlearned(
        self, fed: Federation, state: MUFCState, rows: Mapping[int, Tensor]
    ) -> tuple[MUFCState, dict[str, Any]]:
        """Forget samples, cluster the rest, and send all clients the new clusters.

        The result has the distribution of a run without these samples, given how samples were prepared: scaling is not
        computed anew. Raises FedkinError if a client took no part, does not reply, or has no such row; or if nothing
        would be left.

        `state` is that of a finished run. `rows` are by client, one or more, those of its samples to forget, int64
        ``(m,)``. Return the state and a certificate: ``clients``, by client as text, the number of ``rows`` forgotten,
        and of centroids ``kept`` and ``drawn`` anew; ``request``, counted from 1; ``samples``, the number left at all
        clients.
        """
        for client in rows.keys() - set(state.owners.tolist()):
            raise FedkinError(f"{fed.client_label(client)} has no part in the clusters, so there is nothing to forget.")
        payloads = {client: {**self.payload(state), "rows": part} for client, part in rows.items()}
        replies = fed.ask_again(forget, payloads, FINAL_ATTEMPTS, {"centres": reals("points", state.width)})
        for client, reason in replies.missing.items():
            raise FedkinError(f"{fed.client_label(client)} has not forgotten its rows ({reason}); nothing is changed.")
        left = ~torch.isin(state.owners, torch.tensor(list(rows), dtype=torch.int64))
        sent = with_replies({name: part[left] for name, part in points_of(state).items()}, replies)
        certificates: dict[str, Any] = {}
        for client, reply in replies.items():
            kept = min(reply["kept"], int((state.owners == client).sum()))
            drawn = max(0, len(reply["centres"]) - kept)
            certificates[str(client)] = {"rows": len(rows[client]), "kept": kept, "drawn": drawn}
        if not len(sent["points"]):
            raise FedkinError("Nothing would be left to cluster.")
        centroids = self._centroids(fed, state.features, sent["points"], sent["sizes"])
        requests = state.requests + 1
        after: MUFCState = replace(cast(Any, state), **sent, centroids=centroids, requests=requests)
        self.conclude(fed, after)
        certificate = {"request": after.requests, "clients": certificates, "samples": int(after.sizes.sum())}
        return after, certificate

    def _centroids(self, fed: Federation, features: str, points: Tensor, sizes: Tensor) -> Tensor:
        weights = sizes.double().clamp_min(1e-9)  # a centroid without samples
        rng = fed.rng("centroids")  # independent of forgotten samples
        found = k_means(points, self.n_clusters, rng, weights=weights, exact=True)
        return scaled_like_features(features, found.centres)


def _drawn(block: Block, payload: Payload, present: Tensor, kept: Sequence[int]) -> Payload:
    """Return replies with centroids that begin with the rows `kept`; others are drawn of those `present`, uint8."""
    points, grid = features_of(block, payload["features"]), payload["grid"]
    rows = drawn_rows(points, present.bool(), payload["local_clusters"], block.rngs(), kept)
    drawn = rows >= 0
    if block.client is not None:  # those of one array forget nothing
        block.client.state |= {_PRESENT: present[0], _ROWS: rows[drawn]}
    centres = points.gather(1, rows.clamp_min(0)[..., None].expand(-1, -1, points.shape[2]))
    distances = pairwise_distances(points, centres) + torch.where(drawn, 0.0, torch.inf)[:, None]
    sizes = torch.zeros(rows.shape, dtype=torch.int64).scatter_add_(1, distances.argmin(2), present.long())
    rounded = (centres / grid).round() * grid if grid > 0 else centres
    parts = {"centres": PerClient.where(rounded, drawn), "sizes": PerClient.where(sizes, drawn)}
    return {**parts, "kept": len(kept)}


def drawn_rows(
    points: Tensor, present: Tensor, count: int, rngs: Sequence[torch.Generator], kept: Sequence[int] = ()
) -> Tensor:
    """Draw rows as k-means++ seeds: each with probability proportional to its squared distance from those before.

    `points` are ``(clients, n, width)``, and only rows that are `present`, bool ``(clients, n)``, may be drawn, with a
    generator for each client. Return the rows, int64 ``(clients, count)``, of which those at the end are -1 if there
    are not so many distinct points; the first are those `kept`, which were drawn before.
    """
    clients = torch.arange(len(points))
    rows = torch.full((len(points), max(count, len(kept))), -1)
    exact, chances = points.double(), present.double()
    for place in range(rows.shape[1]):
        if place < len(kept):
            row, may = torch.tensor([kept[place]]), torch.ones(1, dtype=torch.bool)
        else:
            may = chances.sum(1) > 0
            draws = torch.ones_like(chances)
            for draw, rng, goes_on in zip(draws, rngs, may.tolist(), strict=True):
                if goes_on:
                    draw.exponential_(generator=rng)
            row = (chances / draws).argmax(1)  # as `torch.multinomial` draws one
        rows[:, place] = torch.where(may, row, -1)
        squares = (exact - exact[clients, row][:, None]).square().sum(2)
        chances = (torch.minimum(chances, squares) if place else squares) * present
    return rows
