"""Nodes of the graph: votes of the nearest, and what the record says of their clusters."""

import torch

from fedkin.methods.samples.kingraph.kingraph_nodes import counted, largest_client_share, nearest_nodes


def test_how_much_of_its_cluster_the_largest_client_holds():
    clusters, sites = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 1, 2, 0])
    counts = torch.tensor([5, 2, 4, 8, 1])
    assert largest_client_share(clusters, sites, counts) == (6 + 8) / 20
    assert largest_client_share(clusters, clusters, counts) == 1.0
    assert largest_client_share(clusters, sites * 0, counts) == 1.0


def test_near_nodes_vote_and_one_of_its_kind_is_not_lost():
    centroids = torch.tensor([[0.0, 0.0], [3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0], [1.0, 9.0]])
    result = {"n_clusters": 2, "clusters": torch.tensor([0, 1, 1, 1, 1, 0])}
    points = torch.tensor([[0.0, 0.0], [0.5, 0.5], [1.4, 1.2], [1.0, 9.0]])
    assert counted(nearest_nodes(centroids, points), result)[0].tolist() == [0, 0, 1, 0]
    alone = counted(nearest_nodes(centroids[:1], points), {**result, "clusters": torch.tensor([1])})
    assert alone[0].tolist() == [1] * 4
    assert counted(nearest_nodes(centroids, points[:0]), result)[0].shape == (0,)
