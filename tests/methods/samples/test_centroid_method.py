import torch

from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.centroid_method import CentroidState, predict_nearest, scaled_like_features
from fedkin.methods.samples.kfed import KFedMethod
from fedkin.methods.samples.sample_method import describe_clients


def test_centroids_of_unit_features_compare_by_cosine():
    rng = torch.Generator().manual_seed(1)
    x = torch.rand(30, 6, generator=rng)
    centroids = torch.rand(4, 6, generator=rng) * torch.tensor([[0.1], [1], [3], [9]])
    result = {"features": "unit", "centroids": scaled_like_features("unit", centroids)}
    cosine = torch.nn.functional.cosine_similarity(x[:, None], centroids[None], dim=2)
    assert torch.equal(predict_nearest(result, x), cosine.argmax(1))
    assert torch.equal(scaled_like_features("raw", centroids), centroids)


def test_no_samples_have_no_clusters():
    assert predict_nearest({"features": "raw", "centroids": torch.zeros(2, 3)}, torch.zeros(0, 3)).tolist() == []


def test_facts_of_the_clients():
    facts = describe_clients(LocalFederation([Client(0, torch.rand(3, 2)), Client(1, torch.rand(4, 2) + 1)]))
    assert (facts.shape, facts.samples, facts.unit) == ((2,), {0: 3, 1: 4}, False)


def test_clients_that_do_not_answer_are_asked_again():
    clients = [Client(i, torch.rand(4, 2)) for i in range(3)]
    fed = LocalFederation(clients, failures=[(1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)])
    KFedMethod().conclude(fed, CentroidState(centroids=torch.rand(2, 2)))
    assert ["clusters" in client.state for client in clients] == [True, False, True]
