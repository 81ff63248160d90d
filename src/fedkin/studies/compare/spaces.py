"""Where samples are looked at to judge clusters without truth: features that no training made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.features.extractors import extract, suited

MOST = 2000
"""Samples that are looked at."""
_COMPONENTS = 30
_OF_ALL, _OF_SITE = 15, 10
"""Nearest neighbours among the samples of all clients, and among those of a sample's own client."""

SamplePoints = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class NeighbourLinks:
    """From samples to near ones, as places among the samples that are looked at.

    Attributes
    ----------
    here, there : ndarray
        int64 ``(links,)``.
    """

    here: Places
    there: Places


@dataclass(frozen=True)
class Space:
    """Some samples of all clients as points.

    Attributes
    ----------
    rows : ndarray
        int64 ``(m,)``, in order: which of the samples of all clients they are.
    points : ndarray
        float64 ``(m, width)``.
    links : tuple of Links
        To the nearest neighbours of all clients, and to the nearest of the same client.
    """

    rows: Places
    points: SamplePoints
    links: tuple[NeighbourLinks, NeighbourLinks]


def space_of(population: Population, seed: int, most: int = MOST) -> Space:
    """At most `most` samples of all clients together, drawn by `seed`, by the features that suit them.

    These are `fedkin.features.extractors.suited`: edges of images of 8 x 8 or more, and numbers as they are else, which
    are prepared as methods see them. The 30 principal components that vary most are taken.
    """
    ends = [0, *accumulate(len(client) for client in population.clients)]
    rows = torch.randperm(ends[-1], generator=derive_generator(seed, "comparison"))[:most].sort().values
    own = [rows[(rows >= start) & (rows < end)] - start for start, end in pairwise(ends)]
    x = torch.cat([client.x[part] for client, part in zip(population.clients, own, strict=True)])
    return space_of_points(rows.numpy(), points_of(x), [len(part) for part in own])


def space_of_points(rows: Places, points: SamplePoints, sizes: Sequence[int]) -> Space:
    """Points, client after client, with `sizes` of them each, linked to their neighbours."""
    starts = [0, *accumulate(sizes)]
    within = [_near(points, np.arange(start, end), _OF_SITE) for start, end in pairwise(starts)]
    at_client = NeighbourLinks(*(np.concatenate([getattr(one, end) for one in within]) for end in ("here", "there")))
    return Space(rows, points, (_near(points, np.arange(len(points)), _OF_ALL), at_client))


def points_of(x: Tensor) -> SamplePoints:
    """Samples by the features that suit them, at most 30 principal components."""
    values = extract(suited(tuple(x.shape[1:])), x).double().numpy()
    width = min(_COMPONENTS, *values.shape)
    return PCA(width, svd_solver="full").fit_transform(values) if values.shape[1] > width else values


def _near(points: SamplePoints, members: Places, count: int) -> NeighbourLinks:
    """Links from each of `members` to its `count` nearest others of them, or to all where they are fewer."""
    count = min(count, len(members) - 1)
    if count < 1:
        return NeighbourLinks(members[:0], members[:0])
    found = NearestNeighbors(n_neighbors=count).fit(points[members]).kneighbors(return_distance=False)
    return NeighbourLinks(np.repeat(members, count), members[found].ravel())
