import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.learning.aggregate import weighted_mean


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
