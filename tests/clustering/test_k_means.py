"""scikit-learn's k-means on tensors, and Lloyd's algorithm."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info, threadpool_limits

from fedkin.clustering.k_means import distance_margin, k_means, lloyd_of_sets


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_it_is_scikit_learns():
    points = torch.randn(200, 5, generator=generator())
    centres, labels = k_means(points, points[:4], generator())
    expected = KMeans(4, init=points[:4].numpy(), n_init=1).fit(points.numpy())
    np.testing.assert_allclose(centres, expected.cluster_centers_, rtol=1e-5)
    np.testing.assert_array_equal(labels, expected.labels_)
    assert labels.dtype == torch.int64


def test_weights_are_repetitions():
    points, weights = torch.tensor([[0.0], [1.0], [10.0]]), torch.tensor([3, 1, 2])
    found = k_means(points, 2, generator(), weights=weights).centres
    assert sorted(found.flatten().tolist()) == pytest.approx([0.25, 10.0])
    assert len(k_means(torch.ones(3, 1), 2, generator(), weights=torch.ones(3)).centres) == 1


def test_points_that_only_rounding_tells_apart_are_one():
    rng = generator()
    base = torch.randn(4, 50, generator=rng)
    points = base.repeat(30, 1).double() * (1 + 1e-8 * torch.randn(120, 1, generator=rng, dtype=torch.float64))
    centres, labels = k_means(points, 10, generator())
    assert len(centres) == 4
    assert labels.unique().numel() == 4


def test_lloyd_is_scikit_learns_too():
    points = torch.randn(1500, 8, generator=generator()) + 50.0
    found = lloyd_of_sets(points[None], points[None, :6], None).only
    expected = KMeans(6, init=points[:6].numpy(), n_init=1).fit(points.numpy())
    np.testing.assert_allclose(found.centres, expected.cluster_centers_, atol=1e-3)
    assert (found.labels.numpy() == expected.labels_).mean() > 0.999


def test_sums_are_taken_on_one_thread(monkeypatch):
    threads = []

    class Watched(KMeans):
        def fit(self, *arguments, **named):
            threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
            return super().fit(*arguments, **named)

    monkeypatch.setattr("fedkin.clustering.k_means.KMeans", Watched)
    with threadpool_limits(2, user_api="openmp"):
        k_means(torch.randn(50, 3, generator=generator()), 3, generator())
    assert set(threads) == {1}


def drawn(n: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, width, generator=torch.Generator().manual_seed(seed))


def test_a_point_at_its_cluster_is_sure_and_one_halfway_is_not():
    distances = torch.tensor([[0.0, 2.0, 5.0], [1.0, 1.0, 5.0], [3.0, 1.0, 2.0], [0.0, 0.0, 1.0]])
    assert distance_margin(distances).tolist() == [1.0, 0.0, 0.5, 0.0]
    assert distance_margin(distances, torch.tensor([0, 0, 0, 2])).tolist() == [1.0, 0.0, 0.0, 0.0]


@given(
    st.lists(st.lists(st.just(0.0) | st.floats(1e-3, 1e6), min_size=3, max_size=3), min_size=1), st.floats(1e-3, 1e3)
)
def test_margins_do_not_depend_on_the_unit(rows, unit):
    distances = torch.tensor(rows, dtype=torch.float64)
    margin = distance_margin(distances)
    assert ((margin >= 0) & (margin <= 1)).all()
    assert torch.allclose(distance_margin(distances * unit), margin, atol=1e-5)
