import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.nn.deep_clustering import DeepEmbeddedClustering, assignment, sharpened

SMALL = DeepEmbeddedClustering(hidden=(32, 32, 64), code=4, pretrain_steps=60)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(clusters=3, each=40, features=6):
    truth = torch.arange(clusters).repeat_interleave(each)
    return 8 * torch.eye(clusters, features)[truth] + torch.randn(len(truth), features, generator=generator(1)), truth


def test_blobs_are_found():
    x, truth = blobs()
    assert clustering_accuracy(truth, SMALL.fit(x, 3, generator())) > 0.97


def test_self_training_sharpens_the_assignment(monkeypatch):
    x, _ = blobs(each=60)
    seen = []
    monkeypatch.setattr("fedkin.nn.deep_clustering.sharpened", lambda soft: seen.append(soft) or sharpened(soft))
    DeepEmbeddedClustering(hidden=(32,), code=4, pretrain_steps=60, tolerance=0.0, max_refreshes=8).fit(
        x, 3, generator()
    )
    assert len(seen) == 8
    assert seen[-1].max(dim=1).values.mean() > seen[0].max(dim=1).values.mean() + 0.01


def test_assignment_is_students_t():
    code, centroids = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    weights = torch.tensor([1.0, 1 / 2, 1 / 3])
    assert torch.allclose(assignment(code, centroids), (weights / weights.sum())[None])


def test_target_is_the_papers():
    soft = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    first = torch.tensor([0.81 / 1.5, 0.01 / 0.5])
    assert torch.allclose(sharpened(soft)[0], first / first.sum())


@given(st.integers(1, 20), st.integers(2, 5), st.integers(0, 99))
@settings(max_examples=30)
def test_rows_are_distributions_and_equal_columns_keep_the_winner(samples, clusters, seed):
    rng = generator(seed)
    soft = assignment(torch.randn(samples, 3, generator=rng), torch.randn(clusters, 3, generator=rng))
    for matrix in (soft, sharpened(soft)):
        assert (matrix > 0).all()
        assert torch.allclose(matrix.sum(dim=1), torch.ones(samples))
