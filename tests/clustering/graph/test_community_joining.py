"""Communities that are joined: by hand where links can be counted, and where shapes are known."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.clustering.graph.community_joining import join_similar, join_to


def found(x, seed=0):
    """kin-graph's clusters of what two clients hold, and what it recorded of them."""
    parts = np.array_split(np.random.default_rng(seed).permutation(len(x)), 2)
    model = fedkin.KinGraph(random_state=seed).fit([x[part].astype(np.float32) for part in parts])
    clusters = np.empty(len(x), dtype=np.int64)
    clusters[np.concatenate(parts)] = np.concatenate(model.labels_)
    return clusters, model.records_[-1]


def ladder(length, rungs=()):
    """A strip of nodes two wide, with fewer links where `rungs` says."""
    links = np.zeros((2 * length, 2 * length))
    for place in range(length - 1):
        weight = dict(rungs).get(place, 1.0)
        for a, b in itertools.product((0, 1), repeat=2):
            links[2 * place + a, 2 * place + 2 + b] = weight
    return sparse.csr_matrix(links + links.T)


@pytest.mark.parametrize("seed", range(4))
def test_a_square_is_one_cluster(seed):
    clusters, _ = found(np.random.default_rng(seed).random((3000, 2)), seed)
    assert set(clusters.tolist()) == {0}


def test_many_small_clusters_on_a_grid_are_not_joined():
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), -1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    truth = rng.integers(len(grid), size=4000)
    clusters, _ = found(grid[truth] + rng.normal(scale=0.15, size=(4000, 2)))
    assert adjusted_rand_score(truth, clusters) > 0.95


@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_bent_clusters_are_followed(make):
    options = {"noise": 0.06} if make is make_moons else {"noise": 0.05, "factor": 0.5}
    points, truth = make(10_000, random_state=0, **options)
    clusters, _ = found(points)
    assert clusters.max() == 1
    assert adjusted_rand_score(truth, clusters) > 0.99


def test_stretches_of_one_line_are_joined_unless_links_are_missing_between():
    halves = np.repeat([0, 1], 20)
    assert join_similar(ladder(20), [halves])[0].tolist() == [0] * 40
    assert join_similar(ladder(20, [(9, 0.6)]), [halves])[0].tolist() == [0] * 40
    assert join_similar(ladder(20, [(9, 0.4)]), [halves])[0].tolist() == halves.tolist()


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_joining_only_joins(seed, communities_before, wanted):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((60, 60)) * (rng.random((60, 60)) < 0.2), 1)
    graph = sparse.csr_matrix(links + links.T)
    labels = np.concatenate([np.arange(communities_before), rng.integers(communities_before, size=60)])[:60]
    joined = join_to(graph, labels, wanted, rng.normal(size=(60, 2)), rng.integers(1, 9, size=60).astype(float))
    for after in (*join_similar(graph, [labels]), joined):
        assert sorted(set(after.tolist())) == list(range(after.max() + 1))
        for community in range(communities_before):
            assert len(set(after[labels == community].tolist())) == 1
    assert joined.max() + 1 == min(wanted, communities_before)
