import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import DivergedError
from fedkin.nn.aggregation import Aggregation, Means


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


@pytest.mark.parametrize("aggregation", ["median", "trimmed-mean"])
@pytest.mark.parametrize("shared", [0, 1])
def test_one_of_five_cannot_move_the_middle_beyond_the_others(aggregation: Aggregation, shared: int) -> None:
    means = Means(2, 3, shared, aggregation)
    for client, value in enumerate((1.0, 1.1, 1.2, 1.3, 1e9)):
        means.add(0, torch.full((3,), value), 1e6 if value > 2 else 1.0, client)
    assert float(means.of(0).min()) >= 1.0
    assert float(means.of(0).max()) <= 1.3
    moved = means.apply_to(torch.zeros(2, 3))
    assert float(moved.abs().max()) <= 1.3
    assert moved[1].tolist() == [float(moved[0, 0]) if at < shared else 0.0 for at in range(3)]


def test_a_model_that_one_client_moves_by_many_times_its_length_has_exploded() -> None:
    means = Means(2, 4)
    for client, value in ((3, 1.0), (5, 1e3), (8, -1.0)):
        means.add(0, torch.full((4,), value), 1.0, client)
    with pytest.raises(DivergedError, match="exploded") as caught:
        means.apply_to(torch.ones(2, 4))
    assert list(caught.value.culprits) == [5]
    assert means.apply_to(torch.full((2, 4), 50.0)).isfinite().all()


def test_models_beyond_use_are_refused_with_or_without_a_culprit() -> None:
    means = Means(1, 2, aggregation="median")
    for client in range(3):
        means.add(0, torch.full((2,), 9e7), 1.0, client)
    with pytest.raises(DivergedError, match="no client's update stands out") as caught:
        means.apply_to(torch.full((1, 2), 5e7))
    assert caught.value.culprits == {}
    with pytest.raises(DivergedError, match="not finite"):
        means.check(torch.tensor([[torch.nan, 0.0]]))
