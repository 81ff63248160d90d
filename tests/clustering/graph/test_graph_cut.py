import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from fedkin.clustering.graph import graph_cut
from fedkin.clustering.graph.graph_cut import RESOLUTIONS, communities
from fedkin.clustering.graph.neighbour_graph import neighbour_graph
from fedkin.core.seeds import derive_generator


def blobs(clusters, each=40, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    centres = 6 * rng.normal(size=(clusters, 8))
    truth = np.repeat(np.arange(clusters), each)
    points = centres[truth] + spread * rng.normal(size=(len(truth), 8))
    return torch.from_numpy(points).float(), torch.ones(len(truth), dtype=torch.int64), truth


def cut(points, counts, n_clusters=None, seed=0, neighbours=15):
    graph = neighbour_graph(points, counts, neighbours)
    return communities(graph, in_space(points), counts, n_clusters, derive_generator(seed))


def in_space(points):
    """The points in more than three dimensions."""
    return torch.nn.functional.pad(points, (0, 4))


def summary(x, truth, sites, each, seed=0):
    """Small clusters of every client's samples, with the class that most of a cluster's samples have."""
    rows = np.random.default_rng(seed).permutation(len(x))
    centroids, counts, labels = [], [], np.empty(len(x), dtype=np.int64)
    for part in np.array_split(rows, sites):
        model = KMeans(len(part) // each, n_init=1, random_state=seed).fit(x[part])
        labels[part] = model.labels_ + sum(map(len, centroids))
        centroids.append(model.cluster_centers_)
        counts.append(np.bincount(model.labels_, minlength=len(model.cluster_centers_)))
    return torch.from_numpy(np.concatenate(centroids)).float(), torch.from_numpy(np.concatenate(counts)), labels


@pytest.mark.parametrize("clusters", [1, 2, 3, 6, 12])
def test_finds_how_many_clouds_there_are(clusters):
    points, counts, truth = blobs(clusters)
    found, evidence = cut(points, counts)
    assert adjusted_rand_score(truth, found) == 1.0
    assert evidence["resolution"] in RESOLUTIONS
    assert evidence["stability"] > 0.99
    assert len(evidence["resolutions"]) == len(evidence["clusters_found"]) == len(evidence["stabilities"])


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 5, 20, 100])
def test_gives_as_many_clusters_as_asked_for(n_clusters):
    points, counts, truth = blobs(5)
    found, _ = cut(points, counts, n_clusters)
    assert found.unique().tolist() == list(range(n_clusters))
    if n_clusters < 5:
        joined = [set(truth[found == cluster].tolist()) for cluster in range(n_clusters)]
        assert sum(map(len, joined)) == 5, "clouds are joined whole"


def test_follows_shapes_that_means_cannot():
    x, truth = make_moons(1500, noise=0.05, random_state=0)
    points, counts, labels = summary(x, truth, sites=3, each=10)
    found, _ = cut(points, counts, n_clusters=2)
    assert adjusted_rand_score(truth, found.numpy()[labels]) > 0.99
    means = KMeans(2, n_init=3, random_state=0).fit_predict(x)
    assert adjusted_rand_score(truth, means) < 0.6


def test_digits_at_ten_clients_fall_into_clusters_without_their_number():
    x, truth = load_digits(return_X_y=True)
    points, counts, labels = summary(PCA(30, random_state=0).fit_transform(x), truth, sites=10, each=6)
    found, _ = cut(points, counts)
    assert 7 <= int(found.max()) + 1 <= 16
    assert normalized_mutual_info_score(truth, found.numpy()[labels]) > 0.72


def test_the_order_of_nodes_changes_names_only():
    points, counts, _ = blobs(5, spread=2.5)
    counts = counts + torch.arange(len(counts)) % 4
    order = torch.randperm(len(points), generator=derive_generator(3))
    for n_clusters in (None, 4):
        found, evidence = cut(points, counts, n_clusters)
        again, other = cut(points[order], counts[order], n_clusters)
        assert adjusted_rand_score(found[order], again) == 1.0
        assert other["clusters_found"] == evidence["clusters_found"]
        assert other["stabilities"] == pytest.approx(evidence["stabilities"])


def test_equal_points_are_one_cluster():
    found, _ = cut(torch.ones(30, 3), torch.ones(30, dtype=torch.int64))
    assert found.tolist() == [0] * 30


def test_a_node_without_links_is_alone_unless_fewer_clusters_are_asked_for():
    graph = sparse.csr_matrix(np.pad(1.0 - np.eye(6), (0, 1)))
    counts = torch.ones(7, dtype=torch.int64)
    points = torch.zeros(7, 4)
    assert communities(graph, points, counts, None, derive_generator(0))[0].tolist() == [0] * 6 + [1]
    assert communities(graph, points, counts, 1, derive_generator(0))[0].tolist() == [0] * 7


def test_a_resolution_is_taken_as_given():
    points, counts, _ = blobs(6, spread=1.5)
    graph = neighbour_graph(points, counts, 15)
    found = {}
    for resolution in (0.05, 1.0, 6.0):
        clusters, evidence = communities(graph, points, counts, None, derive_generator(0), resolution=resolution)
        assert evidence["resolution"] == resolution
        assert resolution in evidence["resolutions"]
        found[resolution] = int(clusters.max()) + 1
        (chosen,) = [scale for scale in evidence["scales"] if scale["chosen"]]
        assert chosen["n_clusters"] == found[resolution]
        assert chosen["resolutions"][0] <= resolution <= chosen["resolutions"][1]
    assert found[0.05] <= found[1.0] < found[6.0]


def test_scales_of_clouds_of_clouds_hold_both():
    rng = np.random.default_rng(0)
    outer = 60 * rng.normal(size=(3, 8))
    centres = (outer[:, None] + 9 * rng.normal(size=(3, 3, 8))).reshape(9, 8)
    truth = np.repeat(np.arange(9), 40)
    points = torch.from_numpy(centres[truth] + rng.normal(size=(360, 8))).float()
    found, evidence = cut(points, torch.ones(360).long(), neighbours=60)
    scales = evidence["scales"]
    assert any(scale["n_clusters"] == 9 and scale["samples"] == [40] * 9 for scale in scales)
    (chosen,) = [scale for scale in scales if scale["chosen"]]
    assert chosen["samples"] == torch.bincount(found).tolist()


def test_round_clusters_that_overlap_in_two_columns_are_not_joined_and_a_sheet_is(monkeypatch):
    """Their parts are less stable than they are; stretches of a sheet are the more stable the more there are."""
    rng = np.random.default_rng(1)
    centres = np.stack(np.meshgrid([0.0, 4.0, 8.0], [0.0, 4.0, 8.0]), axis=-1).reshape(-1, 2)
    truth, counts = np.repeat(np.arange(9), 60), torch.ones(540, dtype=torch.int64)
    round_ones = torch.from_numpy(centres[truth] + 0.85 * rng.normal(size=(540, 2))).float()
    sheet = torch.from_numpy(rng.random((540, 2))).float()
    overlapping, flat = neighbour_graph(round_ones, counts, 15), neighbour_graph(sheet, counts, 15)
    found, _ = communities(overlapping, round_ones, counts, None, derive_generator(0))
    assert adjusted_rand_score(truth, found) > 0.85
    assert int(communities(flat, sheet, counts, None, derive_generator(0))[0].max()) < 2, "not twenty stretches"
    monkeypatch.setattr(graph_cut, "_PEAK", 1.0)
    monkeypatch.setattr(graph_cut, "density_clusters", lambda points, size: None)
    joined, _ = communities(overlapping, round_ones, counts, None, derive_generator(0))
    assert adjusted_rand_score(truth, joined) < 0.5
