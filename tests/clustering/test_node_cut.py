"""Clusters of nodes, their number, and what the record says of them."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_circles, make_moons

import fedkin
from fedkin.clustering.metrics import adjusted_rand
from fedkin.clustering.node_cut import divide_line, node_clusters, scales_of
from fedkin.core.seeds import derive_generator

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def cut(points, counts=None, n_clusters=None, resolution=None, seed=0, neighbours=15, discrete="none"):
    counts = torch.ones(len(points), dtype=torch.int64) if counts is None else counts
    x = torch.as_tensor(points).float()
    return node_clusters(x, counts, neighbours, n_clusters, resolution, derive_generator(seed), discrete)


def blobs(clusters, each=40, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(clusters), each)
    return 6 * rng.normal(size=(clusters, 8))[truth] + spread * rng.normal(size=(len(truth), 8)), truth


@pytest.mark.parametrize("clusters", [1, 2, 3, 6, 12])
def test_finds_how_many_clouds_there_are(clusters):
    points, truth = blobs(clusters)
    found, values = cut(points)
    assert adjusted_rand(truth, found) == 1.0
    if clusters > 1:
        assert values["stability"] > 0.99
        assert values["agreement"] > 0.99


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 5, 20, 100])
def test_gives_as_many_clusters_as_asked_for(n_clusters):
    points, truth = blobs(5)
    found, _ = cut(points, n_clusters=n_clusters)
    assert found.unique().tolist() == list(range(n_clusters))
    if n_clusters < 5:
        joined = [set(truth[found == cluster].tolist()) for cluster in range(n_clusters)]
        assert sum(map(len, joined)) == 5, "clouds are joined whole"


def test_a_higher_resolution_has_more_clusters():
    points, _ = blobs(5)
    numbers = [int(cut(points, resolution=resolution)[0].max()) + 1 for resolution in (0.05, 0.5, 2.0, 7.0)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 5 < numbers[-1]


def test_the_order_of_nodes_changes_names_only():
    points, _ = blobs(5, spread=2.5)
    counts = torch.arange(len(points)) % 4 + 1
    order = torch.randperm(len(points), generator=derive_generator(3))
    for n_clusters in (None, 4):
        found, values = cut(points, counts, n_clusters)
        shuffled, same = cut(points[order], counts[order], n_clusters)
        assert adjusted_rand(found[order], shuffled) == 1.0
        assert [scale["samples"] for scale in same["scales"]] == [scale["samples"] for scale in values["scales"]]


def test_equal_points_are_one_cluster():
    assert cut(torch.ones(30, 3))[0].tolist() == [0] * 30


def test_scales_of_clouds_of_clouds_hold_both():
    rng = np.random.default_rng(0)
    centres = (60 * rng.normal(size=(3, 1, 8)) + 9 * rng.normal(size=(3, 3, 8))).reshape(9, 8)
    found, values = cut(centres[np.repeat(np.arange(9), 40)] + rng.normal(size=(360, 8)), neighbours=60)
    assert any(scale["n_clusters"] == 9 and scale["samples"] == [40] * 9 for scale in values["scales"])
    (chosen,) = [scale for scale in values["scales"] if scale["chosen"]]
    assert chosen["samples"] == torch.bincount(found).tolist()


def fitted(x, clients=3, seed=0, **options):
    """kin-graph's clusters of what clients hold, in the order of the rows, and the last record."""
    parts = np.array_split(np.random.default_rng(seed).permutation(len(x)), clients)
    model = fedkin.KinGraph(random_state=seed, scaling="none", **options).fit([x[part] for part in parts])
    clusters = np.empty(len(x), dtype=np.int64)
    clusters[np.concatenate(parts)] = np.concatenate(model.labels_)
    return clusters, model


CLOUDS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "even": lambda rng, shape: rng.random(shape),
    "skewed": lambda rng, shape: np.exp(rng.normal(size=shape)),
    "heavy tails": lambda rng, shape: rng.standard_t(4, size=shape),
}


@pytest.mark.parametrize("columns", [1, 3, 20])
@pytest.mark.parametrize("cloud", [*CLOUDS])
def test_a_single_cloud_stays_whole(cloud, columns):
    rows = CLOUDS[cloud](np.random.default_rng(1), (900, columns))
    assert not fitted(rows)[0].any()


@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_bent_clusters_are_followed(make):
    points, truth = make(4_000, random_state=0, noise=0.05, **({} if make is make_moons else {"factor": 0.5}))
    assert adjusted_rand(truth, fitted(points, clients=2)[0]) > 0.99


@pytest.mark.parametrize("clients", [1, 3])
def test_two_arcs_of_few_samples_are_two_clusters_found_or_given(clients):
    """Arcs reach into each other, a quarter of the samples in one: communities are pieces of arcs, or all of both."""
    rng = np.random.default_rng(3)
    truth, turn = np.arange(400) % 4 // 3, rng.uniform(0, np.pi, 400)
    first, second = np.c_[np.cos(turn), np.sin(turn)], np.c_[1 - np.cos(turn), 0.3 - np.sin(turn)]
    x = np.where(truth[:, None] == 0, first, second) + 0.06 * rng.standard_normal((400, 2))
    clusters, found = fitted(x, clients)
    assert adjusted_rand(truth, clusters) > 0.95
    assert found.records_[-1]["found_in"] == "density"
    number, model = fitted(x, clients, n_clusters=2)
    assert adjusted_rand(truth, number) > 0.95
    assert [labels.tolist() for labels in found.cut(2).labels_] == [labels.tolist() for labels in model.labels_]
    assert found.cut(5).n_clusters_ == 5


def test_ten_clusters_in_two_groups_are_ten():
    rng = np.random.default_rng(0)
    centres = np.concatenate([rng.normal(size=(5, 20)) + 2, rng.normal(size=(5, 20)) - 2])
    truth = np.repeat(np.arange(10), 60)
    assert adjusted_rand(truth, cut(centres[truth] + rng.normal(size=(600, 20)))[0]) > 0.9


@pytest.mark.parametrize("discrete", ["some", "all"])
@pytest.mark.parametrize("number", [3, None])
def test_groups_of_places_are_clusters_and_places_are_not(number, discrete):
    group = np.repeat(np.arange(3), 30)
    points = np.array([[0, 0], [6, 0], [0, 6]])[group] + np.random.default_rng(0).integers(0, 3, (90, 2))
    found, values = cut(points, torch.full((90,), 6), number, discrete=discrete)
    assert adjusted_rand(group, found) > 0.9
    assert values["found_in"] == "graph"


@pytest.mark.filterwarnings("ignore::fedkin.FedkinWarning")
@pytest.mark.parametrize("rows", [60, 120])
def test_few_nodes_of_a_single_cloud_are_mostly_one_cluster(rows):
    clouds = [np.random.default_rng(seed).standard_normal((rows, 3)) for seed in range(8)]
    assert sum(fitted(cloud)[1].n_clusters_ == 1 for cloud in clouds) >= 6


def test_ten_clients_of_36_images_have_ten_clusters_and_not_one():
    """Their fifty common micro-clusters are too few for a graph in so many dimensions."""
    x, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(x))[:360]
    model = fedkin.KinGraph(random_state=0).fit(np.array_split(x[rows].reshape(-1, 8, 8) / 16, 10))
    assert 30 < model.records_[-1]["nodes"] <= 60
    assert adjusted_rand(y[rows], np.concatenate(model.labels_)) > 0.7


def modes(points: Floats, counts: Floats | None = None, most: int = 12) -> Labels:
    divisions = divide_line(points, np.ones(len(points)) if counts is None else counts, most)
    return divisions[max(number for number, division in divisions.items() if division.shows)].labels


@pytest.mark.parametrize("means", [[0.0, 4.0], [0.0, 4.0, 8.0], [0.0, 5.0, 10.0, 15.0, 20.0]])
def test_modes_are_clusters(means):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.integers(len(means), size=900)
        assert adjusted_rand(truth, modes(np.array(means)[truth] + rng.normal(size=900))) > 0.85


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=800),
        lambda rng: rng.random(800),
        lambda rng: rng.exponential(size=800),
        lambda rng: rng.lognormal(0, 0.7, 800),
        lambda rng: rng.poisson(8, 800).astype(float),
        lambda rng: rng.binomial(1, 0.5, 800).astype(float) + 1e-9 * rng.random(800),
    ],
)
def test_one_mode_is_one_cluster_and_values_of_a_grid_are_no_modes(draw):
    number = [len(np.unique(modes(draw(np.random.default_rng(seed))))) for seed in range(4)]
    assert number == [1] * 4 or number == [2] * 4  # two values are two clusters


@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_a_line_has_as_many_clusters_as_are_given(number):
    x = np.concatenate([np.random.default_rng(0).normal(size=200), np.random.default_rng(1).normal(8, 1, 200)])
    found, values = cut(x[:, None], n_clusters=number)
    assert int(found.max()) + 1 == number
    assert values["found_in"] == ("modes" if number < 3 else "k-means")


def test_discrete_columns_on_a_line_have_two_clusters_at_most():
    x = np.repeat([0.0, 5.0, 10.0], 100) + np.random.default_rng(0).normal(size=300)
    assert int(cut(x[:, None])[0].max()) == 2
    assert int(cut(x[:, None], discrete="all")[0].max()) == 1


NODES = 12
LABELS = st.lists(st.integers(0, 4), min_size=NODES, max_size=NODES).map(
    lambda labels: np.unique(labels, return_inverse=True)[1]
)
SIZES = st.lists(st.integers(1, 9), min_size=NODES, max_size=NODES).map(lambda size: np.array(size, dtype=float))


def members(labels):
    return sorted(np.flatnonzero(labels == cluster).tolist() for cluster in range(labels.max() + 1))


@settings(max_examples=60)
@given(st.lists(LABELS, min_size=1, max_size=5), SIZES, LABELS)
def test_scales_are_different_divisions_of_all_samples_in_order(divisions, size, chosen):
    scales = scales_of([(labels, 0.9) for labels in divisions], size, (chosen, None))
    assert [scale["n_clusters"] for scale in scales] == sorted(scale["n_clusters"] for scale in scales)
    (found,) = [scale for scale in scales if scale["chosen"]]
    assert found["stability"] is None
    assert members(found["labels"]) == members(chosen)
    for scale in scales:
        assert scale["samples"] == np.bincount(scale["labels"], weights=size).tolist()
        assert scale["samples"] == sorted(scale["samples"], reverse=True)
    assert scales[0]["parents"] == []
    for coarse, fine in pairwise(scales):
        assert len(fine["parents"]) == fine["n_clusters"]
        assert set(fine["parents"]) <= set(range(coarse["n_clusters"]))
    assert len(scales) == len({str(members(labels)) for labels in [*divisions, chosen]})


def test_a_cluster_is_part_of_the_one_with_most_of_its_samples():
    coarse, fine = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 2, 2, 1, 1])
    size = np.array([1.0, 1.0, 5.0, 1.0, 2.0, 2.0])
    first, second = scales_of([(coarse, 0.9)], size, (fine, 0.75))
    assert first.pop("labels").tolist() == coarse.tolist()
    assert first == {"n_clusters": 2, "stability": 0.9, "samples": [7, 5], "parents": [], "chosen": False}
    assert second["stability"] == 0.75
    assert second["samples"] == [6, 4, 2]
    assert second["parents"] == [0, 1, 0]
