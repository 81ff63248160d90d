"""Clustering of made-up embeddings with planted clusters."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score
from torch import Tensor

from fedkin.clustering import ward
from fedkin.methods.clients.one_shot import tree_cuts
from fedkin.methods.clients.one_shot.tree_cuts import Clustering, admissible, cluster


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


# beyond the limit


@pytest.mark.parametrize("mode", ["bayes", "exact", "gap"])
def test_clusters_are_found_by_a_sample(mode):
    points, truth = planted([300, 200, 60, 40], flips=0.1)
    with beyond(400, 200):
        assert agreement(cluster(points, mode, 20, rng()), truth) == 1.0
