"""Splitting of k-means cells along their principal directions, from their moments alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

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
