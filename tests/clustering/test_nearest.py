"""Distances, duplicates, nearest centroids and votes."""

import torch

from fedkin.clustering.nearest import drop_duplicates, nearest_centroids, neighbours_vote, pairwise_distances


def test_equal_points_are_exactly_at_distance_zero():
    points = torch.randn(30, 50, generator=torch.Generator().manual_seed(0)) + 1e3
    assert pairwise_distances(points, points).diagonal().tolist() == [0.0] * 30


def test_duplicates_are_dropped():
    points = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.1], [1.0, 2.0]])
    assert torch.equal(drop_duplicates(points), points[[0, 2]])


def test_the_nearest_centroid_is_that_of_least_distance():
    rng = torch.Generator().manual_seed(0)
    points, centroids = torch.randn(40, 3, generator=rng), torch.randn(5, 3, generator=rng)
    assert torch.equal(nearest_centroids(points, centroids), torch.cdist(points, centroids).argmin(1))


def test_the_nearest_centroid_is_right_far_from_the_origin():
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    centroids = torch.tensor([[-10.0] * 4, [10.0] * 4])
    near = nearest_centroids(x + centroids[torch.arange(200) % 2], centroids)
    assert torch.equal(near, torch.arange(200) % 2)
    assert torch.equal(nearest_centroids(x + centroids[torch.arange(200) % 2] + 1e5, centroids + 1e5), near)


def test_the_largest_sum_of_weights_wins_a_vote_and_the_lowest_label_a_tie():
    labels = torch.tensor([[2, 1, 1], [2, 1, 1], [3, 0, 2]])
    weights = torch.tensor([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert neighbours_vote(labels, weights, 4).tolist() == [1, 2, 0]
