"""Clustering of made-up embeddings with planted clusters."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score
from torch import Tensor

from fedkin.clustering import ward
from fedkin.methods.clients.one_shot import tree_cuts
from fedkin.methods.clients.one_shot.tree_cuts import Clustering, admissible, cluster, tried_thresholds


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def planted(sizes: list[int], bits: int = 200, flips: float = 0.1, seed: int = 0) -> tuple[Tensor, list[int]]:
    """Bits of clusters with random centres, flipped, in a shuffled order; and the clusters."""
    draws = rng(seed)
    truth = torch.tensor([number for number, size in enumerate(sizes) for _ in range(size)])
    truth = truth[torch.randperm(len(truth), generator=draws)]
    centres = torch.rand(len(sizes), bits, generator=draws) < 0.5
    noise = torch.rand(len(truth), bits, generator=draws) < flips
    return (centres[truth] ^ noise).to(torch.uint8), truth.tolist()


def agreement(found: Clustering, truth: list[int]) -> float:
    return float(adjusted_rand_score(truth, found.labels.tolist()))


@contextmanager
def beyond(limit: int, sample: int) -> Iterator[None]:
    """Trees of a sample beyond another number of clients."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_cuts, "_LIMIT", limit)
        patch.setattr(tree_cuts, "_SAMPLE", sample)
        yield


# the tree


def test_distances_are_those_of_scipy():
    bits, _ = planted([7, 9, 4])
    assert (ward.distances(bits.numpy().astype(np.float32)) == pdist(bits.numpy().astype(float))).all()
    numbers = torch.randn(30, 6, generator=rng(), dtype=torch.float64).numpy()
    np.testing.assert_allclose(ward.distances(numbers), pdist(numbers), rtol=1e-9)


def test_distances_are_the_same_in_blocks(monkeypatch):
    bits = planted([7, 9, 4])[0].numpy().astype(np.float32)
    whole = ward.distances(bits)
    monkeypatch.setattr(ward, "_BLOCK", 6)
    assert (ward.distances(bits) == whole).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(5, 40), st.integers(2, 12), st.integers(0, 10_000))
def test_every_cut_of_the_tree_is_scored_as_scikit_learn_does(n, d, seed):
    numbers = torch.randn(n, d, generator=rng(seed), dtype=torch.float64).numpy()
    tree = ward.ward_tree(numbers)
    index = tree.calinski_harabasz()
    assert np.isnan(index[[0, -1]]).all()
    for done in range(1, n - 1):
        labels = tree.labels(done)
        assert len(set(labels.tolist())) == n - done
        assert index[done] == pytest.approx(calinski_harabasz_score(numbers, labels))
        assert tree.too_small(3)[done] == (np.bincount(labels) < 3).sum()


def test_cuts_of_the_tree_are_those_of_scikit_learn():
    bits, _ = planted([12, 9, 15], flips=0.2)
    numbers = bits.numpy().astype(np.float64)
    tree = ward.ward_tree(numbers)
    for threshold in (9.0, 9.5, 12.0, 18.0):
        theirs = AgglomerativeClustering(None, distance_threshold=threshold).fit_predict(numbers)
        ours = tree.labels(int(np.searchsorted(tree.heights, threshold)))
        assert adjusted_rand_score(theirs, ours) == 1.0


# clusters


@pytest.mark.parametrize("mode", ["bayes", "exact", "gap"])
@pytest.mark.parametrize("flips", [0.0, 0.1, 0.2])
def test_planted_clusters_are_found(mode, flips):
    points, truth = planted([25, 25, 25, 25], flips=flips)
    found = cluster(points, mode, 10, rng())
    assert found.separable
    assert agreement(found, truth) == 1.0
    assert found.labels.dtype == torch.int64
    assert found.labels[0] == 0
    assert found.cut is not None
    assert found.heights[2] > found.cut > found.heights[3]


@pytest.mark.parametrize("mode", ["exact", "gap"])
@pytest.mark.parametrize("sizes", [[20, 20], [50, 30, 15, 5], [4, 4], [30] * 7])
def test_other_numbers_and_sizes_of_clusters_are_found(mode, sizes):
    points, truth = planted(sizes)
    assert agreement(cluster(points, mode, 3, rng()), truth) == 1.0


@pytest.mark.parametrize("mode", ["exact", "gap"])
@pytest.mark.parametrize("n", [40, 100])
@pytest.mark.parametrize("flips", [0.0, 0.1, 0.5])
def test_one_population_is_nearly_always_one_cluster(mode, n, flips):
    separable = 0
    for seed in range(6):
        found = cluster(planted([n], flips=flips, seed=seed)[0], mode, 3, rng(seed))
        separable += found.separable
        assert found.separable or found.labels.tolist() == [0] * n
        assert found.separable or found.cut is None
    assert separable <= 1


def test_many_clients_of_one_population_are_one_cluster():
    found = cluster(planted([900], flips=0.3)[0], "exact", 3, rng())
    assert not found.separable


@pytest.mark.parametrize("mode", ["exact", "gap"])
def test_an_odd_client_joins_a_cluster_instead_of_preventing_them(mode):
    points, truth = planted([50, 49])
    odd = (torch.rand(1, points.shape[1], generator=rng(9)) < 0.5).to(torch.uint8)
    found = cluster(torch.cat([odd, points]), mode, 10, rng())
    assert adjusted_rand_score(truth, found.labels[1:].tolist()) == 1.0
    assert len(found.labels.unique()) == 2


def test_no_cluster_is_below_the_least_size():
    points, _ = planted([40, 30, 6], flips=0.1)
    assert cluster(points, "exact", 6, rng()).labels.bincount().sort().values.tolist() == [6, 30, 40]
    assert cluster(points, "exact", 7, rng()).labels.bincount().min() >= 30


def test_means_are_clustered_as_bits_are():
    points, truth = planted([20, 30, 25])
    numbers = points.float() * 3 + 100 + 0.1 * torch.randn(points.shape, generator=rng())
    assert agreement(cluster(numbers, "exact", 5, rng()), truth) == 1.0


def test_refining_repairs_what_the_tree_got_wrong(monkeypatch):
    points, truth = planted([60, 60, 60], bits=120, flips=0.3, seed=1)
    refined = agreement(cluster(points, "exact", 10, rng()), truth)
    monkeypatch.setattr("fedkin.clustering.nearest_means._REFINEMENTS", 0)
    assert refined > agreement(cluster(points, "exact", 10, rng()), truth)


@pytest.mark.parametrize("mode", ["exact", "gap"])
@pytest.mark.parametrize("limit", [1000, 50])
@settings(max_examples=4, deadline=None)
@given(order=st.permutations(range(60)), seed=st.integers(0, 100))
def test_the_order_of_clients_does_not_matter(mode, limit, order, seed):
    points, _ = planted([20, 25, 15], seed=seed)
    with beyond(limit, 40):
        there, back = cluster(points, mode, 5, rng(seed)), cluster(points[list(order)], mode, 5, rng(seed))
    assert adjusted_rand_score(there.labels[list(order)].tolist(), back.labels.tolist()) == 1.0


@pytest.mark.parametrize("limit", [1000, 50])
def test_the_same_seed_gives_the_same_clusters(limit):
    points, _ = planted([20, 25, 15], flips=0.3)
    with beyond(limit, 40):
        once, again = (cluster(points, "gap", 5, rng(3)) for _ in range(2))
    assert once.labels.tolist() == again.labels.tolist()
    assert (once.noise, once.heights) == (again.noise, again.heights)


# the paper's objective


def test_the_paper_s_optimum_is_that_over_all_cuts():
    points, _ = planted([15, 10, 12, 14], flips=0.25, seed=2)
    numbers = points.numpy().astype(float)
    found = cluster(points, "exact", 4, rng(), objective="paper")
    scores = {}
    for clusters in range(3, len(points)):
        labels = AgglomerativeClustering(clusters).fit_predict(numbers)
        if np.bincount(labels).min() >= 4:
            scores[clusters] = -calinski_harabasz_score(numbers, labels)
    assert int(found.labels.max()) + 1 == max(scores, key=scores.get)
    assert np.nanmax(admissible(ward.ward_tree(numbers), 4)) == pytest.approx(max(scores.values()))


def test_the_search_begins_with_the_authors_thresholds(monkeypatch):
    tried, values = [], []

    def remembered(value, low, high):
        tried.extend(tried_thresholds(value, low, high))
        values.extend(map(value, tried))
        return tried

    monkeypatch.setattr(tree_cuts, "tried_thresholds", remembered)
    points, _ = planted([25, 25, 25, 25])
    found = cluster(points, "bayes", 10, rng())
    assert len(tried) == 35
    assert tried[0] == pytest.approx(42.3, abs=0.05)
    lowest = [1.0, 3.7, 4.9, 9.4, 10.1, 14.9, 15.5, 17.8, 19.4, 20.6, 21.2, 30.9, 32.0, 35.2, 40.3, 42.3, 42.3, 42.5]
    assert sorted(tried[:30])[:18] == pytest.approx(lowest, abs=0.06)
    assert found.cut == tried[int(np.argmax(values))]


def test_the_search_has_no_answer_where_it_tried_no_admissible_cut(monkeypatch):
    monkeypatch.setattr(tree_cuts, "_THRESHOLDS", (60.0, 100.0))
    points, _ = planted([25, 25, 25, 25])
    found = cluster(points, "bayes", 10, rng())
    assert not found.separable
    assert found.labels.tolist() == [0] * 100


def test_the_search_takes_an_admissible_cut_even_if_its_index_is_above_the_penalty():
    points, truth = planted([90, 90, 90], flips=0.02)
    found = cluster(points, "bayes", 10, rng())
    assert np.nanmax(admissible(ward.ward_tree(points.numpy().astype(np.float32)), 10)) < -500
    assert agreement(found, truth) == 1.0


@pytest.mark.parametrize("mode", ["bayes", "exact", "gap"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_clients_are_one_cluster(mode, n):
    found = cluster(planted([n])[0], mode, 3, rng())
    assert not found.separable
    assert found.labels.tolist() == [0] * n


@pytest.mark.parametrize("mode", ["bayes", "exact", "gap"])
def test_equal_clients_are_one_cluster(mode):
    found = cluster(torch.ones(20, 8), mode, 3, rng())
    assert not found.separable


# beyond the limit


@pytest.mark.parametrize("mode", ["bayes", "exact", "gap"])
def test_clusters_are_found_by_a_sample(mode):
    points, truth = planted([300, 200, 60, 40], flips=0.1)
    with beyond(400, 200):
        assert agreement(cluster(points, mode, 20, rng()), truth) == 1.0


def test_one_population_is_one_cluster_by_a_sample():
    points, _ = planted([1500], bits=100)
    with beyond(1000, 300):
        assert not cluster(points, "exact", 20, rng()).separable
