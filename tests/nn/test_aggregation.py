import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.nn.aggregation import Means, weighted_mean


@given(st.permutations(range(5)))
def test_the_order_of_clients_does_not_matter(order):
    models = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    weights = [3.0, 1.0, 4.0, 1.0, 5.0]
    torch.testing.assert_close(
        weighted_mean(models[order], [weights[i] for i in order]), weighted_mean(models, weights)
    )


def test_weights_are_shares_of_samples():
    models = torch.tensor([[0.0, 2.0], [4.0, 2.0]])
    assert weighted_mean(models, [30, 10]).tolist() == [1.0, 2.0]
    assert weighted_mean(models[:1], [7]).tolist() == [0.0, 2.0]


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0.5, 9), st.floats(-9, 9)), max_size=12))
def test_means_are_weighted_means_by_cluster(entries):
    means = Means(3, 2)
    for cluster, weight, value in entries:
        means.add(cluster, torch.tensor([value, 1.0]), weight)
    for cluster in range(3):
        inside = [(weight, value) for to, weight, value in entries if to == cluster]
        total = sum(weight for weight, _ in inside)
        expected = [sum(weight * value for weight, value in inside) / total, 1.0] if inside else [0.0, 0.0]
        assert means.of(cluster).tolist() == pytest.approx(expected, abs=1e-5)
    assert means.all().shape == (3, 2)
    assert means.all().dtype == torch.float32


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0.5, 9), st.floats(-9, 9), st.floats(-9, 9)), max_size=12),
    st.integers(0, 2),
)
def test_leading_numbers_may_be_averaged_over_all_clusters(entries, shared):
    means, separate = Means(3, 2, shared=shared), Means(3, 2)
    for cluster, weight, *values in entries:
        means.add(cluster, torch.tensor(values), weight)
        separate.add(cluster, torch.tensor(values), weight)
    every, own = means.all(), separate.all()
    assert torch.equal(every[:, shared:], own[:, shared:])
    total = sum(weight for _, weight, *_ in entries)
    for at in range(shared):  # also in clusters that nobody gave anything
        expected = sum(weight * values[at] for _, weight, *values in entries) / total if entries else 0.0
        assert every[:, at].tolist() == pytest.approx([expected] * 3, abs=1e-5)
    assert every.shape == (3, 2)


def test_sums_are_made_in_double_precision():
    means = Means(1, 1)
    for value in (1e8, 1.0, -1e8):
        means.add(0, torch.tensor([value]), 1.0)
    assert float(means.of(0)) == pytest.approx(1 / 3)
