"""Distances, duplicates, nearest centroids and votes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.clustering.k_means import nearest_centroids
from fedkin.clustering.micro_clusters import merged_nodes, summarise
from fedkin.clustering.node_votes import counted, nearest_nodes, node_margins
from fedkin.clustering.whitening import whitened


def test_the_nearest_centroid_is_right_far_from_the_origin():
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    centroids = torch.tensor([[-10.0] * 4, [10.0] * 4])
    near = nearest_centroids(x + centroids[torch.arange(200) % 2], centroids)
    assert torch.equal(near, torch.arange(200) % 2)
    assert torch.equal(nearest_centroids(x + centroids[torch.arange(200) % 2] + 1e5, centroids + 1e5), near)


def test_the_lowest_of_equal_centroids_is_the_nearest_however_many_there_are():
    points = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(nearest_centroids(points, torch.cat([points, points])), torch.arange(300))


def test_near_nodes_vote_and_one_of_its_kind_is_not_lost():
    centroids = torch.tensor([[0.0, 0.0], [3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0], [1.0, 9.0]])
    result = {"n_clusters": 2, "clusters": torch.tensor([0, 1, 1, 1, 1, 0])}
    points = torch.tensor([[0.0, 0.0], [0.5, 0.5], [1.4, 1.2], [1.0, 9.0]])
    assert counted(nearest_nodes(centroids, points), result).tolist() == [0, 0, 1, 0]
    alone = counted(nearest_nodes(centroids[:1], points), {**result, "clusters": torch.tensor([1])})
    assert alone.tolist() == [1] * 4
    assert counted(nearest_nodes(centroids, points[:0]), result).shape == (0,)


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


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(n: int = 400, d: int = 3) -> torch.Tensor:
    return torch.randn(n, d, generator=generator())


@pytest.mark.parametrize(("clusters", "least"), [(40, 1), (40, 5), (80, 5), (400, 1), (3, 100), (1, 1)])
def test_each_is_the_mean_of_its_members_and_none_is_too_small(clusters: int, least: int):
    x = points()
    found = summarise(x, clusters, least, generator())
    assert 1 <= len(found.counts) <= clusters
    assert found.counts.min() >= least
    assert torch.equal(found.labels.bincount(), found.counts)
    for i, centroid in enumerate(found.centroids):
        torch.testing.assert_close(centroid, x[found.labels == i].mean(0), atol=1e-5, rtol=1e-4)


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_whitening_makes_neighbours_differ_alike_in_all_directions(d: int, seed: int):
    root = torch.randn(d, d, generator=generator(seed), dtype=torch.float64) + 3 * torch.eye(d, dtype=torch.float64)
    scatter = root @ root.T
    directions = torch.linalg.qr(torch.randn(d + 2, d, generator=generator(seed + 1)))[0]
    scaled = whitened(directions, scatter, 10**12)
    by = (directions.T @ scaled).double()
    alike = scatter.trace() / d * torch.eye(d, dtype=torch.float64)
    torch.testing.assert_close(by.T @ scatter @ by, alike, rtol=1e-3, atol=1e-3 * float(scatter.max()))


def test_with_ties_no_direction_grows_without_end():
    scatter, directions = torch.diag(torch.tensor([1e-6, 1.0, 1.0], dtype=torch.float64)), torch.eye(3)
    free, tied = (whitened(directions, scatter, 10_000, ties).diagonal() for ties in (False, True))
    torch.testing.assert_close(tied[1:], free[1:])
    assert free[0] > 20
    assert float(tied[0]) == pytest.approx(5**0.5)


def test_micro_clusters_at_the_same_place_are_one_node():
    """Rows that come again at several clients, whose means differ by rounding alone."""
    places = points(20)
    shuffled = torch.randperm(60, generator=generator(1)) % 20
    rounded = places[shuffled] * (1 + 2.0**-23 * (torch.arange(60) % 2)[:, None])
    nodes = merged_nodes(rounded, torch.full((60,), 5), 100, generator())
    assert nodes.counts.tolist() == [15] * 20
    torch.testing.assert_close(nodes.centroids[nodes.labels], places[shuffled])
    assert len(merged_nodes(places, torch.full((20,), 5), 100, generator()).counts) == 20
    assert len(merged_nodes(rounded, torch.full((60,), 5), 8, generator()).counts) <= 8
