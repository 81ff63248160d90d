"""What the cut does with communities that belong together, and with few nodes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.clustering.graph.communities import join_similar, join_to
from fedkin.clustering.graph.compact_clusters import compact_clusters
from fedkin.clustering.graph.density import clusters_by_modes, clusters_by_valleys, density_clusters
from fedkin.clustering.graph.ward import clusters_of_few
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.seeds import derive_generator


def found(x, seed=0):
    """kin-graph's clusters of what two clients hold, and what it recorded of them."""
    parts = np.array_split(np.random.default_rng(seed).permutation(len(x)), 2)
    model = fedkin.KinGraph(random_state=seed).fit([x[part].astype(np.float32) for part in parts])
    clusters = np.empty(len(x), dtype=np.int64)
    clusters[np.concatenate(parts)] = np.concatenate(model.labels_)
    return clusters, model.records_[-1]


@pytest.mark.parametrize("seed", range(2))
def test_a_square_is_one_cluster(seed):
    clusters, _ = found(np.random.default_rng(seed).random((3000, 2)), seed)
    assert set(clusters.tolist()) == {0}


@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_bent_clusters_are_followed(make):
    options = {"noise": 0.06} if make is make_moons else {"noise": 0.05, "factor": 0.5}
    points, truth = make(10_000, random_state=0, **options)
    clusters, _ = found(points)
    assert clusters.max() == 1
    assert adjusted_rand_score(truth, clusters) > 0.99


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_joining_only_joins(seed, communities_before, wanted):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((60, 60)) * (rng.random((60, 60)) < 0.2), 1)
    graph = sparse.csr_matrix(links + links.T)
    labels = np.concatenate([np.arange(communities_before), rng.integers(communities_before, size=60)])[:60]
    joined = join_to(graph, labels, wanted, rng.normal(size=(60, 2)), rng.integers(1, 9, size=60).astype(float))
    for after in (*join_similar(graph, [labels]), joined):
        assert sorted(set(after.tolist())) == list(range(after.max() + 1))
        for community in range(communities_before):
            assert len(set(after[labels == community].tolist())) == 1
    assert joined.max() + 1 == min(wanted, communities_before)


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


def clusters(points: NDArray[np.float64], samples: NDArray[np.float64]) -> NDArray[np.int64] | None:
    return density_clusters(torch.from_numpy(points), torch.from_numpy(samples))


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("kind", ["normal", "box"])
def test_single_clouds_are_mostly_left_alone(kind, columns):
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=(200, columns)) if kind == "normal" else rng.random((200, columns)) for _ in range(20)]
    assert sum(clusters(cloud, np.ones(200)) is not None for cloud in drawn) <= 1


def arcs(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """400 samples of two arcs that reach into each other, a quarter of them of one."""
    rng = np.random.default_rng(seed)
    truth, turn = np.arange(400) % 4 // 3, rng.uniform(0, np.pi, 400)
    one, other = np.c_[np.cos(turn), np.sin(turn)], np.c_[1 - np.cos(turn), 0.3 - np.sin(turn)]
    return np.where(truth[:, None] == 0, one, other) + 0.06 * rng.standard_normal((400, 2)), truth


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("clients", [1, 3])
def test_two_arcs_of_few_samples_are_two_clusters(clients, seed):
    """Communities are pieces of arcs, or all of both."""
    x, truth = arcs(seed)
    model = fedkin.KinGraph(random_state=0).fit(np.array_split(x, clients))
    assert adjusted_rand(truth, np.concatenate(model.labels_)) > 0.95
    assert model.records_[-1]["by_density"]


@pytest.mark.parametrize("clients", [1, 3])
def test_a_number_that_density_shows_has_its_clusters(clients):
    x, truth = arcs(3)
    parts = np.array_split(x, clients)
    model = fedkin.KinGraph(n_clusters=2, random_state=0).fit(parts)
    assert adjusted_rand(truth, np.concatenate(model.labels_)) > 0.95
    assert model.records_[-1]["by_density"]
    found = fedkin.KinGraph(random_state=0).fit(parts)
    assert [labels.tolist() for labels in found.cut(2).labels_] == [labels.tolist() for labels in model.labels_]
    assert found.cut(5).n_clusters_ == 5


FEW_NODES_GRAPH: dict[str, object] = {"resolution": 1.0, "stability": 0.5, "scales": []}


def clouds(number: int, apart: float, each: int = 5) -> torch.Tensor:
    rng = np.random.default_rng(0)
    centres = apart * rng.standard_normal((number, 4))
    return torch.from_numpy(np.repeat(centres, each, axis=0) + rng.standard_normal((number * each, 4))).float()


def of(points: torch.Tensor, number: int | None) -> tuple[list[int], dict[str, object]]:
    counts = torch.arange(len(points), 0, -1) + 4
    one = torch.zeros(len(points), dtype=torch.int64)
    clusters, evidence = clusters_of_few(points, counts, number, one, FEW_NODES_GRAPH)
    return clusters.tolist(), evidence


@pytest.mark.parametrize("each", [5, 25])
def test_a_single_cloud_stays_what_the_graph_shows(each: int) -> None:
    clusters, evidence = of(clouds(1, 0.0, each), None)
    assert clusters == [0] * each
    assert evidence == FEW_NODES_GRAPH


def test_ten_clients_of_36_images_have_ten_clusters_and_not_one() -> None:
    """Their fifty common micro-clusters are too few for a graph in so many dimensions."""
    x, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(x))[:360]
    model = fedkin.KinGraph(random_state=0).fit(np.array_split(x[rows].reshape(-1, 8, 8) / 16, 10))
    assert 30 < model.records_[-1]["nodes"] <= 60
    assert adjusted_rand(y[rows], np.concatenate(model.labels_)) > 0.7


def test_as_many_clusters_as_are_given_are_those_of_ward_where_each_has_few_nodes() -> None:
    rng = np.random.default_rng(0)
    centres = 4 * np.array([(i, j, k) for i in range(4) for j in range(4) for k in range(2)])[:20]
    points = np.repeat(centres, 4, axis=0) + 0.3 * rng.standard_normal((80, 3))
    clusters, evidence = of(torch.from_numpy(points).float(), 20)
    assert adjusted_rand(np.repeat(np.arange(20), 4), np.array(clusters)) == 1.0
    assert evidence["linkage"] == "ward"
    assert of(torch.from_numpy(points).float(), 3)[1] == FEW_NODES_GRAPH


Floats = NDArray[np.float64]


def modes_found(points: Floats, counts: Floats | None = None, number: int | None = None) -> NDArray[np.int64]:
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
    right = [adjusted_rand(truth, modes_found(x)) for x, truth in (mixture(means, 900, seed) for seed in range(3))]
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
    assert sum(modes_found(x, np.full(len(x), 5)).max() > 0 for x in drawn) <= 2


def test_places_far_apart_have_no_modes_between_them():
    places, rows = [-1.58, -0.69, -0.24, -0.16, 0.64, 1.17], [370, 67, 197, 218, 92, 556]
    points, counts = np.repeat(places, 3) + np.tile([0, 1e-7, 2e-7], 6), np.repeat(rows, 3) / 3
    assert [int(modes_found(points, counts, number).max()) + 1 for number in (2, 3, 6)] == [2, 3, 6]
    assert modes_found(points, counts).max() < 6


Draw = Callable[[np.random.Generator, int], Floats]


def divided(x: Floats, counts: Floats | None = None, seed: int = 0) -> tuple[NDArray[np.int64], dict[str, object]]:
    samples = torch.ones(len(x), dtype=torch.int64) if counts is None else torch.from_numpy(counts).long()
    points, one = torch.from_numpy(x).float(), torch.zeros(len(x), dtype=torch.int64)
    clusters, evidence = clusters_by_valleys(points, samples, one, {"stability": 1.0}, derive_generator(seed))
    return clusters.numpy(), evidence


def touching(centres: list[list[float]], rows: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """Rows of normal clusters with variance 1, and the cluster of each."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(len(centres), size=rows)
    return rng.normal(size=(rows, len(centres[0]))) + np.array(centres)[truth], truth


@pytest.mark.parametrize(
    "centres",
    [[[0.0, 0.0], [4.0, 0.0]], [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0]], [[0.0, 0.0], [5.0, 0.0], [2.5, 4.3]]],
    ids=["two in a plane", "two in space", "three in a plane"],
)
def test_touching_clusters_are_divided(centres):
    for seed in range(3):
        x, truth = touching(centres, 600, seed)
        clusters, evidence = divided(x)
        assert adjusted_rand(truth, clusters) > 0.7
        assert evidence["valley"] < 0.85
        assert evidence["stability"] >= 0.85


def ring(rng: np.random.Generator, rows: int) -> Floats:
    angle = rng.uniform(0, 2 * np.pi, rows)
    return np.stack([np.cos(angle), np.sin(angle)], 1) + 0.15 * rng.normal(size=(rows, 2))


def moon(rng: np.random.Generator, rows: int) -> Floats:
    angle = rng.uniform(0, np.pi, rows)
    return np.stack([np.cos(angle), np.sin(angle)], 1) + 0.15 * rng.normal(size=(rows, 2))


CLOUDS: dict[str, Draw] = {
    "normal": lambda rng, rows: rng.normal(size=(rows, 2)),
    "even": lambda rng, rows: rng.random((rows, 3)),
    "long": lambda rng, rows: rng.random((rows, 2)) * [10.0, 1.0],
    "skewed": lambda rng, rows: np.exp(rng.normal(size=(rows, 2))),
    "heavy tails": lambda rng, rows: rng.normal(size=(rows, 2)) * np.where(rng.random((rows, 1)) < 0.3, 4, 1),
    "ring": ring,
    "moon": moon,
}


@pytest.mark.parametrize("cloud", [*CLOUDS][::2])
def test_a_single_cloud_stays_whole(cloud):
    for seed in range(4):
        for rows in (60, 300):
            clusters, evidence = divided(CLOUDS[cloud](np.random.default_rng(seed), rows), seed=seed)
            assert not clusters.any()
            assert evidence == {"stability": 1.0}
