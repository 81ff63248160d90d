import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from fedkin.clustering.graph.louvain import condensed, louvain


def cliques(count, size, bridge=0.1):
    graph = np.kron(np.eye(count), np.ones((size, size)))
    for clique in range(count - 1):
        graph[(clique + 1) * size - 1, (clique + 1) * size] = graph[(clique + 1) * size, (clique + 1) * size - 1] = (
            bridge
        )
    np.fill_diagonal(graph, 0.0)
    return sparse.csr_matrix(graph)


def quality(graph, labels, resolution=1.0):
    clusters = [np.flatnonzero(labels == cluster).tolist() for cluster in np.unique(labels)]
    return nx.community.modularity(nx.from_scipy_sparse_array(graph), clusters, resolution=resolution)


@pytest.mark.parametrize("resolution", [0.3, 1.0, 3.0])
def test_it_is_as_good_as_networkx(resolution):
    network = nx.random_partition_graph([30, 40, 20, 25], 0.3, 0.03, seed=1)
    graph = nx.to_scipy_sparse_array(network, weight=None, dtype=float, format="csr")
    ours = max(quality(graph, louvain(graph, resolution, np.random.default_rng(s)), resolution) for s in range(3))
    theirs = max(
        nx.community.modularity(
            network, nx.community.louvain_communities(network, resolution=resolution, seed=s), resolution=resolution
        )
        for s in range(3)
    )
    assert ours >= theirs - 0.01


def test_starting_from_condensed_communities_is_starting_from_their_members():
    graph = cliques(4, 6, bridge=1.0)
    labels = np.repeat(np.arange(8), 3)
    coarse = condensed(graph, labels)
    assert coarse.sum() == graph.sum()
    within = sum(graph[labels == 0][:, labels == 0].data)
    assert coarse[0, 0] == within
    assert louvain(coarse, 1.0, np.random.default_rng(0))[labels].tolist() == np.repeat(np.arange(4), 6).tolist()
