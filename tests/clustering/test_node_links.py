"""The graph of nodes and its communities."""

import tracemalloc

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

from fedkin.clustering.node_cut import agreement
from fedkin.clustering.node_links import condense, link_tree, louvain, neighbour_graph
from fedkin.core.seeds import derive_generator


@given(st.integers(0, 10_000), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_the_tree_has_all_numbers_and_each_division_joins_two_clusters_of_the_next(seed, most):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((60, 60)) * (rng.random((60, 60)) < rng.random()), 1)
    graph, points = sparse.csr_matrix(links + links.T), rng.normal(size=(60, 2))
    cuts = link_tree(graph, points, rng.integers(1, 9, size=60).astype(float), (1, most), rng)
    assert sorted(cuts) == list(range(1, len(cuts) + 1))
    for number in range(1, len(cuts)):
        (coarse, _), (fine, _) = cuts[number], cuts[number + 1]
        assert coarse.max() + 1 == number
        pairs = np.unique(np.stack([coarse, fine]), axis=1)
        assert pairs.shape[1] == number + 1
    given, _ = link_tree(graph, points, np.ones(60), (most, most), rng)[most]
    assert sorted(set(given.tolist())) == list(range(most))


def cliques(count, size, bridge=0.1):
    graph = np.kron(np.eye(count), np.ones((size, size)))
    for clique in range(count - 1):
        ends = (clique + 1) * size - 1, (clique + 1) * size
        graph[ends] = graph[ends[::-1]] = bridge
    np.fill_diagonal(graph, 0.0)
    return sparse.csr_matrix(graph)


@pytest.mark.parametrize("resolution", [0.3, 1.0, 3.0])
def test_it_is_as_good_as_networkx(resolution):
    network = nx.random_partition_graph([30, 40, 20, 25], 0.3, 0.03, seed=1)
    graph = nx.to_scipy_sparse_array(network, weight=None, dtype=float, format="csr")

    def quality(labels):
        clusters = [np.flatnonzero(labels == cluster).tolist() for cluster in np.unique(labels)]
        return nx.community.modularity(network, clusters, resolution=resolution)

    ours = max(quality(louvain(graph, resolution, np.random.default_rng(seed))) for seed in range(3))
    theirs = max(
        nx.community.modularity(
            network,
            nx.community.louvain_communities(network, resolution=resolution, seed=seed),
            resolution=resolution,
        )
        for seed in range(3)
    )
    assert ours >= theirs - 0.01


def test_cliques_are_joined_last_and_a_resolution_is_where_modularity_is_greatest():
    graph = cliques(4, 6, bridge=1.0)
    cuts = link_tree(graph, np.zeros((24, 1)), np.ones(24), (1, 24), np.random.default_rng(0))
    assert cuts[4][0].tolist() == np.repeat(cuts[4][0][::6], 6).tolist()
    at_one = max(number for number, (_, joined) in cuts.items() if joined < 1)
    assert at_one == louvain(graph, 1.0, np.random.default_rng(0)).max() + 1 == 4
    labels = np.repeat(np.arange(8), 3)
    coarse = condense(graph, labels)
    assert coarse.sum() == graph.sum()
    assert coarse[0, 0] == sum(graph[labels == 0][:, labels == 0].data)


def test_links_are_the_share_of_common_neighbours():
    points, counts = torch.randn(150, 8, generator=derive_generator(0)), torch.ones(150, dtype=torch.int64)
    graph = neighbour_graph(points, counts, 5)
    near = NearestNeighbors(n_neighbors=6).fit(points.numpy()).kneighbors(points.numpy())[1]
    sets = [set(row.tolist()) for row in near]
    assert (graph != graph.T).nnz == 0
    assert graph.diagonal().sum() == 0.0
    for a, b in zip(*graph.nonzero(), strict=True):
        assert a in sets[b] or b in sets[a]
        assert graph[a, b] == pytest.approx(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
    assert all(graph[a, b] > 0 for a in range(len(points)) for b in sets[a] if b != a)


def test_nodes_that_are_near_to_all_take_no_more_memory():
    points = torch.randn(6000, 100, generator=torch.Generator().manual_seed(0))
    points[:20] *= 0.1  # of everybody's nearest, these are most
    tracemalloc.start()
    graph = neighbour_graph(points, torch.ones(6000, dtype=torch.int64), 15)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.diff(graph.indptr).max() > 5000
    assert peak < 100e6  # all pairs that share a node take nine times as much


LABELS = st.lists(st.integers(0, 4), min_size=20, max_size=20).map(lambda x: np.unique(x, return_inverse=True)[1])


@given(LABELS, LABELS, st.lists(st.integers(1, 5), min_size=20, max_size=20))
def test_agreement_is_the_index_of_the_samples(a, b, size):
    # Counts of pairs include each sample with itself, so that it nears scikit-learn's where samples are many.
    many = 200 * np.array(size)
    expected = adjusted_rand_score(np.repeat(a, many), np.repeat(b, many))
    assert agreement(a, b, np.array(size, dtype=float)) == pytest.approx(expected, abs=0.01)
