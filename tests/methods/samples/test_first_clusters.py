import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.methods.samples.first_clusters import initial_labels


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(clusters, each, features=8, seed=0):
    rng = generator(seed)
    centres = 12 * torch.eye(clusters, features)
    truth = torch.arange(clusters).repeat_interleave(each)
    return centres[truth] + torch.randn(len(truth), features, generator=rng), truth


def digits(classes, each):
    data = load_digits()
    truth = torch.from_numpy(data.target)
    rows = torch.cat([(truth == c).nonzero().flatten()[:each] for c in classes])
    return torch.from_numpy(data.data[rows.numpy()] / 16).float(), truth[rows]


def test_the_embedding_beats_kmeans_on_digits():
    clients = [digits(classes, 50) for classes in [(1, 8, 9), (3, 5, 8, 2), (0, 4, 6, 7, 9), (7, 1)]]
    score = {}
    for how in ("embedding", "kmeans"):
        found = [initial_labels(x, how, len(set(y.tolist())), generator()) for x, y in clients]
        score[how] = sum(clustering_accuracy(y, labels) for (_, y), labels in zip(clients, found, strict=True)) / len(
            clients
        )
    assert score["embedding"] > max(0.92, score["kmeans"])


@pytest.mark.parametrize("how", ["dec", "embedding", "kmeans"])
def test_same_generator_same_labels_and_no_global_randomness(how):
    x, _ = blobs(3, 12)
    before = torch.get_rng_state()
    first, second = (initial_labels(x, how, 3, generator(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.get_rng_state())


@given(
    samples=st.integers(1, 45),
    features=st.integers(1, 4),
    values=st.integers(1, 6),
    seed=st.integers(0, 99),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_labels_are_compact_whatever_the_data(samples, features, values, seed, data):
    x = torch.randint(values, (samples, features), generator=generator(seed)).float()
    wanted = data.draw(st.none() | st.integers(1, 8))
    labels = initial_labels(x, data.draw(st.sampled_from(["embedding", "kmeans"])), wanted, generator(seed), 6)
    found = labels.unique().tolist()
    distinct = len(x.unique(dim=0))
    assert labels.dtype == torch.int64
    assert labels.shape == (samples,)
    assert found == list(range(len(found)))
    assert len(found) <= min(distinct, 6 if wanted is None else wanted)
    if wanted is not None and samples > 3:
        assert len(found) == min(wanted, distinct)


@pytest.mark.parametrize("how", ["dec", "embedding", "kmeans"])
@pytest.mark.parametrize("x", [torch.zeros(1, 5), torch.rand(3, 5), torch.ones(40, 5)])
def test_tiny_and_constant_clients_are_one_cluster(how, x):
    assert initial_labels(x, how, None, generator()).tolist() == [0] * len(x)
    assert initial_labels(x, how, 2, generator()).tolist() == [0] * len(x)
