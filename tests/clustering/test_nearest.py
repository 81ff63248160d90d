"""Distances, duplicates, nearest centroids and votes."""

import pytest
import torch

from fedkin.clustering.k_means import weighted_lloyd
from fedkin.clustering.nearest import (
    drop_duplicates,
    nearest_centroids,
    nearest_neighbours,
    neighbours_vote,
    pairwise_distances,
)
from fedkin.clustering.node_votes import nearest_nodes
from fedkin.clustering.search_device import WORTH_A_DEVICE, place_of_search, rows_at_once
from fedkin.core.device import on


def test_equal_points_are_exactly_at_distance_zero():
    points = torch.randn(30, 50, generator=torch.Generator().manual_seed(0)) + 1e3
    assert pairwise_distances(points, points).diagonal().tolist() == [0.0] * 30


def test_duplicates_are_dropped():
    points = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.1], [1.0, 2.0]])
    assert torch.equal(drop_duplicates(points), points[[0, 2]])


def test_the_nearest_centroid_is_that_of_least_distance():
    rng = torch.Generator().manual_seed(0)
    points, centroids = torch.randn(40, 3, generator=rng), torch.randn(5, 3, generator=rng)
    assert torch.equal(nearest_centroids(points, centroids), torch.cdist(points, centroids).argmin(1))


def test_the_nearest_centroid_is_right_far_from_the_origin():
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    centroids = torch.tensor([[-10.0] * 4, [10.0] * 4])
    near = nearest_centroids(x + centroids[torch.arange(200) % 2], centroids)
    assert torch.equal(near, torch.arange(200) % 2)
    assert torch.equal(nearest_centroids(x + centroids[torch.arange(200) % 2] + 1e5, centroids + 1e5), near)


def test_the_largest_sum_of_weights_wins_a_vote_and_the_lowest_label_a_tie():
    labels = torch.tensor([[2, 1, 1], [2, 1, 1], [3, 0, 2]])
    weights = torch.tensor([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert neighbours_vote(labels, weights, 4).tolist() == [1, 2, 0]


def test_neighbours_are_those_of_least_distance_without_the_point_itself():
    points = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    among = torch.arange(50, 150)
    for rows in (torch.arange(200), torch.tensor([3, 60, 140])):
        distances = torch.cdist(points[rows].double(), points[among].double())
        distances[rows[:, None] == among] = torch.inf
        assert torch.equal(nearest_neighbours(points, rows, among, 7), distances.argsort(1)[:, :7])


def test_the_lowest_of_equal_centroids_is_the_nearest_however_many_there_are():
    points = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(nearest_centroids(points, torch.cat([points, points])), torch.arange(300))


def test_few_distances_are_computed_on_the_processor():
    """A device without memory would give no numbers."""
    points = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    every, centres = torch.arange(300), points[:20]

    def found() -> list[torch.Tensor]:
        lloyd = weighted_lloyd(points, torch.ones(300), centres, 3)
        near = nearest_centroids(points, centres), nearest_neighbours(points, every, every, 5)
        return [lloyd, *near, *nearest_nodes(centres, points)]

    here = found()
    with on(torch.device("meta")):
        assert all(torch.equal(one, other) for one, other in zip(here, found(), strict=True))


def test_a_search_goes_to_the_device_if_it_is_large_enough_and_fits(monkeypatch: pytest.MonkeyPatch):
    rows, meta = WORTH_A_DEVICE // 1024, torch.device("meta")
    with place_of_search(rows, 1024) as where:
        assert where.type == "cpu"
    monkeypatch.setattr("fedkin.core.device._ASSUMED", 1 << 20)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with on(meta):
            for asked, held, place in ((rows, 0, "meta"), (rows - 1, 0, "cpu"), (rows, 1 << 20, "cpu")):
                with place_of_search(asked, 1024, held) as where:
                    assert where.type == place
                    assert torch.get_float32_matmul_precision() == ("high" if place == "cpu" else "highest")
            assert torch.get_float32_matmul_precision() == "high"
            assert rows_at_once(1024, torch.zeros(0)) == 64
            assert rows_at_once(1 << 20, torch.zeros(0)) == 1
    finally:
        torch.set_float32_matmul_precision(precision)
