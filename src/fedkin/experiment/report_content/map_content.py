"""Map of the samples: some of them in the latent representation of a method, projected to two dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.data.population import Population
from fedkin.report import SampleMap

MAX_SAMPLES = 600

MapLayout = Literal["tsne", "pca", "none"]
_MIN_SAMPLES = 12  # below, neighbours are too few for t-SNE
_CAPTIONS = {
    "tsne": "t-SNE of the representation that clusters were found in: neighbours lie together, distances between "
    "islands mean little.",
    "pca": "First two principal components of the representation that clusters were found in.",
}


@dataclass(frozen=True)
class LatentSample:
    """Subset of all clients' samples in a method's latent representation, with clusters and classes.

    `points` are float32 ``(m, width)``, and `clusters` int64 ``(m,)``. So are the classes, `truth`, or ``None`` where
    they are not known.
    """

    points: Tensor
    clusters: Tensor
    truth: Tensor | None


def latents_of(
    method: Any, population: Population, result: Mapping[str, Any], limit: int = MAX_SAMPLES
) -> LatentSample | None:
    """Embed at most `limit` clustered samples, spread evenly over all clients; ``None`` if no sample has a cluster.

    The embedding is `SampleMethod.embed`; for other methods the samples themselves are returned.
    """
    holders = [client for client in population.clients if "clusters" in client.state]
    count = sum(map(len, holders))
    if not count:
        return None
    rows = torch.linspace(0, count - 1, min(limit, count), dtype=torch.float64).round().long()
    starts = torch.tensor([0, *map(len, holders)]).cumsum(0)
    own = [rows[(rows >= start) & (rows < stop)] - start for start, stop in pairwise(starts)]
    x = torch.cat([client.x[chosen] for client, chosen in zip(holders, own, strict=True)])
    clusters = torch.cat([client.state["clusters"][chosen] for client, chosen in zip(holders, own, strict=True)])
    truth = population.truth
    known = [] if truth is None else [truth[client.id][chosen] for client, chosen in zip(holders, own, strict=True)]
    points = method.embed(result, x) if method.traits.clusters == "samples" else x.flatten(1)
    return LatentSample(points, clusters, torch.cat(known) if known else None)


def sample_map(latents: LatentSample, layout: MapLayout, classes: Sequence[str]) -> SampleMap | None:
    """Project `latents` to the plane, with their clusters and, where known, their classes."""
    if layout == "none":
        return None
    points = latents.points.double().numpy()
    if len(points) < _MIN_SAMPLES or points.shape[1] < 2:  # t-SNE starts from two components
        layout = "pca"
    places = _neighbours(points) if layout == "tsne" else _components(points)
    truth = None if latents.truth is None else latents.truth.numpy()
    caption = f"{len(points):,} samples of all clients. {_CAPTIONS[layout]}"
    colours = {} if truth is None else _colours(truth, latents.clusters.numpy())
    if colours:
        caption += " A class has the colour of the cluster that most stands for it."
    return SampleMap(places, latents.clusters.numpy(), truth, list(classes), caption, colours)


def _colours(truth: NDArray[Any], clusters: NDArray[Any]) -> dict[int, int]:
    """Return the cluster matched one to one with each class; unmatched classes get numbers beyond all clusters."""
    classes = np.unique(truth)
    known = np.unique(clusters[clusters >= 0])
    counts = np.array([[int(((truth == one) & (clusters == other)).sum()) for other in known] for one in classes])
    rows, columns = linear_sum_assignment(counts, maximize=True) if len(known) else ([], [])
    matched = {int(classes[row]): int(known[column]) for row, column in zip(rows, columns, strict=True)}
    free = 1 + int(known.max(initial=-1))
    rest = [int(one) for one in classes if int(one) not in matched]
    return matched | {one: free + at for at, one in enumerate(rest)}


def _neighbours(points: NDArray[Any]) -> NDArray[Any]:
    from sklearn.manifold import TSNE

    if not np.ptp(points, axis=0).any():
        return _components(points)
    perplexity = min(30.0, (len(points) - 1) / 3)
    with threadpool_limits(1, user_api="openmp"):  # sums over several threads depend on which is first
        search = TSNE(perplexity=perplexity, init="pca", max_iter=500, random_state=0, n_jobs=1)
        return np.asarray(search.fit_transform(points.astype(np.float32)), dtype=np.float64)


def _components(points: NDArray[Any]) -> NDArray[Any]:
    centred = points - points.mean(0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(points), 2))
    kept = min(2, len(scale))
    places[:, :kept] = left[:, :kept] * scale[:kept]
    return places
