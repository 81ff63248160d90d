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

from fedkin.clustering.graph.communities import agreement, condense, join_to, louvain, neighbour_graph
from fedkin.core.seeds import derive_generator


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_joining_only_joins(seed, before, number):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((60, 60)) * (rng.random((60, 60)) < 0.2), 1)
    graph = sparse.csr_matrix(links + links.T)
    labels = np.concatenate([np.arange(before), rng.integers(before, size=60)])[:60]
    joined = join_to(graph, labels, number, rng.normal(size=(60, 2)), rng.integers(1, 9, size=60).astype(float))
    assert sorted(set(joined.tolist())) == list(range(min(number, before)))
    assert all(len(set(joined[labels == community].tolist())) == 1 for community in range(before))


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


def test_starting_from_condensed_communities_is_starting_from_their_members():
    graph = cliques(4, 6, bridge=1.0)
    labels = np.repeat(np.arange(8), 3)
    coarse = condense(graph, labels)
    assert coarse.sum() == graph.sum()
    assert coarse[0, 0] == sum(graph[labels == 0][:, labels == 0].data)
    assert louvain(coarse, 1.0, np.random.default_rng(0))[labels].tolist() == np.repeat(np.arange(4), 6).tolist()


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
    index, overlap = agreement(a, b, np.array(size, dtype=float))
    # Counts of pairs include each sample with itself, so that it nears scikit-learn's where samples are many.
    many = 200 * np.array(size)
    assert index == pytest.approx(adjusted_rand_score(np.repeat(a, many), np.repeat(b, many)), abs=0.01)
    for cluster, value in enumerate(overlap):
        weight, inside = np.array(size), a == cluster
        best = max(weight[inside & (b == k)].sum() / weight[inside | (b == k)].sum() for k in range(b.max() + 1))
        assert value == pytest.approx(best)
