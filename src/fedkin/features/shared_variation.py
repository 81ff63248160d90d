"""What discrete columns share with other columns, for methods that look for gaps between samples.

Discrete columns put samples on a grid, which has gaps in every cluster: the more samples there are, the more clearly
each combination of categories is a cluster of its own. But if clusters explain how columns go together, as in latent
class analysis, then columns vary independently within clusters, and all that they share lies in few directions: one
fewer than there are clusters. In these each sample is a weighted sum over many columns, and the grid is gone. A column
that shares nothing with others, such as a random category, has no part in them. Nor has what copies share: columns of
which one determines the other, such as a code and its name, count as one.
"""

from __future__ import annotations

import math

import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor


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


def unexplained_covariance(covariance: Tensor, samples: float, blocks: Tensor) -> Tensor:
    """Return the covariance of what a linear regression on all other columns leaves of each discrete column.

    Arguments are those of `shared_basis`. The result is float64 ``(width, width)``, 0 for continuous features and
    between columns, because discrete columns vary independently within clusters. Copies are one column.
    """
    joined, width = _without_copies(covariance, blocks), len(blocks)
    # Indicators of a column's categories add up to 1, so that without it the covariance has no inverse.
    ridge = 1e-6 * float(covariance.trace()) / width or 1.0
    # What is left of a block is the inverse of its part of the precision matrix, so one inverse serves all of them.
    precision = torch.linalg.inv(covariance + ridge * torch.eye(width, dtype=covariance.dtype))
    unexplained = torch.zeros_like(covariance)
    for block in joined[joined >= 0].unique():
        members = (joined == block).nonzero()[:, 0]
        residual = torch.linalg.inv(precision[members][:, members])
        residual -= ridge * torch.eye(len(members), dtype=covariance.dtype)
        predictors = width - len(members)
        # A regression on many columns takes too much of few samples; twice is the most that is given back.
        factor = min(samples / max(samples - predictors, 1), 2.0) if predictors else 1.0
        unexplained[members[:, None], members] = residual * factor
    return unexplained


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
