import tracemalloc

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from fedkin.clustering.graph.neighbour_graph import neighbour_graph
from fedkin.core.seeds import derive_generator


def cloud(size):
    return torch.randn(size, 8, generator=derive_generator(0))


def test_links_are_the_share_of_common_neighbours():
    points, counts = cloud(150), torch.ones(150, dtype=torch.int64)
    graph = neighbour_graph(points, counts, 5)
    near = NearestNeighbors(n_neighbors=6).fit(points.numpy()).kneighbors(return_distance=True, X=points.numpy())[1]
    sets = [set(row.tolist()) for row in near]
    assert (graph != graph.T).nnz == 0
    assert graph.diagonal().sum() == 0.0
    for a, b in zip(*graph.nonzero(), strict=True):
        assert a in sets[b] or b in sets[a]
        assert graph[a, b] == pytest.approx(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
    assert all(graph[a, b] > 0 for a in range(len(points)) for b in sets[a] if b != a)


def test_nodes_that_are_near_to_all_take_no_more_memory():
    rng = torch.Generator().manual_seed(0)
    points = torch.randn(6000, 100, generator=rng)
    points[:20] *= 0.1  # of everybody's nearest, these are most
    tracemalloc.start()
    graph = neighbour_graph(points, torch.ones(6000, dtype=torch.int64), 15)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.diff(graph.indptr).max() > 5000
    assert peak < 100e6  # all pairs that share a node take nine times as much
