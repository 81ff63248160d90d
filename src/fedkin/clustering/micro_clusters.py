"""Micro-clusters: many small clusters that stand for samples, formed by clients and, if too many, by the server."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from torch import Tensor

from fedkin.clustering.k_means import nearest_centroids, weighted_lloyd


class Summary(NamedTuple):
    """Micro-clusters of points: centroids, counts and labels.

    `centroids` are float32 ``(m, d)``, `counts`, int64 ``(m,)``, the members of each, and `labels`, int64 ``(n,)``, the
    micro-cluster of each point.
    """

    centroids: Tensor
    counts: Tensor
    labels: Tensor


def summarise(points: Tensor, clusters: int, minimum: int, rng: torch.Generator) -> Summary:
    """Form at most `clusters` micro-clusters of a client's points, each of at least `minimum` points.

    Of many points, Lloyd's algorithm runs for twelve iterations from random ones; micro-clusters need not be stable,
    only small. Then the smallest one below `minimum` joins the one with the nearest mean, until none is left. Where
    points are so few that `minimum` alone decides, that would waste many: there all points are halved, and each half
    again while both halves have `minimum` points. Points then move to nearer means while they leave enough behind.

    `points` are float32 ``(n, d)``, n >= `minimum`; `clusters` and `minimum` are at least 1. `rng` draws the first
    centres.
    """
    if clusters >= len(points) // minimum:
        return merged(points, _reassigned(points, _halved(points, minimum), minimum), minimum)
    order = torch.randperm(len(points), generator=rng)
    most = 100 * clusters  # what centres are fitted to; other samples are only assigned
    fitted = points if len(points) <= most else points[order[:most]]
    centres = weighted_lloyd(fitted, torch.ones(len(fitted)), points[order[:clusters]], 12)
    labels = nearest_centroids(points, centres)
    return merged(points, labels, minimum)


def _halved(points: Tensor, minimum: int) -> Tensor:
    """Bisect points recursively into cells of at least `minimum` points: int64 ``(n,)``."""
    labels = torch.zeros(len(points), dtype=torch.int64)
    waiting, cells = [torch.arange(len(points))], 0
    while waiting:
        cell = waiting.pop()
        order, size = _leading_order(points[cell], minimum)
        if size:
            waiting += [cell[order[size:]], cell[order[:size]]]
        else:
            labels[cell] = cells
            cells += 1
    return labels


def _leading_order(points: Tensor, minimum: int) -> tuple[Tensor, int]:
    """Return points' order along their principal direction, and the size of the first half that leaves least scatter.

    The size is 0 if there are too few points for two halves, or all are the same.
    """
    order, count = torch.arange(len(points)), len(points)
    if count < 2 * minimum:
        return order, 0
    centred = (points - points.mean(0)).double()
    values, directions = torch.linalg.eigh(centred.T @ centred)
    if values[-1] <= 1e-12 * points.double().square().sum():  # rounding
        return order, 0
    along, order = (centred @ directions[:, -1]).sort(stable=True)
    sums, before = along.cumsum(0)[:-1], torch.arange(1, count)
    between = sums.square() / before + (sums[-1] + along[-1] - sums).square() / (count - before)
    return order, minimum + int(between[minimum - 1 : count - minimum].argmax())


def _reassigned(points: Tensor, labels: Tensor, minimum: int) -> Tensor:
    """Reassign points to nearer means for two rounds; return the labels.

    A micro-cluster keeps `minimum` points, but for those more than twice as far from its mean as from another.
    """
    for _ in range(2):
        counts = labels.bincount()
        means = points.new_zeros(len(counts), points.shape[1]).index_add_(0, labels, points) / counts[:, None]
        nearest = nearest_centroids(points, means)
        misplaced = (points - means[labels]).norm(dim=1) > 2 * (points - means[nearest]).norm(dim=1)
        left, labels = counts.tolist(), labels.clone()
        for point in (nearest != labels).nonzero()[:, 0].tolist():
            own = int(labels[point])
            if left[own] > minimum or misplaced[point]:
                left[own] -= 1
                labels[point] = nearest[point]
        labels = labels.unique(return_inverse=True)[1]
    return labels


def merged(points: Tensor, labels: Tensor, minimum: int) -> Summary:
    """Return clusters of `points` ``(n, d)``, those below `minimum` members merged into the nearest; none is empty."""
    labels = labels.unique(return_inverse=True)[1]
    counts = labels.bincount()
    sums = points.new_zeros(len(counts), points.shape[1]).index_add_(0, labels, points)
    target = torch.arange(len(counts))
    alive = torch.ones(len(counts), dtype=torch.bool)
    while alive.sum() > 1:
        sizes = torch.where(alive, counts, torch.iinfo(torch.int64).max)
        smallest = int(sizes.argmin())
        if counts[smallest] >= minimum:
            break
        means = sums / counts[:, None]
        distances = (means - means[smallest]).square().sum(1)
        distances[~alive] = torch.inf
        distances[smallest] = torch.inf
        nearest = int(distances.argmin())
        sums[nearest] += sums[smallest]
        counts[nearest] += counts[smallest]
        alive[smallest] = False
        target[target == smallest] = nearest
    return Summary((sums / counts[:, None])[alive], counts[alive], target[labels].unique(return_inverse=True)[1])


def merged_nodes(centroids: Tensor, counts: Tensor, maximum: int, rng: torch.Generator) -> Summary:
    """Merge micro-clusters at the same place, and more if above `maximum` nodes: weighted means with added counts.

    The same rows at several clients are one node, or its copies would be each other's nearest neighbours. `centroids`
    are float32 ``(m, d)``, and `counts`, int64 ``(m,)``, their weights; `maximum` is at least 1. `rng` draws the first
    centres among the centroids. The `labels` of the result are the node of each of the m micro-clusters.
    """
    labels = _places(centroids)
    if int(labels.max()) + 1 < len(centroids):
        together = _together(centroids, counts, labels)
        nodes = merged_nodes(together.centroids, together.counts, maximum, rng)
        return nodes._replace(labels=nodes.labels[labels])
    if len(centroids) <= maximum:
        return Summary(centroids, counts, torch.arange(len(centroids)))
    start = centroids[torch.randperm(len(centroids), generator=rng)[:maximum]]
    centres = weighted_lloyd(centroids, counts.float(), start, 5)
    return _together(centroids, counts, nearest_centroids(centroids, centres).unique(return_inverse=True)[1])


def _places(points: Tensor) -> Tensor:
    """Number the places of points ``(m, d)``, int64 ``(m,)``; means of the same points differ by rounding."""
    if not points.shape[1]:
        return torch.arange(len(points))
    near = 8 * torch.finfo(torch.float32).eps * float(points.abs().max())
    along, order = points[:, 0].sort()
    close = along.diff() <= near
    maybe = order[torch.nn.functional.pad(close, (0, 1)) | torch.nn.functional.pad(close, (1, 0))].numpy()
    pairs = maybe[cKDTree(points.numpy()[maybe]).query_pairs(near, output_type="ndarray")]
    links = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(points), len(points)))
    return torch.from_numpy(connected_components(links, directed=False)[1]).long()


def _together(centroids: Tensor, counts: Tensor, labels: Tensor) -> Summary:
    together = torch.zeros(int(labels.max()) + 1, dtype=torch.int64).index_add_(0, labels, counts)
    sums = centroids.new_zeros(len(together), centroids.shape[1]).index_add_(0, labels, centroids * counts[:, None])
    return Summary(sums / together[:, None], together, labels)


# Common micro-clusters: k-means cells are split along their principal directions, from their moments alone.


_HALF, _QUARTERS = 0.8, (-1.3, -0.4, 0.4, 1.3)
"""Means of halves and quarters of a distribution between uniform and Gaussian, in standard deviations."""
_SAME = 1e-12


class CellMoments(NamedTuple):
    """Moments of the Voronoi cells of centres, of the m centres that have samples.

    `counts` are int64 ``(m,)``, and `means` float32 ``(m, d)``. `deviations`, float32 ``(m, 2, d)``, are the two
    leading directions, one standard deviation long; 0 unless they are `known`, bool ``(m,)``.
    """

    counts: Tensor
    means: Tensor
    deviations: Tensor
    known: Tensor

    def waiting(self, minimum: int) -> Tensor:
        """Return which cells have samples enough to split but no known directions yet: bool ``(m,)``."""
        return (self.counts >= 2 * minimum) & ~self.known


def scatter_pairs(centres: int, d: int) -> tuple[Tensor, Tensor]:
    """Return the pairs of components whose products make up the scatter matrices: all, or squares alone if too many."""
    if centres * d * (d + 1) // 2 > 1 << 20:  # numbers, 8 MB
        return torch.arange(d), torch.arange(d)
    first, second = torch.tril_indices(d, d)
    return first, second


def cell_scatter(offsets: Tensor, labels: Tensor, centres: int) -> Tensor:
    """Sum the `scatter_pairs` of points' offsets from their centres, by centre: float64 ``(centres, pairs)``.

    `offsets` are float64 ``(n, d)``, and `labels`, int64 ``(n,)``, the centre of each point.
    """
    d = offsets.shape[1]
    first, second = scatter_pairs(centres, d)
    scatter = torch.zeros(centres, len(first), dtype=torch.float64)
    order, counts = labels.argsort(), labels.bincount(minlength=centres)
    for centre, part in enumerate(offsets[order].split(counts.tolist())):
        scatter[centre] = (part.T @ part)[first, second]
    return scatter


def cell_deviations(second: Tensor, shift: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
    """Return the two principal directions of each cell, one standard deviation long: float32 ``(m, 2, d)``."""
    m, d = shift.shape
    covariance = torch.zeros(m, d, d, dtype=torch.float64)
    values = second - shift[:, pairs[0]] * shift[:, pairs[1]]
    covariance[:, pairs[0], pairs[1]] = values
    covariance[:, pairs[1], pairs[0]] = values
    variances, axes = torch.linalg.eigh(covariance)
    leading = (axes * variances.clamp_min(0).sqrt()[:, None]).transpose(1, 2).flip(1)[:, :2]
    return torch.cat([leading, leading.new_zeros(m, 2 - leading.shape[1], d)], dim=1).float()


def split_cells(cells: CellMoments, minimum: int, maximum: int) -> Tensor:
    """Split cells, fullest first, into four, two or none, up to `maximum` in all; return their centres."""
    counts, means, deviations, _ = cells
    room, found = maximum - len(means), []
    lengths = deviations.square().sum(2)
    scale = _SAME * means.square().sum(1).clamp_min(_SAME)
    for cell in counts.argsort(descending=True, stable=True).tolist():
        mean, (first, second) = means[cell], deviations[cell]
        parts = min(int(counts[cell]) // minimum, room + 1, 4) if lengths[cell, 0] > scale[cell] else 1
        if parts < 2:
            found.append(mean[None])
            continue
        if parts < 4:
            new = torch.stack([mean - _HALF * first, mean + _HALF * first])
        elif lengths[cell, 0] > 4 * lengths[cell, 1]:  # so long that all four lie along the first direction
            new = torch.stack([mean + part * first for part in _QUARTERS])
        else:
            new = torch.stack([mean + a * first + b * second for a in (-_HALF, _HALF) for b in (-_HALF, _HALF)])
        room -= len(new) - 1
        found.append(new)
    return torch.cat(found) if found else means
