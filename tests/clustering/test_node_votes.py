"""Votes of the nearest nodes, and margins."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from fedkin import KinGraph
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


def test_every_cluster_of_a_small_table_has_samples():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, (75, 40)), rng.normal(0, 1, (5, 40)) + np.eye(40)[0] * 6])
    x = x[rng.permutation(80)]
    model = KinGraph(n_clusters=2, random_state=0).fit(np.array_split(x, 3))
    assert (np.bincount(np.concatenate(model.labels_), minlength=2) > 0).all()


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


def test_confidence_spreads_and_the_sure_half_of_overlapping_clusters_is_right_more_often():
    x, truth = make_blobs([300] * 3, 2, centers=[[0, 0], [4, 0], [0, 4]], cluster_std=1.2, random_state=0)
    order = np.random.default_rng(0).permutation(len(x))
    clients, truth = np.array_split(x[order], 3), truth[order]
    model = KinGraph(n_clusters=3, random_state=0).fit(clients)
    labels, confidence = np.concatenate(model.labels_), np.concatenate(model.confidence(clients))
    right = truth == np.array([np.bincount(truth[labels == cluster]).argmax() for cluster in range(3)])[labels]
    sure = confidence > np.median(confidence)
    assert 0.85 < right.mean() < 0.97
    assert right[sure].mean() > 0.98 > 0.9 > right[~sure].mean()
    assert (confidence == 1).mean() < 0.01
    assert np.quantile(confidence, 0.1) < 0.5 < np.quantile(confidence, 0.9)
