"""Small clusters: means of their members, none too small, and as many as there may be."""

import pytest
import torch

from fedkin.clustering import micro_clusters
from fedkin.clustering.micro_clusters import merged_nodes, smoothed, summarise


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


def test_micro_clusters_are_pure_where_points_are_apart():
    truth = torch.arange(200) % 4
    x = 20 * torch.eye(4)[truth] + torch.randn(200, 4, generator=generator())
    found = summarise(x, 40, 5, generator(3))
    for i in range(len(found.counts)):
        assert len(truth[found.labels == i].unique()) == 1


def test_too_many_micro_clusters_become_fewer_by_weight():
    x, counts = points(), torch.arange(1, 401)
    found = merged_nodes(x, counts, 50, generator())
    assert 25 < len(found.counts) <= 50
    assert found.counts.sum() == counts.sum()
    for i, centroid in enumerate(found.centroids):
        inside = found.labels == i
        mean = (x[inside] * counts[inside, None]).sum(0) / counts[inside].sum()
        torch.testing.assert_close(centroid, mean, atol=1e-5, rtol=1e-4)
    same = merged_nodes(x, counts, 400, generator())
    assert torch.equal(same.centroids, x)
    assert torch.equal(same.labels, torch.arange(400))


def test_points_move_to_the_mean_of_their_neighbours():
    x = points(600)
    order = torch.cdist(x, x).argsort(1)[:, :4]
    once = x[order].mean(1)
    torch.testing.assert_close(smoothed(x, 3, 1, generator()), once)
    torch.testing.assert_close(smoothed(x, 3, 2, generator()), once[order].mean(1))
    assert torch.equal(smoothed(x, 0, 3, generator()), x)
    assert torch.equal(smoothed(x[:255], 5, 3, generator()), x[:255])
    torch.testing.assert_close(smoothed(x[:256], 5, 1, generator()), smoothed(x[:256], 2, 1, generator()))


@pytest.mark.parametrize("rounds", [1, 2])
def test_of_many_points_some_are_the_neighbours_of_all(rounds: int, monkeypatch: pytest.MonkeyPatch):
    x = points(600)
    monkeypatch.setattr(micro_clusters, "SEARCHED", 20)
    drawn = torch.randperm(600, generator=generator(5))[:20].sort().values
    apart = torch.cdist(x, x[drawn])
    apart[drawn, torch.arange(20)] = torch.inf
    near = drawn[apart.topk(3, largest=False).indices]
    expected = x.clone()
    for _ in range(rounds - 1):
        moved = (expected + expected[near].sum(1)) / 4
        expected[drawn] = moved[drawn]
    expected = (expected + expected[near].sum(1)) / 4
    torch.testing.assert_close(smoothed(x, 3, rounds, generator(5)), expected)


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
