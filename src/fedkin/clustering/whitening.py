"""Whitening of kin-graph's space by the scatter between neighbours (relevant component analysis).

Nearest neighbours at a client are mostly of one cluster, so the directions in which they differ do not separate
clusters. Directions are divided by that scatter, as in relevant component analysis (Bar-Hillel, Hertz, Shental and
Weinshall 2003), where similar pairs are given. Only a matrix leaves a client, and it means the same at every client,
however heterogeneous they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fedkin.clustering.k_means import nearest_neighbours

_MAX_NEIGHBOURS = 15
_QUERIES = 1_000
"""Maximum number of points whose neighbours are searched."""


def fewest_samples(dimensions: int) -> int:
    """Return the minimum number of samples for a client's scatter: as many as dimensions, from 10 to 64.

    Neighbours among fewer are often of different clusters.
    """
    return min(max(10, dimensions), 64)


def local_scatter(points: Tensor, rng: torch.Generator) -> Tensor:
    """Return the mean outer product of the differences between points and their nearest neighbours: float64 ``(d, d)``.

    `points` are float32 ``(n, d)``, n at least 2. The number of neighbours is the cube root of n, at most 15. They are
    searched for at most 1,000 points, among at most 10,000, which `rng` draws.
    """
    order = torch.randperm(len(points), generator=rng)
    queries, among = order[:_QUERIES], order[:10_000]
    near = among[nearest_neighbours(points, queries, among, min(_MAX_NEIGHBOURS, _cube_root(len(points))))]
    total = torch.zeros(points.shape[1], points.shape[1], dtype=torch.float64)
    for column in near.T:
        differences = (points[queries] - points[column]).double()
        total += differences.T @ differences
    return total / near.numel()


def local_scatter_of_sets(points: Tensor, rngs: Iterable[torch.Generator]) -> Tensor:
    """Return the mean of `local_scatter` over several sets of points ``(sets, n, d)``: float64 ``(d, d)``."""
    _, n, d = points.shape
    if n > _QUERIES:
        return torch.stack([local_scatter(part, rng) for part, rng in zip(points, rngs, strict=True)]).mean(0)
    lengths = points.square().sum(2)
    squares = torch.baddbmm(lengths[:, None] + lengths[:, :, None], points, points.mT, alpha=-2.0)
    squares.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    near = squares.topk(min(_MAX_NEIGHBOURS, _cube_root(n)), largest=False).indices
    total = torch.zeros(d, d, dtype=torch.float64)
    for column in near.unbind(2):
        differences = (points - points.gather(1, column[..., None].expand_as(points))).flatten(0, 1).double()
        total += differences.T @ differences
    return total / near.numel()


def whitened(directions: Tensor, scatter: Tensor, samples: int, ties: bool = False) -> Tensor:
    """Divide directions by the standard deviation of neighbours along them.

    `directions` are float32 ``(width, d)``, and are returned unchanged if neighbours do not differ. `scatter`, float64
    ``(d, d)``, is the mean of `local_scatter` over so many `samples`; it is shrunk towards a multiple of the identity
    with the weight of d samples. With `ties` nearest neighbours have the same categories, where
    samples of a cluster need not, so that no variance counts as less than a fifth of the mean.
    """
    d = len(scatter)
    mean = scatter.trace() / d
    if mean <= 0:
        return directions
    weight = samples / (samples + d)
    variances, axes = torch.linalg.eigh(weight * scatter + (1 - weight) * mean * torch.eye(d, dtype=scatter.dtype))
    scale = (variances.clamp_min(0.2 * mean if ties else 0.0) / mean).rsqrt()  # more spoils real tables
    scaled: Tensor = directions.double() @ (axes * scale) @ axes.T
    return scaled.float()


def _cube_root(count: int) -> int:
    """Return the integer cube root, rounded down."""
    root: int = round(float(count) ** (1 / 3))
    return root if root**3 <= count else root - 1
