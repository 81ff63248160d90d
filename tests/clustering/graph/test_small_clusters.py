"""Clusters of a few micro-clusters each, which Ward's method sees and their graph does not."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons

from fedkin.clustering.graph.small_clusters import small_clusters

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


def test_a_number_is_met_where_clusters_are_small() -> None:
    points = clouds(20, 5)
    assert found_in(points, 20)[0].tolist() == [cloud for cloud in range(20) for _ in range(5)]
    assert int(found_in(points, 18)[0].max()) + 1 == 18
    assert found_in(points, 16)[1] is GRAPH  # six nodes each and more
    assert found_in(points, 100)[1] is GRAPH  # every node is a cluster
    assert found_in(points, 120)[1] is GRAPH
