"""scikit-learn's k-means on an accelerator, all starts at once: the same numbers drawn, the same rules to stop.

Sums are rounded in another order. So a start ends in the same partition, unless a point lies as near to two centres as
rounding is exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core.device import device

TOLERANCE = 1e-4
"""scikit-learn's: converged when squared moves of centres sum to less than this part of the features' variance."""


def best_of_starts(points: Tensor, k: int, n_init: int, max_iterations: int, seed: int) -> tuple[Tensor, Tensor, int]:
    """Run Lloyd's algorithm from `n_init` sets of k-means++ seeds; keep the partition with the smallest distances.

    `points` are float32 or float64 ``(n, width)``, on the processor, with at least `k` different rows; the numbers are
    as scikit-learn's ``KMeans`` takes them. Return the centres ``(k, width)``, of the points' type, and the labels,
    int64 ``(n,)``, on the processor, and the number of iterations.
    """
    values = points.numpy()
    middle = values.mean(axis=0)
    there = torch.from_numpy(values - middle).to(device())
    starts = _seeds(there, k, n_init, np.random.RandomState(seed))
    centres, labels, iterations = _lloyd(there, starts, max_iterations)
    offsets = torch.arange(n_init, device=there.device)[:, None] * k
    nearest = centres.flatten(0, 1)[(labels + offsets).flatten()].view(n_init, *there.shape)
    best = int((nearest - there).double().square().sum((1, 2)).argmin())
    return centres[best].cpu() + torch.from_numpy(middle), labels[best].cpu(), int(iterations[best])


def _seeds(points: Tensor, k: int, starts: int, random: np.random.RandomState) -> Tensor:
    """Draw sets of seeds by greedy k-means++, float ``(starts, k, width)``: the best of some candidates at a time.

    Distances are computed on the device; what is drawn by them is computed as scikit-learn does, for the same seeds.
    """
    n, trials = len(points), 2 + int(math.log(k))
    every, kind = np.ones(n), np.float32 if points.dtype == torch.float32 else np.float64
    first, chances = [], []
    for _ in range(starts):
        first.append(random.choice(n, p=every / n))
        chances.append(random.uniform(size=(k - 1, trials)))
    exact = points.double()
    squares = exact.square().sum(1)

    def distances(rows: NDArray[np.int64]) -> NDArray[Any]:
        at = torch.from_numpy(rows.ravel()).to(points.device)
        found = (squares[at][:, None] - 2 * exact[at] @ exact.T + squares).clamp_min(0)
        return found.to(points.dtype).cpu().numpy().reshape(*rows.shape, n)

    chosen = np.zeros((starts, k), np.int64)
    chosen[:, 0] = first
    closest, weights = distances(chosen[:, 0]), every.astype(kind)
    potential = np.array([row @ weights for row in closest])
    for at in range(1, k):
        wanted = [chance[at - 1] * total for chance, total in zip(chances, potential, strict=True)]
        rows = [np.searchsorted(np.cumsum(row), each) for row, each in zip(closest, wanted, strict=True)]
        candidates = np.minimum(np.stack(rows), n - 1)
        nearer = np.minimum(distances(candidates), closest[:, None])
        potentials = np.stack([(some @ weights[:, None])[:, 0] for some in nearer])
        best = np.arange(starts), potentials.argmin(1)
        potential, closest, chosen[:, at] = potentials[best], nearer[best], candidates[best]
    return points[torch.from_numpy(chosen.ravel()).to(points.device)].view(starts, k, -1)


def _lloyd(points: Tensor, centres: Tensor, max_iterations: int) -> tuple[Tensor, Tensor, Tensor]:
    """Move centres ``(starts, k, width)``; return them, labels ``(starts, n)``, and iterations ``(starts,)``.

    A start stops when no label changes, or when its centres hardly move.
    """
    starts, k, width = centres.shape
    limit = TOLERANCE * points.var(0, correction=0).mean()
    labels = torch.full((starts, len(points)), -1, device=points.device)
    iterations = torch.zeros(starts, dtype=torch.int64, device=points.device)
    active = torch.ones(starts, dtype=torch.bool, device=points.device)
    settled = active.clone()
    for _ in range(max_iterations):
        found = _nearest(points, centres)
        members = torch.zeros(starts, k, len(points), dtype=points.dtype, device=points.device)
        members.scatter_(1, found[:, None], 1.0)
        counts = members.sum(2)
        sums = (members.flatten(0, 1) @ points).view(starts, k, width)
        moved = torch.where(counts[..., None] > 0, sums / counts[..., None].clamp_min(1), centres)
        moved = _with_empty_ones_moved(points, centres, moved, found, counts)
        same = (found == labels).all(1)
        near = (moved - centres).square().sum((1, 2)) <= limit
        centres = torch.where(active[:, None, None], moved, centres)
        labels = torch.where(active[:, None], found, labels)
        iterations += active
        settled = torch.where(active, same, settled)
        active = active & ~same & ~near
        if not active.any():
            break
    return centres, torch.where(settled[:, None], labels, _nearest(points, centres)), iterations


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    """Return the nearest centre to each point, int64 ``(starts, n)``."""
    squares = centres.square().sum(2)
    return (squares[..., None] - 2 * centres @ points.T).argmin(1)


def _with_empty_ones_moved(points: Tensor, centres: Tensor, moved: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Move centres without points to the points that are farthest from their own, which these centres then lose."""
    if not (counts == 0).any():
        return moved
    for start in (counts == 0).any(1).nonzero()[:, 0].tolist():
        empty = (counts[start] == 0).nonzero()[:, 0]
        far = (points - centres[start][labels[start]]).square().sum(1).topk(len(empty)).indices
        sums, sizes = moved[start] * counts[start][:, None], counts[start].clone()
        for centre, point in zip(empty.tolist(), far.tolist(), strict=True):
            old = int(labels[start, point])
            sums[old] -= points[point]
            sizes[old] -= 1
            sums[centre], sizes[centre] = points[point], 1
        moved[start] = torch.where(sizes[:, None] > 0, sums / sizes[:, None].clamp_min(1), centres[start])
    return moved
