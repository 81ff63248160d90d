"""Distances, duplicates, nearest centroids and votes."""

import pytest
import torch

from fedkin.clustering.nearest import (
    nearest_centroids,
)
from fedkin.clustering.search_device import WORTH_A_DEVICE, place_of_search, rows_at_once
from fedkin.core.device import on


def test_the_nearest_centroid_is_right_far_from_the_origin():
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    centroids = torch.tensor([[-10.0] * 4, [10.0] * 4])
    near = nearest_centroids(x + centroids[torch.arange(200) % 2], centroids)
    assert torch.equal(near, torch.arange(200) % 2)
    assert torch.equal(nearest_centroids(x + centroids[torch.arange(200) % 2] + 1e5, centroids + 1e5), near)


def test_the_lowest_of_equal_centroids_is_the_nearest_however_many_there_are():
    points = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(nearest_centroids(points, torch.cat([points, points])), torch.arange(300))


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
