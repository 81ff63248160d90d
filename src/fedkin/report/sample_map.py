"""Maps of samples, or of the groups of them that a server has: points in the plane, and what their clusters are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.core import Client
from fedkin.core.method import Nodes
from fedkin.data.population import Population, short_names
from fedkin.report.figures import SampleMap
from fedkin.report.numbers import pluralize, shown

MapLayout = Literal["tsne", "pca", "none"]
MAX_POINTS = 2_000  # of which a page has 100 kB; on a phone more would hide each other
_FITTED = 600  # points that t-SNE lays out: it takes 4 s for them on one core, and 12 s for 2,000
_SPOKEN = 20  # clusters that are described: more are not read

Drawn = tuple[SampleMap, NDArray[Any]]
"""A map, and its points ``(n, d)`` in the space that clusters were found in."""
_LAYOUTS = {
    "tsne": "t-SNE: neighbours lie together, distances between islands mean little.",
    "pca": "The first two principal components of what clusters were found in.",
}


def map_of_samples(
    method: Any,
    result: Mapping[str, Any],
    clients: Sequence[Client],
    population: Population,
    layout: MapLayout,
    total: int | None = None,
) -> Drawn | None:
    """Return a map of some samples, evenly of all `clients`, which have clusters; ``None`` without any.

    `method` is an instance or a class, or ``None`` to compare samples as they are; `total` is the number of samples of
    which clients have some, if not all.
    """
    sizes = list(map(len, clients))
    if layout == "none" or not sum(sizes):
        return None
    total, chosen = total or sum(sizes), list(zip(clients, _some_rows(sizes), strict=True))
    x = torch.cat([client.x[taken] for client, taken in chosen])
    of_samples = method is not None and method.traits.clusters == "samples"
    points = (method.embed(result, x) if of_samples else x.flatten(1)).double().numpy()
    confidence = None
    if all("confidence" in client.state for client in clients):
        confidence = torch.cat([client.state["confidence"][taken] for client, taken in chosen]).double().numpy()
    classes = None
    if population.truth is not None:
        classes = torch.cat([population.truth[client.id][taken] for client, taken in chosen]).numpy()
    numbers = torch.cat([torch.full((len(taken),), place) for place, (_, taken) in enumerate(chosen)])
    of = "" if len(points) == total else f" of {total:,}, evenly of all clients"
    places, how = _places(points, layout)
    names = short_names(population.names)
    view = SampleMap(
        "", f"{pluralize(len(points), 'sample')}{of}. {how}", places,
        torch.cat([client.state["clusters"][taken] for client, taken in chosen])[None].numpy(),
        client_names=[names[client.id] if names else f"client {client.id}" for client in clients],
        clients=numbers.numpy(), confidence=confidence, classes=classes,
        class_names={label: population.classes[label] if label < len(population.classes) else f"Class {label}"
                     for label in ([] if classes is None else np.unique(classes).tolist())},
        ids=[str(row) for _, taken in chosen for row in taken.tolist()],
    )  # fmt: skip
    return view, points


def _some_rows(sizes: Sequence[int]) -> list[Tensor]:
    """Return int64 rows of each client, as many clients as `sizes`, evenly over all rows."""
    rows = torch.linspace(0, sum(sizes) - 1, min(MAX_POINTS, sum(sizes)), dtype=torch.float64).round().long()
    ends = torch.tensor([0, *sizes]).cumsum(0)
    return [rows[(rows >= start) & (rows < stop)] - start for start, stop in pairwise(ends)]


def map_of_nodes(nodes: Nodes, names: Sequence[str], layout: MapLayout) -> Drawn | None:
    """Return a map of the groups of samples that a server has, the largest if there are many."""
    if layout == "none" or not len(nodes.counts):
        return None
    largest = nodes.counts.argsort(descending=True, stable=True)[:MAX_POINTS].sort().values
    points = nodes.centroids[largest].double().numpy()
    places, how = _places(points, layout)
    of = "" if len(largest) == len(nodes.counts) else f", the largest of {len(nodes.counts):,}"
    caption = (
        f"{pluralize(len(largest), 'micro-cluster')}{of}: the server has no rows, and each point is the mean of "
        f"{int(nodes.counts.min())} rows or more, larger if it is of more. {how}"
    )
    view = SampleMap(
        "", caption, places, nodes.clusters[largest][None].numpy(), sizes=nodes.counts[largest].numpy(),
        clients=nodes.owners[largest].numpy(), client_names=short_names(names),
        confidence=nodes.confidence[largest].numpy(),
    )  # fmt: skip
    return view, points


def with_scales(drawn: Drawn, nodes: Nodes | None, spoken: Sequence[str]) -> SampleMap:
    """Return the map with the clusters of every scale that `nodes` have, and `spoken` sentences on those found."""
    view, points = drawn
    if nodes is None or not len(nodes.cuts):
        return view
    node_of = cdist(points, nodes.centroids.double().numpy()).argmin(1)
    same = [_are_same(cut, nodes.clusters) for cut in nodes.cuts]
    cuts, titles, texts = [], [], []
    for cut, stability, is_found in zip(nodes.cuts, nodes.stabilities, same, strict=True):
        numbered = nodes.clusters if is_found else _numbered_like(cut, nodes.clusters, nodes.counts)
        cuts.append(view.cuts[0] if is_found else numbered.numpy()[node_of])
        stable = "" if stability is None else f", stability {shown(stability, 'number')}"
        titles.append(f"{pluralize(len(cut.unique()), 'cluster')}{stable}{' (found)' if is_found else ''}")
        texts.append(dict(enumerate(spoken[:_SPOKEN])) if is_found else {})
    if not any(same):
        return view
    return replace(view, cuts=np.stack(cuts), chosen=same.index(True), scales=titles, sentences=texts)


def _are_same(first: Tensor, second: Tensor) -> bool:
    pairs = torch.stack([first, second]).unique(dim=1)
    return len(pairs[0]) == len(first.unique()) == len(second.unique())


def _numbered_like(cut: Tensor, clusters: Tensor, counts: Tensor) -> Tensor:
    """Number the clusters of a cut as those found that they share most samples with, and the others after these."""
    table = torch.zeros(int(cut.max()) + 1, int(clusters.max()) + 1, dtype=torch.float64)
    table.index_put_((cut, clusters), counts.double(), accumulate=True)
    numbers = torch.full((len(table),), -1)
    rows, columns = map(torch.from_numpy, linear_sum_assignment(-table.numpy()))
    shared = table[rows, columns] > 0
    numbers[rows[shared]] = columns[shared]
    unmatched = numbers < 0
    numbers[unmatched] = torch.arange(int(unmatched.sum())) + table.shape[1]
    return numbers[cut]


def _places(points: NDArray[Any], layout: MapLayout) -> tuple[NDArray[Any], str]:
    """Lay out points in the plane; return their places ``(n, 2)``, and a sentence that says how."""
    # t-SNE starts from two components, and needs some neighbours that differ.
    if layout == "pca" or len(points) < 12 or points.shape[1] < 2 or not np.ptp(points, axis=0).any():
        directions, scale, _ = np.linalg.svd(points - points.mean(0), full_matrices=False)
        places = (directions * scale)[:, :2]
        return np.pad(places, ((0, 0), (0, 2 - places.shape[1]))), _LAYOUTS["pca"]
    from sklearn.manifold import TSNE  # slow to import, and only needed at the end of a run

    fitted = np.unique(np.linspace(0, len(points) - 1, min(_FITTED, len(points))).round().astype(int))
    perplexity = min(30.0, (len(fitted) - 1) / 3)
    with threadpool_limits(1, user_api="openmp"):  # sums over several threads depend on which is first
        search = TSNE(perplexity=perplexity, init="pca", max_iter=500, random_state=0, n_jobs=1)
        laid = np.asarray(search.fit_transform(points[fitted].astype(np.float32)), dtype=np.float64)
    if len(fitted) == len(points):
        return laid, _LAYOUTS["tsne"]
    distances = cdist(points, points[fitted])
    near = np.argpartition(distances, 2, axis=1)[:, :3]
    weights = 1 / (np.take_along_axis(distances, near, 1) + 1e-9)
    places = (laid[near] * (weights / weights.sum(1, keepdims=True))[..., None]).sum(1)
    return places, f"{_LAYOUTS['tsne']} It was made of {len(fitted)} points; others lie between their nearest three."
