"""Clusters of so few micro-clusters that Ward's method finds them better than their graph."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import fedkin
from fedkin.clustering.graph.few_nodes import clusters_of_few
from fedkin.clustering.metrics import adjusted_rand

GRAPH: dict[str, object] = {"resolution": 1.0, "stability": 0.5, "scales": []}


def clouds(number: int, apart: float, each: int = 5) -> torch.Tensor:
    rng = np.random.default_rng(0)
    centres = apart * rng.standard_normal((number, 4))
    return torch.from_numpy(np.repeat(centres, each, axis=0) + rng.standard_normal((number * each, 4))).float()


def of(points: torch.Tensor, number: int | None) -> tuple[list[int], dict[str, object]]:
    counts = torch.arange(len(points), 0, -1) + 4
    one = torch.zeros(len(points), dtype=torch.int64)
    clusters, evidence = clusters_of_few(points, counts, number, one, GRAPH)
    return clusters.tolist(), evidence


@pytest.mark.parametrize("number", [3, None])
def test_clouds_are_clusters_the_one_with_most_samples_first(number: int | None) -> None:
    clusters, evidence = of(clouds(3, 8.0), number)
    assert clusters == [0] * 5 + [1] * 5 + [2] * 5
    assert evidence["linkage"] == "ward"
    assert ("silhouette" in evidence) == (number is None)
    scales = evidence["scales"]
    assert isinstance(scales, list)
    assert [(one["n_clusters"], one["samples"], one["chosen"]) for one in scales] == [(3, [85, 60, 35], True)]


@pytest.mark.parametrize("each", [5, 12, 25])
def test_a_single_cloud_stays_what_the_graph_shows(each: int) -> None:
    clusters, evidence = of(clouds(1, 0.0, each), None)
    assert clusters == [0] * each
    assert evidence == GRAPH


def test_ten_clients_of_36_images_have_ten_clusters_and_not_one() -> None:
    """Their fifty common micro-clusters are too few for a graph in so many dimensions."""
    x, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(x))[:360]
    model = fedkin.KinGraph(random_state=0).fit(np.array_split(x[rows].reshape(-1, 8, 8) / 16, 10))
    assert 30 < model.records_[-1]["nodes"] <= 60
    assert adjusted_rand(y[rows], np.concatenate(model.labels_)) > 0.7
