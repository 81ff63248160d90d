"""Contrastive networks."""

import pytest
import torch
from torch.nn.functional import cosine_similarity, one_hot

from fedkin.methods.samples.ccfc.contrastive import (
    ContrastiveNetwork,
    Design,
    cluster_contrast,
    model_contrast,
    negative_cosine,
)


def test_the_network_for_mnist_is_that_of_the_authors_code():
    network = ContrastiveNetwork(Design((1, 28, 28)).decided())
    assert sum(parameter.numel() for parameter in network.parameters()) == 1_322_608
    x = torch.rand(4, 1, 28, 28)
    z = network.encoder(x)
    assert z.shape == (4, 256)
    assert torch.allclose(z.mean(0), torch.zeros(256), atol=1e-4)  # the last normalisation has no scale of its own
    assert network(x).shape == (4, 256)


def some(n: int = 12, latent: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(3)
    p, z = torch.randn(n, latent, generator=source), torch.randn(n, latent, generator=source)
    return p, z, torch.tensor([0, 0, 0, 1, 1, 1, 1, 3, 0, 4, 4, 0])[:n]


@pytest.mark.parametrize("form", ["paper", "code"])
def test_samples_of_a_cluster_are_compared_in_pairs(form):
    p, z, clusters = some()
    terms = []
    for cluster in (0, 1, 4):  # cluster 2 is absent, cluster 3 has one sample
        rows = (clusters == cluster).nonzero()[:, 0].tolist()
        pairs = [(i, j) for i in rows for j in rows if i != j or form == "code"]
        terms.append(-sum(float(cosine_similarity(p[i], z[j], dim=0)) for i, j in pairs) / len(pairs))
    members = one_hot(clusters, 5).float()
    assert float(cluster_contrast(p, z, members, form)) == pytest.approx(sum(terms) / 3, abs=1e-5)


def test_no_gradient_flows_into_what_is_predicted():
    p, z, clusters = some()
    p.requires_grad_(), z.requires_grad_()
    members = one_hot(clusters, 5).float()
    (
        cluster_contrast(p, z, members, "paper") + negative_cosine(p, z) + model_contrast(p, z, members, "paper")
    ).backward()
    assert z.grad is None
    assert p.grad is not None
    assert float(p.grad.abs().sum()) > 0


def test_clusters_of_one_sample_give_no_loss_and_no_nan():
    p, z, _ = some(3)
    p.requires_grad_()
    loss = cluster_contrast(p, z, torch.eye(3), "paper")
    loss.backward()
    assert float(loss.detach()) == 0
    assert p.grad is not None
    assert torch.equal(p.grad, torch.zeros_like(p))


def test_clusters_count_the_same_in_the_paper_and_samples_in_the_code():
    p, z, clusters = some()
    members = one_hot(clusters, 5).float()
    each = -cosine_similarity(p, z)
    by_cluster = [float(each[clusters == cluster].mean()) for cluster in (0, 1, 3, 4)]
    assert float(model_contrast(p, z, members, "paper")) == pytest.approx(sum(by_cluster) / 4, abs=1e-6)
    assert float(model_contrast(p, z, members, "code")) == pytest.approx(float(each.mean()), abs=1e-6)
