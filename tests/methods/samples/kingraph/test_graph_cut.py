import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.methods.samples.kingraph import graph_cut
from fedkin.methods.samples.kingraph.graph_cut import RESOLUTIONS, communities, share_of_one_site
from fedkin.methods.samples.kingraph.neighbour_graph import neighbour_graph


def blobs(groups, each=40, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    centres = 6 * rng.normal(size=(groups, 8))
    truth = np.repeat(np.arange(groups), each)
    points = centres[truth] + spread * rng.normal(size=(len(truth), 8))
    return torch.from_numpy(points).float(), torch.ones(len(truth), dtype=torch.int64), truth


def cut(points, counts, n_groups=None, seed=0, neighbours=15):
    return communities(neighbour_graph(points, counts, neighbours), counts, n_groups, derive_generator(seed))


def summary(x, truth, sites, each, seed=0):
    """Small clusters of every site's samples, with the class that most of a cluster's samples have."""
    rows = np.random.default_rng(seed).permutation(len(x))
    centroids, counts, labels = [], [], np.empty(len(x), dtype=np.int64)
    for part in np.array_split(rows, sites):
        model = KMeans(len(part) // each, n_init=1, random_state=seed).fit(x[part])
        labels[part] = model.labels_ + sum(map(len, centroids))
        centroids.append(model.cluster_centers_)
        counts.append(np.bincount(model.labels_, minlength=len(model.cluster_centers_)))
    return torch.from_numpy(np.concatenate(centroids)).float(), torch.from_numpy(np.concatenate(counts)), labels


@pytest.mark.parametrize("groups", [1, 2, 3, 6, 12])
def test_finds_how_many_clouds_there_are(groups):
    points, counts, truth = blobs(groups)
    found, evidence = cut(points, counts)
    assert adjusted_rand_score(truth, found) == 1.0
    assert evidence["resolution"] in RESOLUTIONS
    assert evidence["stability"] > 0.99
    assert len(evidence["resolutions"]) == len(evidence["groups_found"]) == len(evidence["stabilities"])


def test_given_the_number_that_it_finds_it_finds_the_same():
    points, counts, _ = blobs(6, spread=1.5)
    found, evidence = cut(points, counts)
    given, again = cut(points, counts, n_groups=int(found.max()) + 1)
    assert torch.equal(found, given)
    assert evidence == again


@pytest.mark.parametrize("n_groups", [1, 2, 3, 5, 20, 100])
def test_gives_as_many_groups_as_asked_for(n_groups):
    points, counts, truth = blobs(5)
    found, _ = cut(points, counts, n_groups)
    assert found.unique().tolist() == list(range(n_groups))
    if n_groups < 5:
        joined = [set(truth[found == group].tolist()) for group in range(n_groups)]
        assert sum(map(len, joined)) == 5, "clouds are joined whole"


def test_joins_what_has_most_links():
    truth = np.repeat(np.arange(3), 10)
    graph = 1.0 * np.equal.outer(truth, truth)
    graph[9, 10] = graph[10, 9] = 0.5
    np.fill_diagonal(graph, 0.0)
    found, _ = communities(sparse.csr_matrix(graph), torch.ones(30).long(), 2, derive_generator(0))
    assert found.tolist() == [0] * 20 + [1] * 10


def test_follows_shapes_that_means_cannot():
    x, truth = make_moons(1500, noise=0.05, random_state=0)
    points, counts, labels = summary(x, truth, sites=3, each=10)
    found, _ = cut(points, counts, n_groups=2)
    assert adjusted_rand_score(truth, found.numpy()[labels]) > 0.99
    means = KMeans(2, n_init=3, random_state=0).fit_predict(x)
    assert adjusted_rand_score(truth, means) < 0.6


def test_digits_at_ten_sites_fall_into_groups_without_their_number():
    x, truth = load_digits(return_X_y=True)
    points, counts, labels = summary(PCA(30, random_state=0).fit_transform(x), truth, sites=10, each=6)
    found, _ = cut(points, counts)
    assert 7 <= int(found.max()) + 1 <= 16
    assert normalized_mutual_info_score(truth, found.numpy()[labels]) > 0.72


def test_the_order_of_nodes_changes_names_only():
    points, counts, _ = blobs(5, spread=2.5)
    counts = counts + torch.arange(len(counts)) % 4
    order = torch.randperm(len(points), generator=derive_generator(3))
    for n_groups in (None, 4):
        found, evidence = cut(points, counts, n_groups)
        again, other = cut(points[order], counts[order], n_groups)
        assert adjusted_rand_score(found[order], again) == 1.0
        assert other["groups_found"] == evidence["groups_found"]
        assert other["stabilities"] == pytest.approx(evidence["stabilities"])


def test_the_same_seed_gives_the_same():
    points, counts, _ = blobs(5, spread=2.5)
    first, second = cut(points, counts, seed=4), cut(points, counts, seed=4)
    assert torch.equal(first[0], second[0])
    assert first[1] == second[1]


def test_groups_are_numbered_by_their_samples():
    points, counts, truth = blobs(3)
    counts[truth == 2] = 5
    found, _ = cut(points, counts)
    samples = torch.bincount(found, weights=counts.double())
    assert samples.tolist() == sorted(samples.tolist(), reverse=True)
    assert (found[truth == 2] == 0).all()


def test_blurred_groups_are_less_stable_than_clear_ones():
    clear, blurred = (cut(*blobs(5, spread=spread)[:2])[1]["stabilities"][8] for spread in (0.5, 6.0))
    assert blurred < clear - 0.1


def test_spread_counts_against_a_resolution_if_nodes_are_left_out_often(monkeypatch):
    points, counts, _ = blobs(5, spread=6.0)
    careful = cut(points, counts)[1]["stabilities"]
    monkeypatch.setattr(graph_cut, "_CAUTION", 0.0)
    means = cut(points, counts)[1]["stabilities"]
    assert all(a < b for a, b in zip(careful, means, strict=True) if b < 1)
    monkeypatch.setattr(graph_cut, "_FEW", len(points) - 1)
    five = cut(points, counts)[1]["stabilities"]
    monkeypatch.setattr(graph_cut, "_CAUTION", 0.5)
    assert cut(points, counts)[1]["stabilities"] == five


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("n_groups", [None, 1, 2, 5])
def test_few_nodes(count, n_groups):
    points, counts = torch.randn(count, 4, generator=derive_generator(0)), torch.ones(count, dtype=torch.int64)
    found, evidence = cut(points, counts, n_groups)
    expected = min(count, n_groups or 1)
    assert found.shape == (count,)
    assert found.unique().tolist() == list(range(expected))
    assert np.isfinite(evidence["modularity"])


def test_equal_points_are_one_group():
    found, _ = cut(torch.ones(30, 3), torch.ones(30, dtype=torch.int64))
    assert found.tolist() == [0] * 30


def test_a_node_without_links_is_alone_unless_fewer_groups_are_asked_for():
    graph = sparse.csr_matrix(np.pad(1.0 - np.eye(6), (0, 1)))
    counts = torch.ones(7, dtype=torch.int64)
    assert communities(graph, counts, None, derive_generator(0))[0].tolist() == [0] * 6 + [1]
    assert communities(graph, counts, 1, derive_generator(0))[0].tolist() == [0] * 7


def test_refuses_no_groups():
    with pytest.raises(FedkinError, match="n_groups is 0"):
        cut(*blobs(2)[:2], n_groups=0)


def test_how_much_of_its_group_the_largest_site_holds():
    groups, sites = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 1, 2, 0])
    counts = torch.tensor([5, 2, 4, 8, 1])
    assert share_of_one_site(groups, sites, counts) == (6 + 8) / 20
    assert share_of_one_site(groups, groups, counts) == 1.0
    assert share_of_one_site(groups, sites * 0, counts) == 1.0
