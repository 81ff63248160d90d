"""Micro-clusters common to all clients, found from sums over clients.

At clients with few samples of a cluster, own micro-clusters mix several clusters, since each needs a minimum number of
samples at that client. Here the minimum holds over all clients together: centres are common, every client
assigns its samples to the nearest, and the server adds up counts, sums and scatter. A centre with enough samples for
two splits along its leading directions; a few rounds of Lloyd's algorithm follow. Sums do not depend on the partition
of samples over clients, so that the micro-clusters are the same for one client as for many. Features are added up in
fixed point, so that a sum is the same in any order of clients.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.k_means import nearest_centroids
from fedkin.clustering.micro_clusters import (
    CellMoments,
    cell_deviations,
    cell_scatter,
    merged_nodes,
    scatter_pairs,
    split_cells,
)
from fedkin.clustering.whitening import fewest_samples, local_scatter, local_scatter_of_sets
from fedkin.core import Federation, FedkinError, Payload, Record, block_task
from fedkin.core.client_array import Block
from fedkin.core.payload import doubles, int64, is_count, positive, reals
from fedkin.core.seeds import draw_seed
from fedkin.features.pca import FeatureMoments, lower_triangle, symmetric
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
from fedkin.secure_aggregation.client_tasks import MIN_CLIENTS, UNITS, of_digits, to_digits
from fedkin.secure_aggregation.sums import ClientSums, direct_failures

_BATCH = 2048
_UNITS = UNITS[3:]  # squares and sums of prepared numbers are below 2^60
_LLOYD_ROUNDS = 2
"""Rounds after the last split; each round of splitting moves the centres as well."""
_MAX_LEVELS, _GAIN, _POOR_LEVELS = 12, 1.02, 2
"""Maximum number of levels of splitting; minimum growth of the number of centres at a level; and the number of levels
in a row with less growth after which splitting ends. The last levels repeatedly split centres whose halves have too few
samples: 1,797 digits have 247 centres after seven levels, 258 after twelve. A single level can bring nothing because
centres wait for their scatter: 360 digits would stop at 41 centres of 54."""
_MANY_CLIENTS = 1_000
"""Clients above which nodes are few enough to be sent to all: the nearest of 20,000 would be most of their work."""
_MAX_CENTRES = 3_000
"""Maximum number of common micro-clusters."""


@block_task(
    takes={"space": SPACE},
    holds={"count": int64(1), "total": doubles(len(_UNITS), "width"), "squares": doubles(len(_UNITS), 1)},
    sends="How many rows, and the mean and spread of each column",
    pools=True,
)
def send_feature_sums(block: Block, payload: Payload) -> Payload:
    """Send count, sum and sum of squares of a client's features, the last two as fixed-point digits."""
    features = _features(block, payload)
    squares = sum(batch.double().square().sum() for batch in features.split(_BATCH))
    return {
        "count": torch.tensor([len(features)]),
        "total": to_digits(features.sum(0, dtype=torch.float64), _UNITS),
        "squares": to_digits(torch.as_tensor(squares, dtype=torch.float64)[None], _UNITS),
    }


@block_task(
    takes={"space": SPACE, "scale": positive},
    holds={"scatter": doubles(None)},
    sends="How much values differ, and which columns rise and fall together",
    pools=True,
)
def send_feature_scatter(block: Block, payload: Payload) -> Payload:
    """Send the lower triangle of a client's scaled outer products of features about the common mean."""
    mean, scale = payload["space"]["mean"], payload["scale"]
    scatter = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for batch in _features(block, payload).split(_BATCH):
        centred = (batch - mean) / scale
        scatter += centred.T @ centred
    return {"scatter": lower_triangle(scatter)}


@block_task(
    takes={"space": SPACE, "seed": is_count},
    holds={"samples": int64(1), "scatter": doubles("components", "components")},
    sends="How much rows that are alike differ, column by column",
    pools=True,
)
def send_neighbour_scatter(block: Block, payload: Payload) -> Payload:
    """Send the scatter between neighbours times the number of samples, and that number; zeros for too few.

    Samples are drawn by the payload's seed: the client's generator depends on how many exchanges a sum takes.
    """
    width = payload["space"]["directions"].shape[1]
    if block.size < max(block.min_members, fewest_samples(width)):
        zeros = torch.zeros(width, width, dtype=torch.float64)
        return {"samples": torch.zeros(1, dtype=torch.int64), "scatter": zeros}
    points, rng = client_points(block.rows, payload["space"]), torch.Generator()
    if block.client is None:
        rngs = (rng.manual_seed(payload["seed"]) for _ in block.seeds)
        scatter = local_scatter_of_sets(block.by_client(points), rngs)
    else:
        scatter = local_scatter(points, rng.manual_seed(payload["seed"]))
    return {"samples": torch.tensor([len(points)]), "scatter": len(points) * scatter}


@block_task(
    takes={"space": SPACE, "centres": reals("centres", "components")},
    holds={"counts": int64("centres")},
    sends="How many rows are in each of some small groups",
    pools=True,
)
def send_counts(block: Block, payload: Payload) -> Payload:
    """Send the number of a client's samples nearest to each centre."""
    return {"counts": _assigned(block, payload)[1].bincount(minlength=len(payload["centres"]))}


@block_task(
    takes={"space": SPACE, "centres": reals("centres", "components"), "full": int64("full")},
    holds={"counts": int64("centres"), "sums": doubles("centres", "components"), "scatter": doubles("full", None)},
    sends="Small groups of rows that are alike: their middle, size and spread",
    pools=True,
)
def send_cell_moments(block: Block, payload: Payload) -> Payload:
    """Send by nearest centre the number of samples and the sum of their offsets, and the scatter about full centres."""
    centres, full = payload["centres"], payload["full"]
    if len(full) and not 0 <= int(full.min()) <= int(full.max()) < len(centres):
        raise FedkinError(f"The payload names a centre that is not among 0 to {len(centres) - 1}.", public=True)
    points, labels = _assigned(block, payload)
    offsets = (points - centres[labels]).double()
    place = torch.full((len(centres),), -1)
    place[full] = torch.arange(len(full))
    inside = place[labels] >= 0
    return {
        "counts": labels.bincount(minlength=len(centres)),
        "sums": torch.zeros(centres.shape, dtype=torch.float64).index_add_(0, labels, offsets),
        "scatter": cell_scatter(offsets[inside], place[labels[inside]], len(full)),
    }


def common_step(
    fed: Federation, state: KinGraphState, min_members: int, components: int, may_change: bool
) -> tuple[KinGraphState | None, Record]:
    """Return the state with the step's findings, and its record; ``None`` for the state to repeat the step.

    If too few clients reply to hide a sum, and the method `may_change`, clients' own micro-clusters follow.
    """
    sums: ClientSums = fed.sums()
    if not len(state.mean):
        phase, (after, values) = "components", _components(sums, state, min_members, components)
    elif not state.whitened:
        phase, (after, values) = "differences", _differences(sums, state)
    else:
        phase, (after, values) = "graph", _nodes(sums, state, min_members)
    record = Record(sums.answered, dict(sums.missing), {"phase": phase, **values, **sums.facts()})
    if after is None and sums.hidden and may_change and not fed.secure_sums:
        record.values["warning"] = (
            f"Fewer than {MIN_CLIENTS} clients answered, too few to hide a sum; each client's own micro-clusters "
            "are used instead of common ones."
        )
        lost = direct_failures(sums.missing)
        present = [client for client in fed.present if client not in lost]
        return replace(state, common=False), Record(present, lost, record.values)
    return after, record


Step = tuple[KinGraphState | None, dict[str, Any]]


def _components(sums: ClientSums, state: KinGraphState, min_members: int, count: int) -> Step:
    """Find the principal components from the moments of all clients' features, which take two sums."""
    width, shapes = state.width, {"count": (1,), "total": (len(_UNITS), state.width), "squares": (len(_UNITS), 1)}
    first = sums.ask(send_feature_sums, {"space": state.space}, shapes)
    if first is None:
        return None, {}
    samples, total = float(first["count"]), of_digits(first["total"], _UNITS)
    scale = math.sqrt(float(of_digits(first["squares"], _UNITS)) / max(samples, 1.0)) or 1.0
    centred = state.space | {"mean": (total / max(samples, 1.0)).float(), "directions": torch.zeros(width, 0)}
    payload, pairs = {"space": centred, "scale": scale}, width * (width + 1) // 2
    second = sums.ask(send_feature_scatter, payload, {"scatter": (pairs,)})
    if second is None:
        return None, {}
    if samples < min_members:
        raise FedkinError(f"All clients have {samples:g} samples together, and method.min_members is {min_members}.")
    moments = FeatureMoments(samples, total, symmetric(second["scatter"] * scale**2, width))
    leading, explained = leading_components(moments, state, count)
    leading = leading.unit()
    values = {"features": state.features, "components": len(leading.variances), "explained": explained}
    return state.at(leading), values


def _differences(sums: ClientSums, state: KinGraphState) -> Step:
    """Divide the components by the scatter between neighbours."""
    width = state.directions.shape[1]
    payload = {"space": state.space, "seed": draw_seed(sums.fed.rng("neighbours"))}
    found = sums.ask(send_neighbour_scatter, payload, {"samples": (1,), "scatter": (width, width)})
    if found is None:
        return None, {}
    samples = round(float(found["samples"]))
    return state.without_differences(found["scatter"] / max(samples, 1), samples), {}


def _nodes(sums: ClientSums, state: KinGraphState, min_members: int) -> Step:
    """Find micro-clusters in groups of clients."""
    found, most = list[tuple[Tensor, Tensor]](), MAX_BROADCAST if len(sums.answered) > _MANY_CLIENTS else MAX_NODES
    for group in sums.by_group():
        part = common_micro_clusters(group, state.space, min_members, _MAX_CENTRES)
        if part is None:
            continue
        found += [part] if len(part[1]) else []
        if sum(len(counts) for _, counts in found) >= ENOUGH:  # the other groups' samples are assigned by the nodes
            break
    if not found:
        return None, {}
    pooled, counts = (torch.cat(part) for part in zip(*found, strict=True))
    nodes = merged_nodes(pooled, counts, most, sums.fed.rng("condensed"))
    after = replace(state, centroids=nodes.centroids, counts=nodes.counts)
    return after, {"micro_clusters": len(counts)}


def common_micro_clusters(sums: ClientSums, space: Payload, minimum: int, maximum: int) -> tuple[Tensor, Tensor] | None:
    """Find micro-clusters of the samples of all clients together.

    Every level takes two sums. The first has counts only, and centres with too few samples are dropped; their samples
    go to other centres, whose counts only grow. The second has the sums of the remaining centres, and the scatter of
    those with enough samples for two; centres that reach this only now wait for the next level. A level splits a centre
    into two, or into four if there are enough samples.

    Parameters
    ----------
    sums : ClientSums
    space : dict
        Parameters of `points_of`.
    minimum : int
        Minimum number of samples of all clients in a micro-cluster, at least 1.
    maximum : int
        Maximum number of micro-clusters, at least 1.

    Returns
    -------
    centroids, counts : Tensor
        float32 ``(m, d)`` and int64 ``(m,)``; ``None`` if a sum failed. If clients drop out between the last two sums,
        micro-clusters left with too few samples are dropped, so that m may be 0.
    """
    origin = torch.zeros(1, space["directions"].shape[1])
    found = _moments(sums, space, origin, torch.zeros(1, dtype=torch.int64))
    poor = 0
    for _ in range(_MAX_LEVELS):
        if found is None:
            return None
        if int(found.counts.sum()) < minimum:
            return found.means[:0], found.counts[:0]
        centres = split_cells(found, minimum, maximum)
        if len(centres) == len(found.means) and not (found.waiting(minimum).any() and len(centres) < maximum):
            break
        before = len(found.means)
        found = _cells(sums, space, centres, minimum, with_scatter=True)
        poor = poor + 1 if found is not None and len(found.means) < _GAIN * before else 0
        if poor == _POOR_LEVELS:
            break
    for _ in range(_LLOYD_ROUNDS):
        found = None if found is None else _cells(sums, space, found.means, minimum, with_scatter=False)
    if found is None:
        return None
    full = found.counts >= minimum
    return found.means[full], found.counts[full]


def _cells(sums: ClientSums, space: Payload, centres: Tensor, minimum: int, with_scatter: bool) -> CellMoments | None:
    """Return moments of the cells of those centres that have `minimum` samples; of the fullest one if none has."""
    found = sums.ask(send_counts, {"space": space, "centres": centres}, {"counts": (len(centres),)})
    if found is None:
        return None
    counts = found["counts"].round()
    enough = (counts >= minimum).nonzero()[:, 0] if (counts >= minimum).any() else counts.argmax()[None]
    full = (counts[enough] >= 2 * minimum).nonzero()[:, 0]
    return _moments(sums, space, centres[enough], full if with_scatter else full[:0])


def _moments(sums: ClientSums, space: Payload, centres: Tensor, full: Tensor) -> CellMoments | None:
    """Return moments of the samples nearest to each centre ``(k, d)``, with the scatter about the `full` ones."""
    k, d = centres.shape
    pairs = scatter_pairs(len(full), d)
    shapes: dict[str, tuple[int, ...]] = {"counts": (k,), "sums": (k, d)}
    if len(full):
        shapes["scatter"] = len(full), len(pairs[0])
    found = sums.ask(send_cell_moments, {"space": space, "centres": centres, "full": full}, shapes)
    if found is None:
        return None
    counts = found["counts"].round().long()
    shift = found["sums"] / counts.clamp_min(1)[:, None]
    deviations, known = torch.zeros(k, 2, d), torch.zeros(k, dtype=torch.bool)
    if len(full):
        some = counts[full] > 0
        full, scatter = full[some], found["scatter"][some]
        known[full] = True
        deviations[full] = cell_deviations(scatter / counts[full, None], shift[full], pairs)
    filled = counts > 0
    means = (centres.double() + shift).float()
    return CellMoments(counts[filled], means[filled], deviations[filled], known[filled])


def _features(block: Block, payload: Payload) -> Tensor:
    """Return a client's features; none of a client with fewer samples than its own minimum."""
    features = client_features(block.rows, payload["space"])
    return features if block.size >= block.min_members else features[:0]


def _assigned(block: Block, payload: Payload) -> tuple[Tensor, Tensor]:
    """Return a client's points and the centre that each is nearest to.

    Points of a centre that has fewer of them than the client's own minimum are left out, as its part may be seen alone.
    """
    points = client_points(block.rows, payload["space"])
    labels = nearest_centroids(points, payload["centres"])
    if block.min_members > 1:
        cells = torch.arange(len(points)) // block.size * len(payload["centres"]) + labels  # by client
        kept = cells.bincount()[cells] >= block.min_members
        points, labels = points[kept], labels[kept]
    return points, labels
