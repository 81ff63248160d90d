"""Clusters of a few micro-clusters each, which Ward's method sees and their graph does not."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs, make_moons

import fedkin
from fedkin.clustering.graph.small_clusters import small_clusters
from fedkin.clustering.metrics import adjusted_rand

NEIGHBOURS = 15
GRAPH: dict[str, object] = {"resolution": 1.0, "stability": 0.5, "by_density": True, "scales": []}


def clouds(number: int, each: int, width: float = 0.3) -> torch.Tensor:
    rng = np.random.default_rng(0)
    centres = np.array([(i, j, k) for i in range(4) for j in range(4) for k in range(4)])
    centres = 4 * centres[rng.permutation(64)[:number]] + rng.random((number, 3))
    return torch.from_numpy(np.repeat(centres, each, axis=0) + width * rng.standard_normal((number * each, 3))).float()


def found_in(
    points: torch.Tensor, number: int | None = None, graph: int = 2, by_density: bool = True
) -> tuple[torch.Tensor, dict[str, object]]:
    """Clusters of points, of which the graph, or the density, shows `graph` in the order of the points."""
    clusters, counts = torch.arange(len(points)) * graph // len(points), torch.arange(len(points), 0, -1) + 4
    evidence = GRAPH if by_density else {**GRAPH, "by_density": False}
    return small_clusters(points, counts, NEIGHBOURS, number, clusters, evidence, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("each", [3, 5, 8])
def test_many_small_clouds_are_clusters_the_one_with_most_samples_first(each: int) -> None:
    clusters, evidence = found_in(clouds(20, each))
    assert clusters.tolist() == [cloud for cloud in range(20) for _ in range(each)]
    assert evidence["linkage"] == "ward"
    assert evidence["by_density"] is False
    assert float(str(evidence["stability"])) > 0.9
    assert float(str(evidence["silhouette"])) > 0.5


@pytest.mark.parametrize(
    "points",
    [
        clouds(20, 16),  # large enough for the graph
        clouds(9, 3),  # fewer nodes than two have neighbours
        clouds(1, 90),
        torch.from_numpy(make_moons(90, noise=0.02, random_state=0)[0]),
        torch.from_numpy(np.random.default_rng(0).random((120, 2))),
        torch.cartesian_prod(torch.arange(5.0), torch.arange(5.0)).repeat(3, 1),  # two columns of answers
        torch.ones(60, 2),
    ],
    ids=["large", "few", "cloud", "moons", "square", "grid", "same"],
)
def test_other_points_stay_what_the_graph_shows(points: torch.Tensor) -> None:
    clusters, evidence = found_in(points)
    assert clusters.tolist() == [int(2 * at >= len(points)) for at in range(len(points))]
    assert evidence is GRAPH


def test_clusters_that_touch_count_if_they_are_stable_and_density_shows_no_others() -> None:
    points = clouds(20, 6, 0.8)  # of the nearest nodes 0.90 are of the own cluster, whose silhouette is 0.53
    assert found_in(points)[1] is GRAPH
    clusters, evidence = found_in(points, by_density=False)
    assert evidence["linkage"] == "ward"
    assert adjusted_rand(clusters, torch.arange(20).repeat_interleave(6)) > 0.8
    assert "linkage" not in found_in(clouds(20, 6, 0.85), by_density=False)[1]  # the silhouette is lower


def test_as_many_clusters_of_the_graph_stay() -> None:
    assert found_in(clouds(20, 4), graph=20)[1] is GRAPH
    assert found_in(clouds(20, 4), graph=19)[1]["linkage"] == "ward"


def test_a_number_is_met_where_clusters_are_small() -> None:
    points = clouds(20, 5)
    assert found_in(points, 20)[0].tolist() == [cloud for cloud in range(20) for _ in range(5)]
    assert int(found_in(points, 18)[0].max()) + 1 == 18
    assert found_in(points, 16)[1] is GRAPH  # six nodes each and more
    assert found_in(points, 100)[1] is GRAPH  # every node is a cluster
    assert found_in(points, 120)[1] is GRAPH


def test_forty_clusters_of_thirty_rows_at_three_clients() -> None:
    x, y = make_blobs(1_200, 4, centers=40, cluster_std=0.5, center_box=(-8, 8), random_state=0)
    for options in ({}, {"n_clusters": 40}):
        model = fedkin.KinGraph(random_state=0, **options).fit(np.array_split(x, 3))
        assert adjusted_rand(y, np.concatenate(model.labels_)) > 0.9
        assert model.records_[-1]["linkage"] == "ward"
