"""Compact clusters of nodes in a space of which discrete columns give some dimensions."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_moons

import fedkin
from fedkin.clustering.graph.compact_clusters import compact_clusters
from fedkin.clustering.metrics import adjusted_rand

GRAPH: dict[str, object] = {"resolution": 1.0, "stability": 0.95, "by_density": False, "scales": []}


def places(number: int, each: int = 30, columns: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Groups of points on a grid, six steps apart, and the group of each."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(number), each)
    centres = np.array(
        [[0] * columns, [6] + [0] * (columns - 1), [0, 6] + [0] * (columns - 2), [0] * (columns - 1) + [6]]
    )
    return torch.from_numpy(centres[group] + rng.integers(0, 3, (len(group), columns))).float(), torch.from_numpy(group)


def found_in(points: torch.Tensor, number: int | None, every: bool, graph: int, **more: bool):
    clusters, counts = torch.arange(len(points)) % graph, torch.full((len(points),), 6)
    return compact_clusters(points, counts, number, every, clusters, GRAPH | more, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("number", [3, None])
def test_groups_of_places_are_clusters(number: int | None, every: bool) -> None:
    points, group = places(3)
    clusters, evidence = found_in(points, number, every, graph=9)
    assert adjusted_rand(group, clusters) == 1
    assert evidence["compact"] is True
    assert ("silhouette" in evidence) == (number is None)
    assert [(one["n_clusters"], one["samples"]) for one in evidence["scales"]] == [(3, [180, 180, 180])]


def test_in_more_dimensions_a_given_number_is_of_compact_clusters_and_none_is_found() -> None:
    points, group = places(4, columns=5)
    clusters, evidence = found_in(points, 4, False, graph=9)
    assert adjusted_rand(group, clusters) == 1
    assert evidence["compact"] is True
    clusters, evidence = found_in(points, None, False, graph=9)
    assert int(clusters.max()) + 1 == 9
    assert "compact" not in evidence


@pytest.mark.parametrize("kind", ["cloud", "square", "density", "few", "same"])
def test_else_what_the_graph_shows_stays(kind: str) -> None:
    rng = torch.Generator().manual_seed(1)
    points = {
        "cloud": torch.randn(120, 2, generator=rng), "square": torch.rand(120, 2, generator=rng),
        "density": torch.from_numpy(make_moons(120, noise=0.02, random_state=0)[0]), "few": places(2, each=3)[0],
        "same": torch.ones(60, 2),
    }[kind]  # fmt: skip
    clusters, evidence = found_in(points, None, kind == "few", graph=2, by_density=kind == "density")
    assert clusters.tolist() == [at % 2 for at in range(len(points))]
    assert "compact" not in evidence


def people(seed: int, numbers: bool) -> tuple[list[pd.DataFrame], np.ndarray]:
    """Three kinds of people by four categories, of which each kind has its own frequent ones, at three clients."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, 1050)
    frame = pd.DataFrame()
    for at, levels in enumerate((4, 3, 2, 3)):
        likely = np.where(rng.random(1050) < 0.9, (kind + at) % levels, rng.integers(0, levels, 1050))
        frame[f"question {at}"] = np.array(list("wxyz"))[likely]
    if numbers:
        frame["use"] = rng.normal(np.array([20, 35, 60])[kind], 9).round(1)
    return [frame[at::3].reset_index(drop=True) for at in range(3)], np.concatenate([kind[at::3] for at in range(3)])


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("options", [{}, {"n_clusters": 3}])
def test_few_categories_with_and_without_a_number(options: dict[str, int], numbers: bool) -> None:
    clients, kind = people(0, numbers)
    model = fedkin.KinGraph(random_state=0, **options).fit(clients)
    assert model.n_clusters_ == 3
    assert adjusted_rand(kind, np.concatenate(model.labels_)) > 0.85
    assert model.records_[-1].get("compact", not numbers and not options)
