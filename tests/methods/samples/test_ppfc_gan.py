import torch
from sklearn.datasets import make_blobs

from fedkin.clustering.metrics import normalized_mutual_information
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.ppfc_gan import PPFCGANMethod


def blobs():
    x, y = make_blobs([40, 40, 40], n_features=6, cluster_std=0.6, random_state=0)
    x = torch.from_numpy(x).float()
    return (x - x.mean(0)) / x.std(0), torch.from_numpy(y)


def test_blobs_are_found_though_no_client_has_all():
    x, y = blobs()
    clients, truth = [Client(i, x[y != i]) for i in range(3)], torch.cat([y[y != i] for i in range(3)])
    fed = LocalFederation(clients, seed=1)
    method = PPFCGANMethod(n_clusters=3, epochs=12, noise=8, pretrain_epochs=20, cluster_epochs=10, code=3)
    state = method.init(fed)
    while not state.finished:
        assert not method.ready(state)
        state, _ = method.step(fed, state)
    assert method.ready(state)
    found = torch.cat([client.state["clusters"] for client in clients])
    assert normalized_mutual_information(truth.numpy(), found.numpy()) > 0.9
