"""Votes of the nearest nodes, and margins."""

import pytest
import torch

from fedkin.clustering.node_votes import counted, nearest_nodes, node_margins


def test_near_nodes_vote_and_one_of_its_kind_is_not_lost():
    centroids = torch.tensor([[0.0, 0.0], [3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0], [1.0, 9.0]])
    result = {"n_clusters": 2, "clusters": torch.tensor([0, 1, 1, 1, 1, 0])}
    points = torch.tensor([[0.0, 0.0], [0.5, 0.5], [1.4, 1.2], [1.0, 9.0]])
    assert counted(nearest_nodes(centroids, points), result).tolist() == [0, 0, 1, 0]
    alone = counted(nearest_nodes(centroids[:1], points), {**result, "clusters": torch.tensor([1])})
    assert alone.tolist() == [1] * 4
    assert counted(nearest_nodes(centroids, points[:0]), result).shape == (0,)


def test_a_cluster_of_one_or_two_nodes_among_many_keeps_the_points_that_are_nearest_to_it():
    centroids = torch.eye(8)  # as in many dimensions: all about equally far
    for few in ([0], [0, 1]):
        clusters = torch.zeros(8, dtype=torch.int64).index_fill_(0, torch.tensor(few), 1)
        points = torch.full((1, 8), 0.1).index_fill_(1, torch.tensor(few), 0.13)
        votes = nearest_nodes(centroids, torch.cat([points, points.flip(1)]))
        assert counted(votes, {"n_clusters": 2, "clusters": clusters}).tolist() == [1, 0], few


def test_a_margin_compares_distances_from_the_nearest_nodes_of_two_clusters():
    centroids = torch.tensor([[0.0], [2.0], [10.0], [50.0]])
    result = {"n_clusters": 3, "centroids": centroids, "clusters": torch.tensor([0, 0, 1, 2])}
    margins = node_margins(result, torch.tensor([[1.0], [10.0], [8.0], [5.5]]), torch.tensor([0, 1, 0, 1]))
    assert margins[:2].tolist() == pytest.approx([1 - 1 / 9, 1])
    assert margins[2] == 0, "the other cluster is nearer"
    assert margins[3] == pytest.approx(1 - 4.5 / ((5.5**2 + 3.5**2) / 2) ** 0.5)
    assert node_margins(result, centroids[:0], torch.zeros(0, dtype=torch.int64)).shape == (0,)
    alone = {"n_clusters": 1, "centroids": centroids, "clusters": torch.zeros(4, dtype=torch.int64)}
    assert node_margins(alone, centroids, alone["clusters"]).tolist() == [1] * 4
    many = {**result, "centroids": torch.arange(40.0)[:, None], "clusters": torch.arange(40) // 20}
    assert node_margins(many, torch.tensor([[0.0]]), torch.tensor([0])) == pytest.approx(1 - (285 / 6085) ** 0.5)
