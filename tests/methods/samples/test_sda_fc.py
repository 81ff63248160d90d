import pytest
import torch
from sklearn.datasets import make_blobs

from fedkin.clustering.metrics import normalized_mutual_information
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.sda_fc import SDAFCMethod, SDAFCState


def blobs():
    """Three clients of which each lacks one of three blobs, and the truth."""
    x, y = make_blobs([40, 40, 40], n_features=6, cluster_std=0.6, random_state=0)
    x, y = torch.from_numpy(x).float(), torch.from_numpy(y)
    x = (x - x.mean(0)) / x.std(0)
    return [Client(i, x[y != i]) for i in range(3)], torch.cat([y[y != i] for i in range(3)])


@pytest.mark.parametrize("clustering", ["kmeans", "fuzzy"])
def test_blobs_are_found_though_no_client_has_all(clustering):
    clients, truth = blobs()
    fed, method = LocalFederation(clients, seed=1), SDAFCMethod(n_clusters=3, epochs=12, noise=8, clustering=clustering)
    state = method.init(fed)
    while not state.finished:
        assert not method.ready(state)
        state, _ = method.step(fed, state)
    assert method.ready(state)
    found = torch.cat([client.state["clusters"] for client in clients])
    assert normalized_mutual_information(truth.numpy(), found.numpy()) > 0.9


def test_images_are_compared_by_cosine():
    rng = torch.Generator().manual_seed(0)
    directions = torch.rand(2, 1, 8, 8, generator=rng)
    made = directions.repeat(30, 1, 1, 1) * (0.1 + torch.rand(60, 1, 1, 1, generator=rng))
    state = SDAFCState(shape=[1, 8, 8])
    for clustering in ("kmeans", "fuzzy"):
        method = SDAFCMethod(n_clusters=2, clustering=clustering)
        changes = method.cluster(LocalFederation([]), state, made)
        assert changes["features"] == "unit"
        torch.testing.assert_close(changes["centroids"].norm(dim=1), torch.ones(2))
        result = {"features": "unit", "centroids": changes["centroids"]}
        clusters = method.predict(result, made)
        assert clusters[0::2].unique().tolist() != clusters[1::2].unique().tolist()
        assert torch.equal(method.predict(result, 0.01 * made), clusters)


def test_tables_are_compared_as_they_are():
    made = torch.tensor([[1.0, 1.0], [1.1, 1.0], [9.0, 9.0], [9.0, 9.1]])
    changes = SDAFCMethod(n_clusters=2).cluster(LocalFederation([]), SDAFCState(shape=[2]), made)
    assert changes["features"] == "raw"
    assert sorted(changes["centroids"][:, 0].tolist()) == pytest.approx([1.05, 9.0])
