"""Federated PCA: principal components of all clients' samples, from sums that the clients send.

A client sends how many samples it has, the sum of their features and the sum of outer products about its own mean. The
server adds these up as if the samples had been pooled (Chan, Golub and LeVeque 1983), which stays exact where a mean is
far larger than what varies around it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor


@dataclass(frozen=True)
class FeatureMoments:
    """Moments of a client's features: their count, sum ``(width,)`` and scatter ``(width, width)``, in float64.

    The scatter is the sum of outer products about the mean of these samples. The count is noisy where the moments are.
    """

    count: float
    total: Tensor
    scatter: Tensor

    def __add__(self, other: FeatureMoments) -> FeatureMoments:
        """Return the moments of both sets of samples together."""
        count = self.count + other.count
        difference = self.total / self.count - other.total / other.count
        between = torch.outer(difference, difference) * (self.count * other.count / count)
        return FeatureMoments(count, self.total + other.total, self.scatter + other.scatter + between)

    def along(self, directions: Tensor) -> FeatureMoments:
        """Return the moments of the features times float64 `directions` ``(width, d)``."""
        return FeatureMoments(self.count, self.total @ directions, directions.T @ self.scatter @ directions)

    def payload(self) -> dict[str, Any]:
        """Return the moments as they are sent: the scatter's lower triangle, in single precision."""
        return {"count": self.count, "total": self.total, "scatter": lower_triangle(self.scatter).float()}

    @classmethod
    def received(cls, payload: dict[str, Any]) -> Self:
        """Return the moments in a `payload`."""
        total = payload["total"]
        return cls(payload["count"], total, symmetric(payload["scatter"], len(total)))


def lower_triangle(matrix: Tensor) -> Tensor:
    """Return the numbers on and below the diagonal of a matrix ``(width, width)``, row by row."""
    rows, columns = torch.tril_indices(*matrix.shape)
    return matrix[rows, columns]


def symmetric(triangle: Tensor, width: int) -> Tensor:
    """Return the symmetric matrix ``(width, width)``, float64, that has this `lower_triangle`."""
    matrix = torch.zeros(width, width, dtype=torch.float64)
    rows, columns = torch.tril_indices(width, width)
    matrix[rows, columns] = triangle.double()
    full: Tensor = matrix + matrix.tril(-1).T
    return full


@dataclass(frozen=True)
class Components:
    """Principal components, as a projection of features: ``(features - mean) @ directions``, in float32.

    `directions` ``(width, d)`` have unit length, unless components were scaled; `variances` ``(d,)`` are those before
    any scaling, largest first.
    """

    mean: Tensor
    directions: Tensor
    variances: Tensor

    def explained_variance(self, pooled: FeatureMoments) -> float:
        """Return the fraction of the features' variance that the components explain."""
        total = float((pooled.scatter.diagonal() / pooled.count).sum())
        return float(self.variances.sum()) / total if total > 0 else 1.0

    def unit(self) -> Self:
        """Return the same components, scaled so that their variances add up to 1."""
        scale = float(self.variances.sum().sqrt()) or 1.0
        return type(self)(self.mean, self.directions / scale, self.variances / scale**2)


def moments(rows: Tensor) -> FeatureMoments:
    """Compute the moments of features, float32 ``(n, width)``, n >= 1: in float32 of 2,048 rows, then in float64."""
    first, *more = map(moments_of, rows.split(2048))
    return sum(more, start=first)


def moments_of(rows: Tensor) -> FeatureMoments:
    """Compute the moments of features ``(n, width)``, n >= 1, all at once."""
    total = rows.sum(0, dtype=torch.float64)
    centred = rows - (total / len(rows)).float()
    drift = centred.sum(0, dtype=torch.float64)
    scatter = (centred.T @ centred).double() - torch.outer(drift, drift) / len(rows)
    return FeatureMoments(float(len(rows)), total, scatter)


def components(pooled: FeatureMoments, count: int) -> Components:
    """Compute the leading principal components, at least one, from the moments of all samples.

    There are at most `count`, and fewer if fewer have any variance. With more features than that, components are left
    out whose variance is not above that of noise: (1 + root of features / samples) squared times the median variance
    (Marchenko and Pastur 1967), and a quarter more. Without noise, those are left out whose variance may be rounding:
    outer products are float32, so that the rank is that of a float32 matrix, as `numpy.linalg.matrix_rank` decides it.
    Signs are such that the largest entry of a direction is positive.
    """
    values, vectors = torch.linalg.eigh(pooled.scatter / pooled.count)
    width = len(values)
    floor = width * torch.finfo(torch.float32).eps * float(values[-1])
    if width > count:
        # A quarter more, since the spectrum of noise varies, and its median is below its mean.
        floor = max(floor, 1.25 * float(values.median()) * (1 + math.sqrt(width / pooled.count)) ** 2)
    values, vectors = values.flip(0)[:count].clamp_min(0), vectors.flip(1)[:, :count]
    count = max(1, int((values > floor).sum()))
    values, vectors = values[:count], vectors[:, :count]
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    directions = vectors * largest.sign()
    return Components((pooled.total / pooled.count).float(), directions.float().contiguous(), values.float())


def width_kept(width: int, embedded: bool) -> int:
    """Return how many of so many features remain, of embeddings or of others; the rest is projected at random."""
    # Outer products grow with the square; those of 384 columns take 0.3 MB.
    most, rest = (384, 384) if embedded else (2048, 1024)
    return width if width <= most else rest


@lru_cache(maxsize=2)
def random_projection(width: int, count: int, seed: int) -> Tensor:
    """Return a public random projection ``(width, count)``, float32, that keeps squared distances on average."""
    rng = torch.Generator().manual_seed(seed)
    projection: Tensor = torch.randn(width, count, generator=rng) / math.sqrt(count)
    return projection


# What discrete columns share with others. They put samples on a grid, which has gaps in every cluster: with more rows
# each combination of categories is more clearly a cluster of its own. But if clusters explain how columns go together,
# as in latent class analysis, then columns vary independently within clusters, and all that they share lies in few
# directions: one fewer than there are clusters. In these each sample is a weighted sum over many columns, and the grid
# is gone. A random category has no part in them, nor has what copies share, such as a code and its name.


def shared_basis(covariance: Tensor, samples: float, blocks: Tensor) -> Tensor:
    """Return the directions that replace the features: continuous ones as they are, and what discrete ones share.

    As in generalised canonical correlation, each block is whitened first, so that without shared variation all
    eigenvalues of the covariance are 1. Those above the edge of chance, ``(1 + sqrt(width / samples)) ** 2`` (Marchenko
    and Pastur 1967), are shared by several blocks. The discrete features are projected on their axes.

    The `covariance`, float64 ``(width, width)``, is that of so many `samples`; `blocks`, int64 ``(width,)``, is -1 for
    a continuous feature, and the same number, at least 0, for discrete features of one column, such as indicators of
    its categories. The directions are float64 ``(width, r)``; without continuous features at least one axis counts as
    shared.
    """
    axes, back, _ = _whitening(covariance, _without_copies(covariance, blocks))
    values, vectors = torch.linalg.eigh(axes.T @ covariance @ axes)
    shared = int((values > (1 + math.sqrt(len(values) / samples)) ** 2).sum())
    discrete, continuous = blocks >= 0, torch.eye(len(blocks), dtype=torch.float64)[:, blocks < 0]
    if not continuous.any():
        shared = max(shared, 1)
    if not shared:
        return continuous
    leading = vectors[:, -shared:]
    projected = (axes @ leading @ leading.T @ back.T)[:, discrete]
    turned = torch.linalg.eigh(projected.T @ covariance @ projected).eigenvectors[:, -shared:]
    return torch.cat([continuous, projected @ turned], 1)


def _without_copies(covariance: Tensor, blocks: Tensor) -> Tensor:
    """Give discrete columns of which one determines the other the same number."""
    axes, _, owners = _whitening(covariance, blocks)
    columns, widths = owners.unique(return_counts=True)
    blocks_of = (owners[:, None] == columns).to(torch.float64)
    # The sum of squared canonical correlations of each two blocks is the width of one that the other explains.
    explained = blocks_of.T @ (axes.T @ covariance @ axes).square() @ blocks_of / widths[:, None]
    discrete = torch.isin(columns, blocks)
    # Nearly all: a town explains its country but for a few wrong rows.
    columns, copies = columns[discrete], (explained > 0.98)[discrete][:, discrete]
    groups = torch.from_numpy(connected_components(copies.numpy(), directed=False)[1]) if len(columns) else columns
    joined = blocks.clone()
    for column, group in zip(columns, groups, strict=True):
        joined[blocks == column] = columns[groups == group].min()
    return joined


def _whitening(covariance: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return directions ``(width, p)`` along which each block has covariance 1, those back, and the blocks' numbers."""
    ids = torch.where(blocks < 0, len(blocks) + torch.arange(len(blocks)), blocks)  # a continuous feature is a block
    axes: list[Tensor] = []
    back: list[Tensor] = []
    owners: list[Tensor] = []
    for block in ids.unique():
        members = (ids == block).nonzero()[:, 0]
        variances, vectors = torch.linalg.eigh(covariance[members][:, members])
        varies = (variances > 1e-6 * variances[-1]) & (variances > 0)  # the rest is rounding
        deviations, vectors = variances[varies].sqrt(), vectors[:, varies]
        for directions, of_block in ((axes, vectors / deviations), (back, vectors * deviations)):
            placed = torch.zeros(len(blocks), of_block.shape[1], dtype=torch.float64)
            placed[members] = of_block
            directions.append(placed)
        owners.append(block.expand(int(varies.sum())))
    return torch.cat(axes, 1), torch.cat(back, 1), torch.cat(owners)
