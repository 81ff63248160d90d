import torch

from fedkin.clustering.metrics import normalized_mutual_information
from fedkin.core.seeds import derive_generator
from fedkin.nn.deep_clustering import DeepClustering, DeepEncoder, _Clusters

PLAIN = {"shape": [6], "output": "linear", "code": 2}


def rng(*path):
    return derive_generator(0, "dcn", *path)


def blobs(n=90):
    truth = torch.arange(n) % 3
    corners = 3 * torch.randn(3, 6, generator=rng("corners"))
    return corners[truth] + 0.3 * torch.randn(n, 6, generator=rng("x")), truth


def spread(encoder, model, centroids, x):
    """Mean squared distance of a code from its centroid, beside the codes' own spread."""
    codes = encoder.codes(model, x)
    return float(torch.cdist(codes, centroids).min(1).values.square().mean() / codes.var(0).sum())


def test_blobs_are_found_and_the_clusters_draw_their_codes_in():
    x, truth = blobs()
    encoder = DeepEncoder.of(PLAIN)
    tight, loose = (
        DeepClustering(pretrain_epochs=40, epochs=40, weight=weight, batch_size=30).fit(encoder, x, 3, rng("fit"))
        for weight in (5.0, 0.0)
    )
    found = torch.cdist(encoder.codes(tight[0], x), tight[1]).argmin(1)
    assert normalized_mutual_information(truth.numpy(), found.numpy()) > 0.95
    assert spread(encoder, *tight, x) < 0.5 * spread(encoder, *loose, x)


def test_a_centroid_moves_by_one_over_its_count_from_sample_to_sample():
    centroids, codes = torch.tensor([[0.0, 0.0], [9.0, 9.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0], [8.0, 9.0]])
    clusters = _Clusters(centroids.clone(), torch.zeros(5, dtype=torch.int64), torch.tensor([3.0, 0.0]))
    clusters.assign(torch.tensor([4, 0, 2]), codes)
    one_by_one, count = centroids[0].clone(), 3
    for code in codes[:2]:
        count += 1
        one_by_one -= (one_by_one - code) / count
    torch.testing.assert_close(clusters.centroids[0], one_by_one)
    assert clusters.centroids[1].tolist() == [8.0, 9.0]
    assert clusters.labels.tolist() == [0, 0, 1, 0, 0]
    assert clusters.counts.tolist() == [5.0, 1.0]
