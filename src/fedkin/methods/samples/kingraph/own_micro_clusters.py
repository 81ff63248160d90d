"""Micro-clusters found by each client itself: one round for their means and sizes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from fedkin.clustering.micro_clusters import merged_nodes, summarise
from fedkin.clustering.whitening import fewest_samples, local_scatter, local_scatter_of_sets
from fedkin.core import Client, Federation, FedkinError, Payload, Record, block_task, client_task
from fedkin.core.client_array import Block
from fedkin.core.payload import MANY, Expected, counts_to, doubles, int64, is_count, reals, within
from fedkin.features.pca import FeatureMoments, moments
from fedkin.methods.samples.kingraph.kingraph_space import (
    ENOUGH,
    MAX_BROADCAST,
    MAX_NODES,
    SPACE,
    KinGraphState,
    client_features,
    client_points,
    leading_components,
)

_DIFFERENCES_ATTEMPTS = 6
_FEWEST = 6
"""Micro-clusters that a client may send at least: fewer mix clusters. Of clients too many for that, some are asked."""
KEPT_OF_FORGOTTEN = (
    "the axes of its space, which are found from sums over all clients' samples, and with them the others' "
    "micro-clusters"
)


@block_task(
    takes={"space": SPACE, "least": counts_to(MANY, 0)},
    holds={"count": within(1), "total": doubles("width"), "scatter": reals(None)},
    may_be_empty=True,
    sends="How much values differ, and which columns rise and fall together",
    fewest="least",
    pools=True,
)
def send_moments(block: Block, payload: Payload) -> Payload:
    """Send count, sum and outer products of a client's features; nothing for too few samples."""
    enough = block.size >= max(payload["least"], block.min_members)
    return moments(client_features(block.rows, payload["space"])).payload() if enough else {}


@block_task(
    takes={"space": SPACE, "least": counts_to(MANY, 0)},
    holds={"scatter": doubles("width", "width"), "samples": is_count},
    may_be_empty=True,
    sends="How much rows that are alike differ, column by column",
    fewest="least",
    pools=True,
)
def send_differences(block: Block, payload: Payload) -> Payload:
    """Send the scatter between neighbouring samples, and the number of samples; nothing for too few."""
    width = payload["space"]["directions"].shape[1]
    if block.size < max(payload["least"], block.min_members, fewest_samples(width)):
        return {}
    points = client_points(block.rows, payload["space"])
    if block.client is None:
        return {"scatter": local_scatter_of_sets(block.by_client(points), block.rngs()), "samples": len(points)}
    return {"scatter": local_scatter(points, block.client.rng), "samples": len(points)}


@client_task(
    takes={"space": SPACE, "least": counts_to(MANY), "most": counts_to(MANY)},
    holds={"centroids": reals("nodes", None), "counts": int64("nodes")},
    may_be_empty=True,
    sends="Small groups of rows that are alike: their middle and size",
    fewest="least",
)
def send_summary(client: Client, payload: Payload) -> Payload:
    """Send centroids and counts of a client's micro-clusters, nothing for too few samples; labels stay."""
    least = max(payload["least"], client.min_members)
    if len(client) < least:
        return {}
    points = client_points(client.x, payload["space"])
    count = min(payload["most"], len(points) // least)
    found = summarise(points, count, least, client.rng)
    client.state["micro_clusters"] = found.labels
    return {"centroids": found.centroids, "counts": found.counts}


def own_step(
    fed: Federation, state: KinGraphState, min_members: int, components: int, micro_clusters: int
) -> tuple[KinGraphState | None, Record]:
    """Return the state with the step's findings, and its record; ``None`` for the state to repeat the step."""
    if not len(state.mean):
        return _components(fed, state, min_members, components)
    if not state.whitened:
        return _differences(fed, state, min_members)
    return _nodes(fed, state, min_members, micro_clusters)


def _components(
    fed: Federation, state: KinGraphState, min_members: int, components: int
) -> tuple[KinGraphState | None, Record]:
    found: FeatureMoments | None = None
    answered = []
    expected = {"total": doubles(state.width), "scatter": reals(state.width * (state.width + 1) // 2)}
    replies = fed.pools(send_moments, fed.all(space=state.space, least=min_members), expected)
    for clients, reply in replies:
        answered += clients
        if reply:
            more = FeatureMoments.received(reply)
            found = more if found is None else found + more
    record = Record(sorted(answered), replies.missing, {"phase": "components", "features": state.features})
    if found is None:
        if record.missing or not answered:
            return None, record
        raise FedkinError(
            f"No client that answered has {min_members} samples, which is method.min_members; set it lower."
        )
    leading, explained = leading_components(found, state, components)
    record.values.update(components=len(leading.variances), explained=explained)
    return state.at(leading), record


def _differences(fed: Federation, state: KinGraphState, min_members: int) -> tuple[KinGraphState | None, Record]:
    width = len(state.variances)
    scatter, samples, answered = torch.zeros(width, width, dtype=torch.float64), 0, []
    payloads, expected = fed.all(space=state.space, least=min_members), {"scatter": doubles(width, width)}
    replies = fed.pools(send_differences, payloads, expected)
    for clients, reply in replies:
        answered += clients
        if reply:
            scatter += reply["scatter"] * reply["samples"]
            samples += reply["samples"]
    record = Record(sorted(answered), replies.missing, {"phase": "differences"})
    # Those that did not answer may have enough samples.
    if not answered or (not samples and record.missing and state.steps < _DIFFERENCES_ATTEMPTS):
        return None, record
    return state.without_differences(scatter / max(samples, 1), samples), record


def _nodes(
    fed: Federation, state: KinGraphState, min_members: int, micro_clusters: int
) -> tuple[KinGraphState | None, Record]:
    """Ask for micro-clusters."""
    expected: Expected = {"centroids": ("nodes", state.directions.shape[1]), "counts": int64("nodes")}
    most = max(_FEWEST, min(micro_clusters, ENOUGH // len(fed.ids)))
    payloads = fed.all(space=state.space, least=min_members, most=min(most, micro_clusters))
    nodes_at_most = MAX_NODES
    if len(payloads) > ENOUGH // _FEWEST:
        # Of so many clients some stand for all; the others are assigned by the nodes.
        nodes_at_most = MAX_BROADCAST
        drawn = torch.randperm(len(fed.present), generator=fed.rng("summarising"))[: ENOUGH // _FEWEST]
        payloads = {i: payloads[i] for i in sorted(fed.present[place] for place in drawn.tolist())}
    replies = fed.ask(send_summary, payloads, expected)
    record = Record(list(replies), replies.missing, {"phase": "graph"})
    sent = {client: reply for client, reply in replies.items() if reply}
    if not sent:
        return None, record
    counts = torch.cat([reply["counts"] for reply in sent.values()])
    pooled = torch.cat([reply["centroids"] for reply in sent.values()])
    nodes = merged_nodes(pooled, counts, nodes_at_most, fed.rng("condensed"))
    sizes = torch.tensor([len(reply["counts"]) for reply in sent.values()], dtype=torch.int64)
    owners = torch.tensor(list(sent), dtype=torch.int64).repeat_interleave(sizes)
    own = torch.stack([owners, nodes.labels, counts], dim=1)
    own = own[own[:, 0].argsort(stable=True)]
    return replace(state, centroids=nodes.centroids, counts=nodes.counts, own=own), record


def without_clients(state: KinGraphState, clients: Collection[int]) -> KinGraphState | None:
    """Return the state without the nodes of `clients`, in the same space.

    ``None`` if micro-clusters are common to all clients, or nodes combine those of several.

    Raises
    ------
    FedkinError
        If no node would be left.
    """
    if not len(state.own) or len(state.own) != len(state.centroids):
        return None
    owners, nodes, counts = state.own[~torch.isin(state.own[:, 0], torch.tensor(sorted(clients)))].unbind(1)
    if not len(owners):
        raise FedkinError("Nothing would be left to cluster.")
    own = torch.stack([owners, torch.arange(len(owners)), counts], dim=1)
    return replace(state, centroids=state.centroids[nodes], counts=counts, own=own)
