import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cosine_similarity

from fedkin.methods.clients.update_splits import cosine_distances, cosine_similarities

rows = st.lists(st.lists(st.integers(-50, 50), min_size=5, max_size=5), min_size=1, max_size=6)


@given(rows)
def test_similarities_are_cosines(values):
    updates = torch.tensor(values).float()
    matrix = cosine_similarities(updates)
    expected = cosine_similarity(updates[:, None].double(), updates[None].double(), dim=2)
    assert matrix.dtype == torch.float64
    assert torch.allclose(matrix, expected.fill_diagonal_(1.0), atol=1e-7)
    assert torch.equal(matrix, matrix.T)
    assert torch.equal(cosine_distances(updates), 1 - matrix)
    assert bool((matrix.abs() <= 1).all())


def test_an_update_of_length_0_is_like_no_other():
    matrix = cosine_similarities(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert torch.equal(matrix, torch.eye(3, dtype=torch.float64))


def test_wide_updates_are_compared_in_parts_without_a_difference(monkeypatch):
    updates = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
    whole = cosine_similarities(updates)
    monkeypatch.setattr("fedkin.methods.clients.update_splits._COLUMNS", 64)
    assert torch.allclose(cosine_similarities(updates), whole, atol=1e-12)
