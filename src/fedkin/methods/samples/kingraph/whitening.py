"""What kin-graph learns of its space: in which directions samples differ that are alike.

Nearest neighbours at a client are mostly of one cluster, so how they differ tells what does not matter. Directions are
divided by that, as in relevant component analysis (Bar-Hillel, Hertz, Shental and Weinshall 2003), which is told who is
alike. Only a matrix leaves a client, and it means the same at all of them, however samples are spread.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedkin.methods.samples.kingraph.micro_clusters import SEARCHED, nearest_of

FEW = 64
"""Samples below which a client says nothing: neighbours among so few are often of different clusters."""

_MOST = 15
_ASKED = 1_000
"""Points whose neighbours are looked for."""


def local_scatter(points: Tensor, rng: torch.Generator) -> Tensor:
    """Mean outer product of the differences between points and their nearest ones.

    Parameters
    ----------
    points : Tensor
        float32 ``(n, d)``, n at least 2. Each has as many neighbours as the cube root of n, at most 15. Of more than
        1,000 points as many are drawn whose neighbours are looked for, among 10,000 at most.
    rng : torch.Generator
        Draws.

    Returns
    -------
    Tensor
        float64 ``(d, d)``.
    """
    order = torch.randperm(len(points), generator=rng)
    asked, among = order[:_ASKED], order[:SEARCHED]
    near = among[nearest_of(points, asked, among, min(_MOST, _cube_root(len(points))))]
    total = torch.zeros(points.shape[1], points.shape[1], dtype=torch.float64)
    for column in near.T:
        apart = (points[asked] - points[column]).double()
        total += apart.T @ apart
    return total / near.numel()


def whitened(directions: Tensor, scatter: Tensor, samples: int, power: float) -> Tensor:
    """Directions in which neighbours differ by the same, as far as `power` goes.

    Parameters
    ----------
    directions : Tensor
        float32 ``(width, d)``.
    scatter : Tensor
        float64 ``(d, d)``, the mean of `local_scatter` over samples. It is mixed with a multiple of the identity, as if
        d samples had told that all directions are the same.
    samples : int
        That it is a mean of.
    power : float
        Of the standard deviation of neighbours, in [0, 1].

    Returns
    -------
    Tensor
        float32 ``(width, d)``; `directions`, where neighbours do not differ at all.
    """
    d = len(scatter)
    mean = scatter.trace() / d
    if mean <= 0:
        return directions
    trust = samples / (samples + d)
    variances, axes = torch.linalg.eigh(trust * scatter + (1 - trust) * mean * torch.eye(d, dtype=scatter.dtype))
    scale = (variances.clamp_min(0) / mean).pow(-power / 2)
    scaled: Tensor = directions.double() @ (axes * scale) @ axes.T
    return scaled.float()


def _cube_root(count: int) -> int:
    """Rounded down."""
    root: int = round(float(count) ** (1 / 3))
    return root if root**3 <= count else root - 1
