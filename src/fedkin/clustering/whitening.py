"""Whitening of kin-graph's space by the scatter between neighbours (relevant component analysis).

Nearest neighbours at a client are mostly of one cluster, so the directions in which they differ do not separate
clusters. Directions are divided by that scatter, as in relevant component analysis (Bar-Hillel, Hertz, Shental and
Weinshall 2003), where similar pairs are given. Only a matrix leaves a client, and it means the same at every client,
however heterogeneous they are.

Columns of few values need care: neighbours mostly share the value, so that a column of random categories would be
scaled up until it alone decides. Such columns are taken to differ among neighbours as much as any column does among all
samples.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedkin.clustering.micro_clusters import SEARCHED
from fedkin.clustering.nearest import nearest_neighbours

MIN_SAMPLES = 64
"""Minimum number of samples for a client's scatter: neighbours among fewer are often of different clusters."""

_FEW_VALUES = 5
"""Maximum number of different values of a column in which neighbours' differences mean nothing."""

_LOOKED_AT = 1_000
"""Rows, about, in which different values are counted."""

_MAX_NEIGHBOURS = 15
_QUERIES = 1_000
"""Maximum number of points whose neighbours are searched."""


def have_few_values(rows: Tensor) -> Tensor:
    """Return which columns of ``(n, width)`` have at most five different values, in some thousand of the rows; bool."""
    values = rows[:: max(1, len(rows) // _LOOKED_AT)].sort(dim=0).values
    few: Tensor = (values[1:] != values[:-1]).sum(0) < _FEW_VALUES
    return few


def local_scatter(points: Tensor, rng: torch.Generator) -> Tensor:
    """Return the mean outer product of the differences between points and their nearest neighbours.

    Parameters
    ----------
    points : Tensor
        float32 ``(n, d)``, n at least 2. The number of neighbours is the cube root of n, at most 15. They are searched
        for at most 1,000 random points, among at most 10,000.
    rng : torch.Generator
        Draws these points.

    Returns
    -------
    Tensor
        float64 ``(d, d)``.
    """
    order = torch.randperm(len(points), generator=rng)
    queries, among = order[:_QUERIES], order[:SEARCHED]
    near = among[nearest_neighbours(points, queries, among, min(_MAX_NEIGHBOURS, _cube_root(len(points))))]
    total = torch.zeros(points.shape[1], points.shape[1], dtype=torch.float64)
    for column in near.T:
        differences = (points[queries] - points[column]).double()
        total += differences.T @ differences
    return total / near.numel()


def table_scatter(rows: Tensor, mean: Tensor, directions: Tensor, rng: torch.Generator) -> Tensor:
    """Return the `local_scatter` of a table's components, with columns of few values replaced by average ones.

    Parameters
    ----------
    rows : Tensor
        float32 ``(n, width)``, n at least 2.
    mean, directions : Tensor
        float32 ``(width,)`` and ``(width, d)``: components are ``(rows - mean) @ directions``.
    rng : torch.Generator
        As in `local_scatter`.

    Returns
    -------
    Tensor
        float64 ``(d, d)``: the scatter without the columns of few values, and for each of these twice the mean variance
        of the other columns along its direction. Two samples at random differ by that much in a column.
    """
    few = have_few_values(rows)
    if not few.any():
        return local_scatter((rows - mean) @ directions, rng)
    along = directions[few].double()
    if few.all():
        return along.T @ along
    variance = 2 * (rows - mean)[:, ~few].double().square().mean()
    return local_scatter((rows - mean)[:, ~few] @ directions[~few], rng) + variance * along.T @ along


def whitened(directions: Tensor, scatter: Tensor, samples: int, power: float) -> Tensor:
    """Divide directions by a power of the standard deviation of neighbours along them.

    Parameters
    ----------
    directions : Tensor
        float32 ``(width, d)``.
    scatter : Tensor
        float64 ``(d, d)``, the mean of `local_scatter` over samples. It is shrunk towards a multiple of the identity
        with the weight of d samples.
    samples : int
        Number of samples in the mean.
    power : float
        Power of the standard deviation of neighbours, in [0, 1].

    Returns
    -------
    Tensor
        float32 ``(width, d)``; `directions` if neighbours do not differ.
    """
    d = len(scatter)
    mean = scatter.trace() / d
    if mean <= 0:
        return directions
    weight = samples / (samples + d)
    variances, axes = torch.linalg.eigh(weight * scatter + (1 - weight) * mean * torch.eye(d, dtype=scatter.dtype))
    scale = (variances.clamp_min(0) / mean).pow(-power / 2)
    scaled: Tensor = directions.double() @ (axes * scale) @ axes.T
    return scaled.float()


def _cube_root(count: int) -> int:
    """Return the integer cube root, rounded down."""
    root: int = round(float(count) ** (1 / 3))
    return root if root**3 <= count else root - 1
