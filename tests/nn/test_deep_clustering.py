import torch

from fedkin.nn.deep_clustering import (
    _Clusters,
    sharpened,
)


def test_target_is_the_papers():
    soft = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    first = torch.tensor([0.81 / 1.5, 0.01 / 0.5])
    assert torch.allclose(sharpened(soft)[0], first / first.sum())


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
