"""Clusters of nodes by density, where there are gaps between them."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fedkin
from fedkin.clustering.graph.dense_nodes import density_clusters
from fedkin.clustering.metrics import adjusted_rand


def clusters(points: NDArray[np.float64], samples: NDArray[np.float64]) -> NDArray[np.int64] | None:
    return density_clusters(torch.from_numpy(points), torch.from_numpy(samples))


def lines(nodes: int, apart: float) -> NDArray[np.float64]:
    """Two parallel lines of evenly spaced points."""
    along = np.linspace(0.0, 10.0, nodes)
    return np.concatenate([np.c_[along, 0.0 * along], np.c_[along, 0.0 * along + apart]])


def test_long_clusters_are_found_by_the_gap_between_them():
    found = clusters(lines(20, 2.0), np.ones(40))
    assert found is not None
    assert sorted(np.bincount(found)) == [20, 20]
    assert len(set(found[:20])) == len(set(found[20:])) == 1


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("kind", ["normal", "box"])
def test_single_clouds_are_mostly_left_alone(kind, columns):
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=(200, columns)) if kind == "normal" else rng.random((200, columns)) for _ in range(20)]
    assert sum(clusters(cloud, np.ones(200)) is not None for cloud in drawn) <= 1


def arcs(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """400 samples of two arcs that reach into each other, a quarter of them of one."""
    rng = np.random.default_rng(seed)
    truth, turn = np.arange(400) % 4 // 3, rng.uniform(0, np.pi, 400)
    one, other = np.c_[np.cos(turn), np.sin(turn)], np.c_[1 - np.cos(turn), 0.3 - np.sin(turn)]
    return np.where(truth[:, None] == 0, one, other) + 0.06 * rng.standard_normal((400, 2)), truth


@pytest.mark.parametrize("seed", [0, 1, 3])
@pytest.mark.parametrize("clients", [1, 3])
def test_two_arcs_of_few_samples_are_two_clusters(clients, seed):
    """Communities are pieces of arcs, or all of both."""
    x, truth = arcs(seed)
    model = fedkin.KinGraph(random_state=0).fit(np.array_split(x, clients))
    assert adjusted_rand(truth, np.concatenate(model.labels_)) > 0.95
    assert model.records_[-1]["by_density"]


@pytest.mark.parametrize("clients", [1, 3])
def test_a_number_that_density_shows_has_its_clusters(clients):
    x, truth = arcs(3)
    parts = np.array_split(x, clients)
    model = fedkin.KinGraph(n_clusters=2, random_state=0).fit(parts)
    assert adjusted_rand(truth, np.concatenate(model.labels_)) > 0.95
    assert model.records_[-1]["by_density"]
    found = fedkin.KinGraph(random_state=0).fit(parts)
    assert [labels.tolist() for labels in found.cut(2).labels_] == [labels.tolist() for labels in model.labels_]
    assert found.cut(5).n_clusters_ == 5
