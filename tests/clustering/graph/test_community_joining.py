"""Communities that are joined: by hand where links can be counted, and where shapes are known."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_blobs, make_circles, make_moons, make_s_curve
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.clustering.graph.community_joining import _halving_links, join_similar, join_to


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


def test_a_single_sheet_is_one_cluster():
    clusters, _ = found(make_s_curve(10_000, noise=0.05, random_state=0)[0])
    assert set(clusters.tolist()) == {0}


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


def test_in_many_dimensions_nothing_is_joined():
    sheet = make_s_curve(10_000, noise=0.05, random_state=0)[0]
    also = np.random.default_rng(0).normal(size=(len(sheet), 1))
    assert found(np.hstack([sheet, 0.05 * also]))[0].max() > 0


@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_bent_clusters_are_followed(make):
    options = {"noise": 0.06} if make is make_moons else {"noise": 0.05, "factor": 0.5}
    points, truth = make(10_000, random_state=0, **options)
    clusters, _ = found(points)
    assert clusters.max() == 1
    assert adjusted_rand_score(truth, clusters) > 0.99


def test_clusters_that_are_apart_stay_apart():
    points, truth = make_blobs(1000, 2, centers=4, random_state=1)
    clusters, _ = found(points)
    assert clusters.max() == 3
    assert adjusted_rand_score(truth, clusters) > 0.9


def test_the_fewest_links_between_halves_are_found():
    everyone = np.ones(40, dtype=bool)
    assert _halving_links(ladder(20), everyone) == pytest.approx(4.0)
    assert _halving_links(ladder(20, [(8, 0.25)]), everyone) == pytest.approx(1.0)
    # Off the middle half a thin place does not halve anything.
    assert _halving_links(ladder(20, [(1, 0.25)]), everyone) == pytest.approx(4.0)


def test_many_nodes_are_halved_as_few_are():
    for length in (450, 550, 1500):
        everyone = np.ones(2 * length, dtype=bool)
        assert _halving_links(ladder(length, [(length // 3, 0.5)]), everyone) == pytest.approx(2.0)


def test_partitions_are_joined_one_by_one():
    graph = ladder(20, [(9, 0.4)])
    halves, quarters = np.repeat([0, 1], 20), np.repeat(range(4), 10)
    together = join_similar(graph, [quarters, halves, quarters])
    alone = [join_similar(graph, [labels])[0] for labels in (quarters, halves, quarters)]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_array_equal(a, b)


def test_stretches_of_one_line_are_joined_unless_links_are_missing_between():
    halves = np.repeat([0, 1], 20)
    assert join_similar(ladder(20), [halves])[0].tolist() == [0] * 40
    assert join_similar(ladder(20, [(9, 0.6)]), [halves])[0].tolist() == [0] * 40
    assert join_similar(ladder(20, [(9, 0.4)]), [halves])[0].tolist() == halves.tolist()


def test_a_few_nodes_have_no_halves_to_compare_with():
    graph = ladder(20)
    few = np.repeat([0, 1], [37, 3])
    assert join_similar(graph, [few])[0].tolist() == few.tolist()
    assert np.isinf(_halving_links(graph, few == 1))


def test_joined_clusters_are_measured_anew():
    graph = ladder(40, [(9, 0.6), (29, 0.45)])
    quarters = np.repeat([0, 1, 2, 3], 20)
    # The first join makes a cluster whose thinnest place is as thin as that between it and the last.
    assert join_similar(graph, [quarters])[0].tolist() == [0] * 80
    assert join_similar(ladder(40, [(29, 0.45)]), [quarters])[0].tolist() == [0] * 60 + [1] * 20


def test_what_falls_apart_by_itself_is_joined_with_whatever_it_is_linked_to():
    apart = sparse.block_diag([ladder(5), ladder(5), ladder(10)]).tolil()
    apart[0, 39] = apart[39, 0] = 0.9
    assert join_similar(apart.tocsr(), [np.repeat([0, 1], 20)])[0].tolist() == np.repeat([0, 1], 20).tolist()
    apart[0, 39] = apart[39, 0] = 1.6
    assert join_similar(apart.tocsr(), [np.repeat([0, 1], 20)])[0].tolist() == [0] * 40


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
