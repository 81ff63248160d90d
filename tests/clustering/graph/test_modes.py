"""Clusters on a line are the modes of its density."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

import fedkin
from fedkin.clustering.graph.modes import clusters_by_modes
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.seeds import derive_generator
from fedkin.experiment.report_content.clustering_content import clustering_of

Floats = NDArray[np.float64]


def found(points: Floats, counts: Floats | None = None, number: int | None = None) -> NDArray[np.int64]:
    samples = np.ones(len(points)) if counts is None else counts
    counted = torch.from_numpy(samples).long()
    return clusters_by_modes(torch.from_numpy(points), counted, number, derive_generator(0))[0].numpy()


def mixture(means: list[float], rows: int, seed: int, shares: list[float] | None = None) -> tuple[Floats, Floats]:
    """Rows of normal clusters with variance 1, and the cluster of each."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(means), rows, p=shares)
    return rng.normal(size=rows) + np.array(means)[truth], truth


@pytest.mark.parametrize("means", [[0.0, 4.0], [0.0, 4.0, 8.0], [0.0, 5.0, 10.0, 15.0, 20.0]])
def test_modes_are_clusters(means):
    right = [adjusted_rand(truth, found(x)) for x, truth in (mixture(means, 900, seed) for seed in range(3))]
    assert min(right) > 0.85


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=800),
        lambda rng: rng.random(800),
        lambda rng: rng.exponential(size=800),
        lambda rng: rng.lognormal(0, 0.7, 800),
        lambda rng: rng.poisson(8, 800).astype(float),
    ],
    ids=["normal", "even", "exponential", "lognormal", "counts"],
)
def test_a_single_mode_is_one_cluster(draw: Callable[[np.random.Generator], Floats]):
    """Of even densities some are cut; points are means of five samples, as micro-clusters are."""
    drawn = [np.sort(draw(np.random.default_rng(seed))).reshape(-1, 5).mean(1) for seed in range(12)]
    assert sum(found(x, np.full(len(x), 5)).max() > 0 for x in drawn) <= 2


def test_values_of_a_grid_are_no_modes():
    x = np.arange(12.0)
    counts = np.round(200 * np.exp(-((x - 3) ** 2) / 3) + 100 * np.exp(-((x - 9) ** 2) / 2)) + 1
    assert found(x, counts).tolist() == [0] * 7 + [1] * 5
    assert found(np.arange(1.0, 6.0), np.array([40, 160, 300, 200, 60])).max() == 0, "answers from 1 to 5"
    _, evidence = clusters_by_modes(torch.from_numpy(x), torch.from_numpy(counts).long(), None, derive_generator(0))
    assert evidence["clusters_found"] == sorted(set(evidence["clusters_found"])), "each number is listed once"


def test_places_far_apart_have_no_modes_between_them():
    places, rows = [-1.58, -0.69, -0.24, -0.16, 0.64, 1.17], [370, 67, 197, 218, 92, 556]
    points, counts = np.repeat(places, 3) + np.tile([0, 1e-7, 2e-7], 6), np.repeat(rows, 3) / 3
    assert [int(found(points, counts, number).max()) + 1 for number in (2, 3, 6)] == [2, 3, 6]
    assert found(points, counts).max() < 6


def test_a_few_far_points_are_no_cluster():
    x = np.concatenate([np.random.default_rng(0).normal(size=500), [30.0, 30.1, 30.2]])
    assert found(x).max() == 0


def test_a_given_number_is_of_modes_or_else_of_k_means():
    x, truth = mixture([0.0, 5.0], 400, 0, [0.8, 0.2])
    assert adjusted_rand(truth, found(x, number=2)) > 0.9
    evenly = np.linspace(0.0, 1.0, 90)
    assert np.bincount(found(evenly, number=3)).min() >= 28
    assert found(np.repeat([0.0, 1.0, 5.0], 20), number=40).max() == 2, "each position is a cluster"


def test_the_order_of_points_changes_nothing():
    x, _ = mixture([0.0, 4.0], 300, 1)
    order = np.random.default_rng(0).permutation(300)
    assert found(x)[order].tolist() == found(x[order]).tolist()


@pytest.mark.parametrize("number", ["auto", 2])
def test_a_single_column_at_three_clients(number):
    x, truth = mixture([0.0, 4.0], 900, 2)
    model = fedkin.KinGraph(n_clusters=number, random_state=0).fit(np.array_split(x[:, None], 3))
    assert adjusted_rand(truth, np.concatenate(model.labels_)) > 0.85
    assert model.records_[-1]["by_modes"]
    assert [scale["n_clusters"] for scale in model.scales_][:2] == [1, 2]
    assert model.cut(2).labels_[0].tolist() == model.labels_[0].tolist()


def test_answers_of_two_kinds_of_people_are_two_clusters():
    """What questions of yes or no share lies in one direction, where people of two kinds differ."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=600)
    yes = rng.random((600, 16)) < np.where(truth[:, None] == 1, 0.8, 0.25)
    table = pd.DataFrame(np.where(yes, "yes", "no")).add_prefix("question ")
    model = fedkin.KinGraph(random_state=0).fit([table[client::3] for client in range(3)])
    assert adjusted_rand(np.concatenate([truth[client::3] for client in range(3)]), np.concatenate(model.labels_)) > 0.9


def test_a_report_says_that_modes_were_found():
    x, _ = mixture([0.0, 4.0], 900, 2)
    model = fedkin.KinGraph(random_state=0).fit(np.array_split(x[:, None], 3))
    record = {"step": 3, "answered": [0, 1, 2], "values": model.records_[-1]}
    (said,), (bars,) = clustering_of([record])
    assert said.endswith("gave 2 clusters.")
    assert "modes of their density" in bars.caption
    assert bars.strong == [False, True] + [False] * 10
