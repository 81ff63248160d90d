"""Clusters of nodes, and what the record says of them."""

import tracemalloc

import networkx as nx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

import fedkin
from fedkin.clustering.graph import graph_cut
from fedkin.clustering.graph.communities import condensed, louvain, neighbour_graph
from fedkin.clustering.graph.density import stability_without_some
from fedkin.clustering.graph.found_again import FEWEST_NODES, found_again, partitions
from fedkin.clustering.graph.graph_cut import RESOLUTIONS, communities
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.seeds import derive_generator
from fedkin.methods.samples.kingraph.kingraph_figures import kingraph_figures


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


def cliques(count, size, bridge=0.1):
    graph = np.kron(np.eye(count), np.ones((size, size)))
    for clique in range(count - 1):
        graph[(clique + 1) * size - 1, (clique + 1) * size] = graph[(clique + 1) * size, (clique + 1) * size - 1] = (
            bridge
        )
    np.fill_diagonal(graph, 0.0)
    return sparse.csr_matrix(graph)


def quality(graph, labels, resolution=1.0):
    clusters = [np.flatnonzero(labels == cluster).tolist() for cluster in np.unique(labels)]
    return nx.community.modularity(nx.from_scipy_sparse_array(graph), clusters, resolution=resolution)


@pytest.mark.parametrize("resolution", [0.3, 1.0, 3.0])
def test_it_is_as_good_as_networkx(resolution):
    network = nx.random_partition_graph([30, 40, 20, 25], 0.3, 0.03, seed=1)
    graph = nx.to_scipy_sparse_array(network, weight=None, dtype=float, format="csr")
    ours = max(quality(graph, louvain(graph, resolution, np.random.default_rng(s)), resolution) for s in range(3))
    theirs = max(
        nx.community.modularity(
            network, nx.community.louvain_communities(network, resolution=resolution, seed=s), resolution=resolution
        )
        for s in range(3)
    )
    assert ours >= theirs - 0.01


def test_starting_from_condensed_communities_is_starting_from_their_members():
    graph = cliques(4, 6, bridge=1.0)
    labels = np.repeat(np.arange(8), 3)
    coarse = condensed(graph, labels)
    assert coarse.sum() == graph.sum()
    within = sum(graph[labels == 0][:, labels == 0].data)
    assert coarse[0, 0] == within
    assert louvain(coarse, 1.0, np.random.default_rng(0))[labels].tolist() == np.repeat(np.arange(4), 6).tolist()


def cloud(size):
    return torch.randn(size, 8, generator=derive_generator(0))


def test_links_are_the_share_of_common_neighbours():
    points, counts = cloud(150), torch.ones(150, dtype=torch.int64)
    graph = neighbour_graph(points, counts, 5)
    near = NearestNeighbors(n_neighbors=6).fit(points.numpy()).kneighbors(return_distance=True, X=points.numpy())[1]
    sets = [set(row.tolist()) for row in near]
    assert (graph != graph.T).nnz == 0
    assert graph.diagonal().sum() == 0.0
    for a, b in zip(*graph.nonzero(), strict=True):
        assert a in sets[b] or b in sets[a]
        assert graph[a, b] == pytest.approx(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
    assert all(graph[a, b] > 0 for a in range(len(points)) for b in sets[a] if b != a)


def test_nodes_that_are_near_to_all_take_no_more_memory():
    rng = torch.Generator().manual_seed(0)
    points = torch.randn(6000, 100, generator=rng)
    points[:20] *= 0.1  # of everybody's nearest, these are most
    tracemalloc.start()
    graph = neighbour_graph(points, torch.ones(6000, dtype=torch.int64), 15)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.diff(graph.indptr).max() > 5000
    assert peak < 100e6  # all pairs that share a node take nine times as much


def orders(seed=0, nodes=50):
    numbers = np.random.default_rng(seed)
    return (numbers.permutation(nodes) for _ in range(100))


def test_the_same_clusters_of_every_resample_are_stable_and_random_ones_are_not():
    labels, numbers = np.repeat(np.arange(5), 10), np.random.default_rng(1)
    assert stability_without_some(labels, orders(), lambda kept: labels[kept] + 7) == 1.0
    assert abs(stability_without_some(labels, orders(), lambda kept: numbers.integers(5, size=len(kept)))) < 0.1


Floats = NDArray[np.float64]


def judged(x: Floats, clusters: NDArray[np.int64]) -> tuple[NDArray[np.int64], dict[str, object]]:
    points, counts = torch.from_numpy(x).float(), torch.full((len(x),), 6)
    labels, evidence = found_again(
        points, counts, 15, torch.from_numpy(clusters), {"stability": 1.0}, derive_generator(0)
    )
    return labels.numpy(), evidence


@pytest.mark.parametrize("rows", [FEWEST_NODES, 150])
def test_clusters_stay_where_trees_agree_and_pieces_of_noise_do_not(rows):
    truth = np.arange(rows) % 2
    noise = np.random.default_rng(0).normal(size=(rows, 20))
    assert judged(noise + 8 * truth[:, None], truth)[1] == {"stability": 1.0}
    labels, evidence = judged(noise, truth)
    assert not labels.any()
    assert float(str(evidence["agreement"])) < 0.6


@pytest.mark.parametrize("columns", [5, 20])
def test_a_skewed_cloud_is_one_cluster_and_the_report_says_why(columns):
    """The graph divides its long tails, with a stability of up to 0.86."""
    rng = np.random.default_rng(0)
    model = fedkin.KinGraph(scaling="none", random_state=0).fit(list(np.exp(rng.normal(size=(3, 300, columns)))))
    assert model.n_clusters_ == 1
    assert model.records_[-1]["agreement"] < 0.6
    assert model.scales_[0]["chosen"]
    record = {"step": 3, "answered": [0, 1, 2], "values": model.records_[-1]}
    bars = kingraph_figures([record])[1]
    assert "agree on no division" in bars.caption
    assert model.cut(3).n_clusters_ == 3


def test_each_tree_sees_what_it_is_for():
    """Moons are beyond Ward's method; the density tree leaves a far node outside, which joins the nearest cluster."""
    x, truth = make_moons(160, noise=0.04, random_state=0)
    ward, links, density = partitions(np.concatenate([x, [[9.0, 9.0]]]), np.ones(161), 15, 10)
    assert adjusted_rand(truth, links[2][:160] if links[1][160] != links[1][0] else links[1][:160]) > 0.7
    assert adjusted_rand(truth, density[1][:160]) == 1.0
    assert adjusted_rand(truth, ward[1][:160]) < 0.7
    for tree in (ward, links, density):
        assert all(sorted(set(labels.tolist())) == list(range(k)) for k, labels in enumerate(tree, 1))
    assert len(ward) == len(links) == 10
