"""Clusters that touch, in two or three dimensions: k-means' where the density between them has a valley.

Two normal clusters whose centres are three and a half standard deviations apart have two hills and a valley, but links
to nearest nodes do not show it: where nodes are rare, the nearest ones are further away. Links up to a fixed distance
do, because their number falls with the square of the density.
"""

from __future__ import annotations

from itertools import combinations, count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from torch import Tensor

from fedkin.clustering.graph.community_joining import fiedler_vector
from fedkin.clustering.graph.few_nodes import MOST_FOUND, PER_CLUSTER, Points, as_found, silhouette
from fedkin.clustering.graph.left_out_nodes import STABLE, stability_without_some
from fedkin.clustering.k_means import k_means

_NEAREST, _WIDTH, _REACH = 5, 0.7, 2.5
"""A link's weight falls with distance as a normal density. Its standard deviation is the median distance of a node to
its fifth nearest, times 0.7; beyond two and a half of them there is no link."""

_SHALLOW = 0.85
"""Minimum links between two clusters, with their standard error, relative to those between the halves of either, less
theirs, that are no valley. Pieces of a bent sheet have 0.9 or more."""

_MIN_SHARE, _TOGETHER = 0.05, 0.9
"""Minimum fraction of the samples in every cluster, and of a cluster's samples in one connected part of it. The sparse
border of a heavy tail is in pieces."""

_FEWEST = 4
"""Minimum nodes of a cluster that is halved."""

_STARTS = 3
"""Starts of k-means for each number."""


def clusters_by_valleys(
    points: Tensor, counts: Tensor, clusters: Tensor, evidence: dict[str, Any], rng: torch.Generator
) -> tuple[Tensor, dict[str, Any]]:
    """Return clusters by k-means if valleys divide them, else `clusters` as they are.

    Of two to ten clusters by k-means those with the greatest silhouette are taken of which

    * every two have fewer than 0.85 times the links between them that the halves of either have, by more than the
      standard errors of both. A cluster is halved at its mean along the line between the two means, and in the middle
      of its longest extent (Fiedler vector), and the fewer links count: the first cuts bent clusters twice;
    * each has 5 % of the samples, 90 % of which are connected;
    * the stability without a fifth of the nodes is 0.85, see `stability_without_some`.

    `points` are float32 ``(m, d)``, and `counts`, int64 ``(m,)``, the samples of each. `clusters`, int64 ``(m,)``, are
    what the graph shows, and `evidence` that for them, see `communities`. `rng` draws seeds of k-means and resamples.
    Clusters are returned as int64 ``(m,)``, from 0, the one with most samples first, with the evidence, "valley", the
    greatest ratio of links between two clusters, and a standard error, to those between halves, less one; and with the
    "silhouette" and "stability" of the clusters.
    """
    x, size = points.double().numpy(), counts.double().numpy()
    links = _links(x, size)
    divided = []
    for number in range(2, min(MOST_FOUND, len(x) // (2 * PER_CLUSTER)) + 1):
        labels = _by_k_means(points, counts, number, rng)
        if _are_whole(links, labels, size) and (valley := _shallowest(links, labels, x, size)) < _SHALLOW:
            divided.append((silhouette(x, labels), valley, labels))
    for reached, valley, labels in sorted(divided, key=lambda division: -division[0]):
        stability = _stability(points, counts, labels, rng)
        if stability >= STABLE:
            how = {"valley": valley, "silhouette": reached, "stability": stability}
            return as_found(labels, counts, evidence, **how)
    return clusters, evidence


def _by_k_means(points: Tensor, counts: Tensor, number: int, rng: torch.Generator) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = k_means(points.double(), number, rng, _STARTS, weights=counts).labels.numpy()
    return labels


def _links(x: Points, size: Points) -> Any:
    """Return links between near nodes, a symmetric csr_matrix ``(m, m)``: products of samples times the weight."""
    tree = KDTree(x)
    width = _WIDTH * float(np.median(tree.query(x, k=_NEAREST + 1)[0][:, -1]))
    first, second = tree.query_pairs(_REACH * width, output_type="ndarray").T
    squares = ((x[first] - x[second]) ** 2).sum(axis=1)
    weights = np.exp(-squares / (2 * width**2 or 1.0)) * size[first] * size[second]
    half = sparse.csr_matrix((weights, (first, second)), shape=(len(x), len(x)))
    return (half + half.T).tocsr()


def _are_whole(links: Any, labels: NDArray[np.int64], size: Points) -> bool:
    """Return whether each cluster has its share of the samples, and most of them in one connected part."""
    for cluster in range(int(labels.max()) + 1):
        members = labels == cluster
        own = size[members]
        parts = connected_components(links[members][:, members], directed=False)[1]
        if own.sum() < _MIN_SHARE * size.sum() or np.bincount(parts, weights=own).max() < _TOGETHER * own.sum():
            return False
    return True


def _shallowest(links: Any, labels: NDArray[np.int64], x: Points, size: Points) -> float:
    """Return the greatest ratio of links between two clusters, and an error, to those between halves, less theirs."""
    members = [labels == cluster for cluster in range(int(labels.max()) + 1)]
    means = [np.average(x[own], axis=0, weights=size[own]) for own in members]
    along_shape = [_halving(links, own, _half_by_links(links, own), size) for own in members]
    greatest = 0.0
    for one, other in combinations(range(len(means)), 2):
        between, error = _crossing(links, members[one], members[other], size)
        if between:
            along = means[one] - means[other]
            straight = [_halving(links, members[each], (x - means[each]) @ along > 0, size) for each in (one, other)]
            halves = min(*straight, along_shape[one], along_shape[other])
            greatest = max(greatest, (between + error) / halves if halves > 0 else np.inf)
    return greatest


def _half_by_links(links: Any, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which nodes are in the first half of the largest connected part of a cluster, by its Fiedler vector."""
    own = np.flatnonzero(members)
    parts = connected_components(links[own][:, own], directed=False)[1]
    own = own[parts == np.bincount(parts).argmax()]
    within = links[own][:, own].tocsr()
    strength = np.asarray(within.sum(axis=1)).ravel()
    first = np.zeros(len(members), dtype=bool)
    if len(own) >= _FEWEST:
        order = np.argsort(fiedler_vector(within, strength), kind="stable")
        first[own[order[np.cumsum(strength[order]) <= strength.sum() / 2]]] = True
    return first


def _halving(links: Any, members: NDArray[np.bool_], side: NDArray[np.bool_], size: Points) -> float:
    """Return the links between halves of a cluster, less their standard error."""
    between, error = _crossing(links, members & side, members & ~side, size)
    return between - error


def _crossing(links: Any, one: NDArray[np.bool_], other: NDArray[np.bool_], size: Points) -> tuple[float, float]:
    """Return the links between two sets of nodes, and the standard error if samples are drawn independently.

    A node's number of samples then varies with a variance of that number, and all of its links with it.
    """
    crossing = links[one][:, other]
    variance = sum(
        (np.asarray(crossing.sum(axis)).ravel() ** 2 / size[nodes]).sum() for axis, nodes in ((0, other), (1, one))
    )
    return float(crossing.sum()), float(np.sqrt(variance))


def _stability(points: Tensor, counts: Tensor, labels: NDArray[np.int64], rng: torch.Generator) -> float:
    def again(kept: NDArray[np.int64]) -> NDArray[np.int64]:
        return _by_k_means(points[kept], counts[kept], int(labels.max()) + 1, rng)

    return stability_without_some(labels, (torch.randperm(len(labels), generator=rng).numpy() for _ in count()), again)
