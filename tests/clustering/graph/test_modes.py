"""Clusters on a line are the modes of its density."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedkin.clustering.graph.modes import clusters_by_modes
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.seeds import derive_generator

Floats = NDArray[np.float64]


def found(points: Floats, counts: Floats | None = None, number: int | None = None) -> NDArray[np.int64]:
    samples = np.ones(len(points)) if counts is None else counts
    counted = torch.from_numpy(samples).long()
    return clusters_by_modes(torch.from_numpy(points), counted, number, derive_generator(0))[0].numpy()


def mixture(means: list[float], rows: int, seed: int, shares: list[float] | None = None) -> tuple[Floats, Floats]:
    """Rows of normal clusters with variance 1, and the cluster of each."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(means), rows, p=shares)
    return rng.normal(size=rows) + np.array(means)[truth], truth


@pytest.mark.parametrize("means", [[0.0, 4.0], [0.0, 4.0, 8.0], [0.0, 5.0, 10.0, 15.0, 20.0]])
def test_modes_are_clusters(means):
    right = [adjusted_rand(truth, found(x)) for x, truth in (mixture(means, 900, seed) for seed in range(3))]
    assert min(right) > 0.85


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=800),
        lambda rng: rng.random(800),
        lambda rng: rng.exponential(size=800),
        lambda rng: rng.lognormal(0, 0.7, 800),
        lambda rng: rng.poisson(8, 800).astype(float),
    ],
    ids=["normal", "even", "exponential", "lognormal", "counts"],
)
def test_a_single_mode_is_one_cluster(draw: Callable[[np.random.Generator], Floats]):
    """Of even densities some are cut; points are means of five samples, as micro-clusters are."""
    drawn = [np.sort(draw(np.random.default_rng(seed))).reshape(-1, 5).mean(1) for seed in range(12)]
    assert sum(found(x, np.full(len(x), 5)).max() > 0 for x in drawn) <= 2


def test_values_of_a_grid_are_no_modes():
    x = np.arange(12.0)
    counts = np.round(200 * np.exp(-((x - 3) ** 2) / 3) + 100 * np.exp(-((x - 9) ** 2) / 2)) + 1
    assert found(x, counts).tolist() == [0] * 7 + [1] * 5
    assert found(np.arange(1.0, 6.0), np.array([40, 160, 300, 200, 60])).max() == 0, "answers from 1 to 5"
    _, evidence = clusters_by_modes(torch.from_numpy(x), torch.from_numpy(counts).long(), None, derive_generator(0))
    assert evidence["clusters_found"] == sorted(set(evidence["clusters_found"])), "each number is listed once"


def test_places_far_apart_have_no_modes_between_them():
    places, rows = [-1.58, -0.69, -0.24, -0.16, 0.64, 1.17], [370, 67, 197, 218, 92, 556]
    points, counts = np.repeat(places, 3) + np.tile([0, 1e-7, 2e-7], 6), np.repeat(rows, 3) / 3
    assert [int(found(points, counts, number).max()) + 1 for number in (2, 3, 6)] == [2, 3, 6]
    assert found(points, counts).max() < 6
