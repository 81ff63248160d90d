"""Feature space in which clusters are scored without truth; its features are not learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from sklearn.decomposition import PCA
from torch import Tensor

from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.data.blocks import blocks_of, common_blocks
from fedkin.data.population import Population
from fedkin.features.extractors import extract, suited
from fedkin.features.flat_images import are_flat_images
from fedkin.features.shared_variation import shared_basis
from fedkin.studies.compare.neighbour_links import KappaFloor, NeighbourLinks, Places, SamplePoints, floors_of, linked

MAX_SAMPLES = 2000
"""Samples that are looked at."""
_COMPONENTS = 30


@dataclass(frozen=True)
class Space:
    """Subset of all clients' samples as points ``(m, width)`` in feature space, with links to their neighbours.

    `rows` ``(m,)``, ascending, are positions in the samples of all clients. `links` are to the nearest neighbours of
    all clients, and to the nearest of the same client; `floors`, of both kinds, are the kappa of clusters of points
    without structure.
    """

    rows: Places
    points: SamplePoints
    links: tuple[NeighbourLinks, NeighbourLinks]
    floors: tuple[KappaFloor, KappaFloor] = (KappaFloor(), KappaFloor())


def space_of(population: Population, seed: int, limit: int = MAX_SAMPLES) -> Space:
    """Draw at most `limit` samples of all clients by `seed`, and compute the features that suit them.

    These are `fedkin.features.extractors.suited`: edges of images of 8 x 8 or more, also if their pixels are columns,
    else the prepared numbers themselves, of discrete columns what they share with others. The 30 principal components
    of largest variance are kept.
    """
    ends = [0, *accumulate(len(client) for client in population.clients)]
    rows = torch.randperm(ends[-1], generator=derive_generator(seed, "comparison"))[:limit].sort().values
    own = [rows[(rows >= start) & (rows < end)] - start for start, end in pairwise(ends)]
    x = torch.cat([client.x[part] for client, part in zip(population.clients, own, strict=True)])
    features = suited(tuple(x.shape[1:]), are_flat_images(x) is True)
    if x.ndim == 2 and features == "raw":
        x = _without_grid(x, population.clients)
    return space_of_points(rows.numpy(), points_of(x, features), [len(part) for part in own])


def _without_grid(x: Tensor, clients: Sequence[Client]) -> Tensor:
    """Replace discrete columns of ``(m, width)`` by what they share with others, see `shared_basis`."""
    blocks = common_blocks([blocks_of(client) for client in clients], x.shape[1])
    if not (blocks >= 0).any():
        return x
    x = x.double()
    return x @ shared_basis(x.T.cov(correction=0), len(x), blocks)


def space_of_points(
    rows: Places,
    points: SamplePoints,
    sizes: Sequence[int],
    floors: tuple[KappaFloor, KappaFloor] | None = None,
    allows_small: bool = True,
) -> Space:
    """Build a space from points, client after client, with `sizes` of them each.

    `floors` are by default those of the points themselves. `allows_small` is as for `linked`.
    """
    links = linked(points, sizes, allows_small)
    return Space(rows, points, links, floors or floors_of(points, sizes, allows_small))


def points_of(x: Tensor, features: str) -> SamplePoints:
    """Compute at most 30 principal components of samples' `features`, see `fedkin.features.extractors.extract`."""
    values = extract(features, x).double().numpy()
    width = min(_COMPONENTS, *values.shape)
    return PCA(width, svd_solver="full").fit_transform(values) if values.shape[1] > width else values
