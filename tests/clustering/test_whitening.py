"""What neighbours differ by does not count."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.clustering import whitening
from fedkin.clustering.whitening import fewest_samples, local_scatter, whitened


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("dimensions", "samples"), [(1, 10), (10, 10), (30, 30), (60, 60), (128, 64)])
def test_as_many_samples_as_dimensions_suffice(dimensions: int, samples: int):
    assert fewest_samples(dimensions) == samples


@pytest.mark.parametrize(("n", "neighbours"), [(2, 1), (8, 2), (63, 3), (64, 4), (216, 6)])
def test_points_are_compared_with_as_many_neighbours_as_the_cube_root_of_their_number(n: int, neighbours: int):
    x = torch.randn(n, 3, generator=generator())
    apart = torch.cdist(x, x).fill_diagonal_(torch.inf)
    near = apart.topk(neighbours, largest=False).indices
    differences = (x[:, None] - x[near]).reshape(-1, 3).double()
    expected = differences.T @ differences / len(differences)
    torch.testing.assert_close(local_scatter(x, generator(1)), expected)


def test_of_many_points_some_are_asked(monkeypatch: pytest.MonkeyPatch):
    x = torch.rand(900, 2, generator=generator())
    whole = local_scatter(x, generator())
    assert torch.allclose(local_scatter(x, generator(1)), whole)
    monkeypatch.setattr(whitening, "_QUERIES", 300)
    part = local_scatter(x, generator())
    assert not torch.allclose(part, whole)
    torch.testing.assert_close(part.trace(), whole.trace(), rtol=0.3, atol=0.0)


@given(st.integers(1, 6), st.integers(0, 1000))
def test_full_power_makes_neighbours_differ_alike_in_all_directions(d: int, seed: int):
    root = torch.randn(d, d, generator=generator(seed), dtype=torch.float64) + 3 * torch.eye(d, dtype=torch.float64)
    scatter = root @ root.T
    directions = torch.linalg.qr(torch.randn(d + 2, d, generator=generator(seed + 1)))[0]
    scaled = whitened(directions, scatter, 10**12, 1.0)
    by = (directions.T @ scaled).double()
    alike = scatter.trace() / d * torch.eye(d, dtype=torch.float64)
    torch.testing.assert_close(by.T @ scatter @ by, alike, rtol=1e-3, atol=1e-3 * float(scatter.max()))


def test_little_evidence_changes_little_and_none_nothing():
    scatter, directions = torch.diag(torch.tensor([1.0, 100.0], dtype=torch.float64)), torch.eye(2)
    few, many = (whitened(directions, scatter, samples, 1.0).diagonal() for samples in (1, 10_000))
    assert 1 < few[0] / few[1] < 2 < many[0] / many[1] < 10
    torch.testing.assert_close(whitened(directions, scatter, 100, 0.0), directions)
    assert torch.equal(whitened(directions, torch.zeros(2, 2, dtype=torch.float64), 0, 1.0), directions)
    assert torch.equal(whitened(directions, torch.zeros(2, 2, dtype=torch.float64), 100, 1.0), directions)


def test_with_ties_no_direction_grows_without_end():
    scatter, directions = torch.diag(torch.tensor([1e-6, 1.0, 1.0], dtype=torch.float64)), torch.eye(3)
    free, tied = (whitened(directions, scatter, 10_000, 1.0, ties).diagonal() for ties in (False, True))
    torch.testing.assert_close(tied[1:], free[1:])
    assert free[0] > 20
    assert float(tied[0]) == pytest.approx(5**0.5)
