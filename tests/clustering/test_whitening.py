"""What neighbours differ by does not count."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.integers(1, 6), st.integers(0, 1000))
def test_full_power_makes_neighbours_differ_alike_in_all_directions(d: int, seed: int):
    root = torch.randn(d, d, generator=generator(seed), dtype=torch.float64) + 3 * torch.eye(d, dtype=torch.float64)
    scatter = root @ root.T
    directions = torch.linalg.qr(torch.randn(d + 2, d, generator=generator(seed + 1)))[0]
    scaled = whitened(directions, scatter, 10**12, 1.0)
    by = (directions.T @ scaled).double()
    alike = scatter.trace() / d * torch.eye(d, dtype=torch.float64)
    torch.testing.assert_close(by.T @ scatter @ by, alike, rtol=1e-3, atol=1e-3 * float(scatter.max()))


def test_with_ties_no_direction_grows_without_end():
    scatter, directions = torch.diag(torch.tensor([1e-6, 1.0, 1.0], dtype=torch.float64)), torch.eye(3)
    free, tied = (whitened(directions, scatter, 10_000, 1.0, ties).diagonal() for ties in (False, True))
    torch.testing.assert_close(tied[1:], free[1:])
    assert free[0] > 20
    assert float(tied[0]) == pytest.approx(5**0.5)
