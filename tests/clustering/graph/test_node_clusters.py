"""Clusters of nodes, and what the record says of them."""

import torch

from fedkin.clustering.graph.node_clusters import largest_client_share


def test_how_much_of_its_cluster_the_largest_client_holds():
    clusters, sites = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 1, 2, 0])
    counts = torch.tensor([5, 2, 4, 8, 1])
    assert largest_client_share(clusters, sites, counts) == (6 + 8) / 20
    assert largest_client_share(clusters, clusters, counts) == 1.0
    assert largest_client_share(clusters, sites * 0, counts) == 1.0
