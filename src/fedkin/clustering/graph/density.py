"""What the density of micro-clusters shows where communities are only stretches of a sheet: in one to three dimensions.

Three views of it. Gaps divide long and bent clusters (`density_clusters`, HDBSCAN); on a line, modes are clusters
(`clusters_by_modes`, Silverman 1981); and clusters that touch are divided by valleys (`clusters_by_valleys`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, count, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.stats import norm
from sklearn.cluster import HDBSCAN
from torch import Tensor

from fedkin.clustering.graph.communities import fiedler_vector
from fedkin.clustering.graph.scales import chosen_stability, largest_first, scales_of
from fedkin.clustering.graph.ward import MOST_FOUND, PER_CLUSTER, Points, as_found, silhouette
from fedkin.clustering.k_means import k_means
from fedkin.clustering.metrics import adjusted_rand
from fedkin.clustering.nearest import nearest_centroids
from fedkin.core.seeds import bisect

_PER_DIMENSION = 10
"""Density tells nothing where there are no more nodes than this for every dimension."""

_MIN_NODES, _NEAREST = 4, 3
"""Minimum number of nodes in a cluster, or the cube root of all nodes if that is more; and the number of nearest nodes,
itself included, that tell the density at a node."""

_MAX_NOISE, _MIN_SHARE = 0.15, 0.05
"""Maximum fraction of samples that are noise, and minimum fraction in every cluster."""


def density_clusters(points: Tensor, counts: Tensor) -> NDArray[np.int64] | None:
    """Cluster nodes by HDBSCAN (Campello et al. 2013) if it finds two clusters or more, and none by chance.

    Afterwards noise joins the cluster of the nearest point that is none. `points` are float64 ``(m, d)``, and `counts`,
    float64 ``(m,)``, the samples of each. Clusters are int64 ``(m,)``, from 0; ``None`` if there is one cluster, one
    has less than 5 % of the samples, more than 15 % are noise, or there is one dimension or at most ten points for
    each.
    """
    if points.shape[1] == 1 or len(points) <= _PER_DIMENSION * points.shape[1]:
        return None
    smallest = max(_MIN_NODES, round(len(points) ** (1 / 3)))
    dense = HDBSCAN(min_cluster_size=smallest, min_samples=_NEAREST, copy=True)
    labels: NDArray[np.int64] = dense.fit_predict(points.numpy()).astype(np.int64)
    inside, size = labels >= 0, counts.numpy()
    if labels.max() < 1 or size[~inside].sum() > _MAX_NOISE * size.sum():
        return None
    if np.bincount(labels[inside], weights=size[inside]).min() < _MIN_SHARE * size.sum():
        return None
    labels[~inside] = labels[inside][nearest_centroids(points[~inside], points[inside])]
    return labels


#
# Clusters of points on a line: the modes of their density, as many as are more than chance.
#
# On a line communities of nearest neighbours are stretches of equal numbers of points, wherever the density is low.
# With a Gaussian kernel the number of modes never grows with the bandwidth, so that each number has a critical
# bandwidth, the least with no more modes (Silverman 1981). At that bandwidth the valleys between the modes are
# compared with what chance alone makes of an even density.


_BINS, _LEAST_BINS = 1_024, 2.2
"""Bins, and minimum bandwidth in bins: the spectrum of a narrower kernel is cut off, and its ripples would be modes."""
_MARGIN = 0.25
"""Empty bins at either end, as a fraction of the range, so that the ends' modes are modes."""
_HALVINGS = 30
_ROUNDING = 1e-9
"""Differences between bins, relative to the highest, that do not count."""
_GRID = 0.5
"""Minimum bandwidth, relative to the distance to the next different value: values of a grid are no modes."""

_FEW = 10
"""Maximum number of points that show no density."""
_MAX_MODES, _MAX_GIVEN = 12, 30
"""Maximum number of modes that are looked for, where no number is given, and where one is."""
_SURE = 2.0
"""Minimum depth of a valley in standard deviations of what it would be by chance."""
_DEPTH = 0.85
"""Maximum density in a valley, relative to the lower mode beside it: with many samples even shallow ones are sure."""

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]


def clusters_by_modes(
    points: Tensor, counts: Tensor, n_clusters: int | None, rng: torch.Generator
) -> tuple[Tensor, dict[str, Any]]:
    """Cluster points on a line, into as many clusters as its density has modes or as given.

    Each cluster reaches from one valley of the density to the next. If `n_clusters` is given and the density does not
    show as many, they are those of k-means. `points` are ``(m,)``, not all equal, and `counts`, int64 ``(m,)``, the
    samples of each. `n_clusters` is at least 1; with fewer different positions each is a cluster. `rng` draws the seeds
    of k-means.

    Returns
    -------
    clusters : Tensor
        int64 ``(m,)``, from 0, the cluster with most samples first.
    evidence : dict
        As of `fedkin.clustering.graph.graph_cut.communities`, without "modularity"; "by_modes" is whether valleys
        divide the clusters. A resolution is one over a critical bandwidth, and the stability of a number of clusters
        how sure the shallowest of its valleys is, from 0.5 to 1; 1 for one cluster.
    """
    size = counts.double().numpy()
    line = _Line(points.double().numpy(), size)
    most = max(_MAX_MODES, min(n_clusters or 1, _MAX_GIVEN))
    divisions = {one.modes: one for one in map(line.divided, range(1, most + 1))}
    shown = [number for number, one in divisions.items() if one.shows()]
    by_modes = n_clusters is None or n_clusters in shown
    if by_modes:
        labels = divisions[n_clusters or max(shown)].labels
    else:
        labels = k_means(points[:, None], n_clusters or 1, rng, weights=counts).labels.numpy()
    tried = [*divisions.values()]
    chosen = divisions.get(int(labels.max()) + 1, tried[-1])
    divided = [(one.resolution, one.labels, one.stability) for one in tried]
    scales = scales_of(divided, size, labels, chosen.stability if by_modes else None)
    evidence = {
        "resolution": chosen.resolution,
        **chosen_stability(scales),
        "by_density": False,
        "by_modes": by_modes,
        "resolutions": [one.resolution for one in tried],
        "clusters_found": [*divisions],
        "stabilities": [one.stability for one in tried],
        "scales": scales,
    }
    return torch.from_numpy(largest_first(labels, size)), evidence


def on_a_line(points: Tensor) -> bool:
    """Return whether points ``(m, d)`` have one column, differ, and are enough to show a density."""
    return points.shape[1] == 1 and len(points) > _FEW and len(points.unique()) > 1


@dataclass(frozen=True)
class _Division:
    """A line divided into modes.

    `labels` ``(m,)`` are from left to right, and `resolution` is one over the bandwidth. `depth` is the greatest
    density in a valley, relative to the lower mode beside it; 0 without any. `deviations` is the least depth in
    standard deviations of what it would be by chance; infinite without any. `least` is the fraction of the samples in
    the smallest mode.
    """

    modes: int
    labels: Labels
    resolution: float
    depth: float
    deviations: float
    least: float

    @property
    def stability(self) -> float:
        return float(norm.cdf(self.deviations))

    def shows(self) -> bool:
        """Return whether so many modes are more than chance, each with its share of the samples."""
        return self.modes == 1 or (self.least >= _MIN_SHARE and self.depth <= _DEPTH and self.deviations >= _SURE)


@dataclass(frozen=True)
class _Line:
    """Points on a line ``(m,)`` with their numbers of samples, in bins."""

    points: Floats
    counts: Floats

    @cached_property
    def _step(self) -> float:
        return float(np.ptp(self.points)) * (1 + 2 * _MARGIN) / (_BINS - 1)

    @cached_property
    def _at(self) -> Labels:
        """Bin of each point."""
        first = self.points.min() - _MARGIN * np.ptp(self.points)
        bins: Labels = np.rint((self.points - first) / self._step).astype(np.int64)
        return bins

    @cached_property
    def _spectrum(self) -> NDArray[np.complex128]:
        return np.fft.rfft(np.bincount(self._at, weights=self.counts, minlength=_BINS), 2 * _BINS)

    @cached_property
    def _least_bandwidth(self) -> float:
        """Half the median distance of samples to the next different value, or `_LEAST_BINS`."""
        places, place = np.unique(self.points, return_inverse=True)
        gaps = np.concatenate([[np.inf], np.diff(places), [np.inf]])
        near = np.minimum(gaps[1:], gaps[:-1])[place]
        order = np.argsort(near)
        middle = np.searchsorted(np.cumsum(self.counts[order]), self.counts.sum() / 2)
        return max(_GRID * float(near[order][middle]), _LEAST_BINS * self._step)

    def _density(self, bandwidth: float) -> Floats:
        """Return the samples in each bin ``(bins,)``, smoothed by a Gaussian kernel."""
        frequencies = np.fft.rfftfreq(2 * _BINS)
        kernel = np.exp(-2 * (np.pi * frequencies * bandwidth / self._step) ** 2)
        smoothed: Floats = np.fft.irfft(self._spectrum * kernel)[:_BINS]
        return smoothed

    def _critical(self, number: int) -> float:
        """Return the least bandwidth, to rounding, with no more modes."""
        low, high = math.log(self._least_bandwidth), math.log(self._step * _BINS)
        if len(_tops(self._density(math.exp(low)))) <= number:
            return math.exp(low)
        few = bisect(lambda log: len(_tops(self._density(math.exp(log)))) <= number, low, high, _HALVINGS)
        return math.exp(few[1])

    def divided(self, number: int) -> _Division:
        """Return the division into at most so many modes."""
        bandwidth = self._critical(number)
        density = self._density(bandwidth)
        tops = _tops(density)
        valleys = [left + int(density[left:right].argmin()) for left, right in pairwise(tops)]
        labels: Labels = np.searchsorted(valleys, self._at, side="right").astype(np.int64)
        sizes = np.bincount(labels, weights=self.counts, minlength=len(tops))
        modes, lows = np.minimum(density[tops[:-1]], density[tops[1:]]), density[valleys]
        # The variance of a Gaussian kernel's estimate is the density over 2 sqrt(pi) bandwidths.
        deviation = np.sqrt((modes + lows) * self._step / (2 * math.sqrt(math.pi) * bandwidth))
        return _Division(
            modes=len(tops),
            labels=labels,
            resolution=1 / bandwidth,
            depth=float(max(lows / modes, default=0.0)),
            deviations=float(min((modes - lows) / deviation, default=math.inf)),
            least=float(sizes.min() / sizes.sum()),
        )


def _tops(density: Floats) -> list[int]:
    """Return the bins of the modes."""
    steps = np.diff(density)
    signs = np.where(np.abs(steps) > _ROUNDING * density.max(), np.sign(steps), 0.0)
    last = np.maximum.accumulate(
        np.where(signs != 0, np.arange(len(signs)), 0)
    )  # flat steps are as the last that is not
    rising = signs[last]
    return [at for at, (before, after) in enumerate(pairwise(rising), 1) if before > 0 > after]


STABLE = 0.85
"""Minimum stability of clusters. Pieces of a ring or of a square have less."""

_RESAMPLES, _KEPT, _CAUTION = 20, 0.8, 0.5
"""Resamples, fraction of the nodes in each, and standard deviations subtracted from the mean, as for communities."""


def stability_without_some(labels: Labels, orders: Iterable[Labels], again: Callable[[Labels], Labels]) -> float:
    """Return the mean adjusted Rand index over nodes, less half its standard deviation, to clusters of resamples.

    A resample has the first four fifths of the nodes ``(m,)`` in each of the first twenty `orders`, in ascending
    order; `again` returns the clusters of these nodes. Over samples, as for communities, pieces of clusters would be
    stable, too, since the samples of a node stay together.
    """
    indices = []
    for _, order in zip(range(_RESAMPLES), orders, strict=False):
        kept = np.sort(order[: round(_KEPT * len(labels))])
        indices.append(adjusted_rand(labels[kept], again(kept)))
    return float(np.mean(indices) - _CAUTION * np.std(indices))


#
# Clusters that touch, in two or three dimensions: k-means' where the density between them has a valley.
#
# Two normal clusters whose centres are three and a half standard deviations apart have two hills and a valley, but
# links to nearest nodes do not show it: where nodes are rare, the nearest ones are further away. Links up to a fixed
# distance do, because their number falls with the square of the density.


_LINKED, _WIDTH, _REACH = 5, 0.7, 2.5
"""A link's weight falls with distance as a normal density. Its standard deviation is the median distance of a node to
its fifth nearest, times 0.7; beyond two and a half of them there is no link."""

_SHALLOW = 0.85
"""Minimum links between two clusters, with their standard error, relative to those between the halves of either, less
theirs, that are no valley. Pieces of a bent sheet have 0.9 or more."""

_TOGETHER = 0.9
"""Minimum fraction of a cluster's samples in one connected part; the sparse border of a heavy tail is in pieces."""

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
    width = _WIDTH * float(np.median(tree.query(x, k=_LINKED + 1)[0][:, -1]))
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
