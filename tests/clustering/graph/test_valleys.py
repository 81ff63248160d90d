"""Clusters that touch are divided where the density has a valley, and single clouds are not."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedkin.clustering.graph.valleys import clusters_by_valleys
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.seeds import derive_generator

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]


def divided(x: Floats, counts: Floats | None = None, seed: int = 0) -> tuple[NDArray[np.int64], dict[str, object]]:
    samples = torch.ones(len(x), dtype=torch.int64) if counts is None else torch.from_numpy(counts).long()
    points, one = torch.from_numpy(x).float(), torch.zeros(len(x), dtype=torch.int64)
    clusters, evidence = clusters_by_valleys(points, samples, one, {"stability": 1.0}, derive_generator(seed))
    return clusters.numpy(), evidence


def touching(centres: list[list[float]], rows: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """Rows of normal clusters with variance 1, and the cluster of each."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(len(centres), size=rows)
    return rng.normal(size=(rows, len(centres[0]))) + np.array(centres)[truth], truth


@pytest.mark.parametrize(
    "centres",
    [[[0.0, 0.0], [4.0, 0.0]], [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0]], [[0.0, 0.0], [5.0, 0.0], [2.5, 4.3]]],
    ids=["two in a plane", "two in space", "three in a plane"],
)
def test_touching_clusters_are_divided(centres):
    for seed in range(3):
        x, truth = touching(centres, 600, seed)
        clusters, evidence = divided(x)
        assert adjusted_rand(truth, clusters) > 0.7
        assert evidence["valley"] < 0.85
        assert evidence["stability"] >= 0.85


def ring(rng: np.random.Generator, rows: int) -> Floats:
    angle = rng.uniform(0, 2 * np.pi, rows)
    return np.stack([np.cos(angle), np.sin(angle)], 1) + 0.15 * rng.normal(size=(rows, 2))


def moon(rng: np.random.Generator, rows: int) -> Floats:
    angle = rng.uniform(0, np.pi, rows)
    return np.stack([np.cos(angle), np.sin(angle)], 1) + 0.15 * rng.normal(size=(rows, 2))


CLOUDS: dict[str, Draw] = {
    "normal": lambda rng, rows: rng.normal(size=(rows, 2)),
    "even": lambda rng, rows: rng.random((rows, 3)),
    "long": lambda rng, rows: rng.random((rows, 2)) * [10.0, 1.0],
    "skewed": lambda rng, rows: np.exp(rng.normal(size=(rows, 2))),
    "heavy tails": lambda rng, rows: rng.normal(size=(rows, 2)) * np.where(rng.random((rows, 1)) < 0.3, 4, 1),
    "ring": ring,
    "moon": moon,
}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_single_cloud_stays_whole(cloud):
    for seed in range(4):
        for rows in (60, 300):
            clusters, evidence = divided(CLOUDS[cloud](np.random.default_rng(seed), rows), seed=seed)
            assert not clusters.any()
            assert evidence == {"stability": 1.0}


def test_samples_count_and_not_nodes():
    """A valley of heavy nodes is none."""
    x, _ = touching([[0.0, 0.0], [4.0, 0.0]], 400, 0)
    between = np.abs(x[:, 0] - 2.0) < 0.8
    assert divided(x)[0].any()
    assert not divided(x, np.where(between, 3.0, 1.0))[0].any()
