"""Fuzzy c-means (Bezdek 1981), for many dimensions and any fuzziness above 1.

A point at squared distances ``d_j`` from the centres has memberships proportional to ``d_j ** (-1 / (m - 1))``. With
m = 1.1 that is a tenth power, which overflows or vanishes; here it is the softmax of ``-log(d_j) / (m - 1)``. Points
are read a few at a time, so that only the centres need memory beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from fedkin.clustering.k_means import ROUNDING

_CHUNK = 256
"""Points at a time: with 784 numbers each they stay in a core's cache between the two products of an iteration."""


class Clusters(NamedTuple):
    """Result of fuzzy c-means of one set of points, or, with a first dimension more, of several sets.

    `centres` are float32 ``(k, width)``, and `supports`, float32 ``(k,)``, sums of the points' memberships.
    """

    centres: Tensor
    supports: Tensor


def fuzzy_c_means(
    points: Tensor, start: Tensor, fuzziness: float, tolerance: float = 1e-4, max_iterations: int = 1000
) -> Clusters:
    """Run fuzzy c-means until no centre moves further than `tolerance`.

    `points` are float32 ``(n, width)``, and the centres `start` float32 ``(k, width)``. `fuzziness` is m > 1: towards 1
    it is k-means; with much more than 2, or in many dimensions, all centres meet in the mean. `tolerance` is in the
    units of the points, and `max_iterations` at least 1. A centre that no point belongs to stays where it started, with
    a support of 0.
    """
    found = fuzzy_c_means_of_sets(points[None], start[None], None, fuzziness, tolerance, max_iterations)
    return Clusters(*(part[0] for part in found))


def fuzzy_c_means_of_sets(
    points: Tensor,
    start: Tensor,
    valid: Tensor | None,
    fuzziness: float,
    tolerance: float = 1e-4,
    max_iterations: int = 1000,
) -> Clusters:
    """Run `fuzzy_c_means` on points ``(sets, n, width)`` from centres ``(sets, k, width)`` of each set's own.

    `valid`, bool ``(sets, k)``, says which centres there are; all by default.
    """
    middle = _mean_of_chunks(points)
    centres = start - middle  # near the origin, rounding is smallest
    off = torch.zeros(centres.shape[:2]) if valid is None else torch.where(valid, 0.0, torch.inf)
    # Sets whose centres move still, with their points and their mean.
    rows, moving, mean = torch.arange(len(points)), points, middle
    for _ in range(max_iterations):
        before, far = centres[rows], off[rows]
        sums, masses = torch.zeros(before.shape, dtype=torch.float64), torch.zeros(far.shape, dtype=torch.float64)
        for part in _near(moving, mean):
            pull = (fuzziness * _log_memberships(part, before, far, fuzziness)).exp()
            sums += pull @ part
            masses += pull.sum(2)
        after = torch.where(masses[..., None] > 0, sums / masses[..., None], before.double()).float()
        centres[rows] = after
        move = (after - before).norm(dim=2).amax(1) > tolerance
        if not bool(move.all()):
            rows, moving, mean = rows[move], moving[move], mean[move]
        if not len(rows):
            break
    supports = torch.zeros(off.shape, dtype=torch.float64)
    for part in _near(points, middle):
        supports += _log_memberships(part, centres, off, fuzziness).exp().sum(2)
    return Clusters(centres + middle, supports.float())


def memberships_of_sets(points: Tensor, centres: Tensor, fuzziness: float) -> Tensor:
    """Return memberships of points ``(sets, n, width)`` in the same centres for all: ``(sets, n, k)``, rows sum to 1.

    A point on centres belongs only to them, in equal parts.
    """
    middle = centres.mean(0, keepdim=True)
    near, off = (centres - middle).expand(len(points), -1, -1), torch.zeros(len(points), len(centres))
    parts = [_log_memberships(part, near, off, fuzziness) for part in _near(points, middle[None])]
    return torch.cat(parts, dim=2).exp().mT


def _log_memberships(part: Tensor, centres: Tensor, off: Tensor, fuzziness: float) -> Tensor:
    """Return logarithms of memberships, ``(sets, k, n)``: centres by points, the order that makes products fastest.

    Infinite `off` ``(sets, k)`` are no centres.
    """
    lengths = centres.square().sum(2)[..., None] + part.square().sum(2)[:, None]
    squared = torch.baddbmm(lengths, centres, part.mT, alpha=-2.0)
    on = squared <= ROUNDING * lengths
    if bool(off.any()):
        squared += off[..., None]
        on &= off[..., None] == 0
    logits = squared.log().div_(1.0 - fuzziness)
    if bool(on.any()):
        logits = torch.where(on.any(1, keepdim=True), torch.where(on, 0.0, -torch.inf), logits)
    return logits.log_softmax(1)


def _near(points: Tensor, middle: Tensor) -> Iterator[Tensor]:
    """Yield `points` ``(sets, n, width)`` relative to `middle`, some at a time, in one buffer that is overwritten."""
    place = torch.empty_like(points[:, :_CHUNK])
    for part in points.split(_CHUNK, dim=1):
        yield torch.sub(part, middle, out=place[:, : part.shape[1]])


def _mean_of_chunks(points: Tensor) -> Tensor:
    total = torch.zeros(len(points), 1, points.shape[2], dtype=torch.float64)
    for part in points.split(_CHUNK, dim=1):
        total += part.sum(1, keepdim=True)
    return (total / points.shape[1]).float()
