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

from fedkin.clustering.nearest import ROUNDING

_CHUNK = 256
"""Points at a time: with 784 numbers each they stay in a core's cache between the two products of an iteration."""


class Clusters(NamedTuple):
    """Result of fuzzy c-means.

    `centres` are float32 ``(k, width)``, and `supports`, float32 ``(k,)``, sums of the points' memberships.
    `iterations` are moves of the centres; `moved` is the largest Euclidean move of a centre in the last one.
    """

    centres: Tensor
    supports: Tensor
    iterations: int
    moved: float


def fuzzy_c_means(
    points: Tensor, start: Tensor, fuzziness: float, tolerance: float = 1e-4, max_iterations: int = 1000
) -> Clusters:
    """Run fuzzy c-means until no centre moves further than `tolerance`.

    `points` are float32 ``(n, width)``, and the centres `start` float32 ``(k, width)``, at least one of each.
    `fuzziness` is m > 1: towards 1 it is k-means; with much more than 2, or in many dimensions, all centres meet in the
    mean. `tolerance` is in the units of the points, and `max_iterations` at least 1. A centre that no point belongs to
    stays where it started, with a support of 0.
    """
    middle = _mean_of_chunks(points)
    centres = start - middle  # near the origin, rounding is smallest
    moved, iterations = torch.inf, 0
    while moved > tolerance and iterations < max_iterations:
        sums, masses = torch.zeros(centres.shape, dtype=torch.float64), torch.zeros(len(centres), dtype=torch.float64)
        for part in _near(points, middle):
            pull = (fuzziness * _log_memberships(part, centres, fuzziness)).exp()
            sums += pull @ part
            masses += pull.sum(1)
        after = torch.where(masses[:, None] > 0, sums / masses[:, None], centres.double()).float()
        moved, iterations = float((after - centres).norm(dim=1).max()), iterations + 1
        centres = after
    supports = torch.zeros(len(centres), dtype=torch.float64)
    for part in _near(points, middle):
        supports += _log_memberships(part, centres, fuzziness).exp().sum(1)
    return Clusters(centres + middle, supports.float(), iterations, moved)


def memberships(points: Tensor, centres: Tensor, fuzziness: float) -> Tensor:
    """Return the memberships of `points` ``(n, width)`` in `centres` ``(k, width)``: ``(n, k)``, rows sum to 1.

    A point on centres belongs only to them, in equal parts.
    """
    middle = centres.mean(0)
    parts = [_log_memberships(part, centres - middle, fuzziness) for part in _near(points, middle)]
    return torch.cat(parts, dim=1).exp().T


def _log_memberships(part: Tensor, centres: Tensor, fuzziness: float) -> Tensor:
    """Return logarithms of memberships, ``(k, n)``: centres by points, the order that makes products fastest."""
    lengths = centres.square().sum(1)[:, None] + part.square().sum(1)
    squared = torch.addmm(lengths, centres, part.T, alpha=-2.0)
    on = squared <= ROUNDING * lengths
    logits = squared.log().div_(1.0 - fuzziness)
    if bool(on.any()):
        logits = torch.where(on.any(0), torch.where(on, 0.0, -torch.inf), logits)
    return logits.log_softmax(0)


def _near(points: Tensor, middle: Tensor) -> Iterator[Tensor]:
    """Yield `points` relative to `middle`, some at a time, in one buffer that is overwritten."""
    place = torch.empty_like(points[:_CHUNK])
    for part in points.split(_CHUNK):
        yield torch.sub(part, middle, out=place[: len(part)])


def _mean_of_chunks(points: Tensor) -> Tensor:
    total = torch.zeros(points.shape[1], dtype=torch.float64)
    for part in points.split(_CHUNK):
        total += part.sum(0)
    return (total / len(points)).float()
