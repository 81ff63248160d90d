"""Components from the moments of several clients are those of all samples together."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from fedkin.features.pca import FeatureMoments, components, moments, shared_basis


def rows(n: int = 300, width: int = 12, mean: float = 3.0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(0)
    return torch.randn(n, width, generator=rng) * torch.logspace(0.5, -1, width) + mean


def of_clients(x: torch.Tensor, sizes: tuple[int, ...] = (1, 40, 259)) -> FeatureMoments:
    first, *others = (FeatureMoments.received(moments(part).payload()) for part in x.split(sizes))
    return sum(others, start=first)


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e3])
def test_they_equal_those_of_the_pooled_samples(mean: float):
    x = rows(mean=mean)
    found, expected = components(of_clients(x), 5), PCA(5).fit(x.double().numpy())
    np.testing.assert_allclose(found.variances, expected.explained_variance_ * 299 / 300, rtol=2e-4)
    np.testing.assert_allclose(np.abs(expected.components_ @ found.directions.numpy()), np.eye(5), atol=2e-3)
    np.testing.assert_allclose(found.mean, expected.mean_, rtol=1e-6, atol=1e-6)
    assert (found.directions.gather(0, found.directions.abs().argmax(0, keepdim=True)) > 0).all()


def covariance(x):
    return torch.from_numpy(np.atleast_2d(np.cov(x.T, bias=True)))


def latent_classes(rng, rows, columns, numbers=0):
    """Rows of three classes, truth values of 0 and 1 beside numbers, and which features are discrete."""
    truth = rng.integers(0, 3, rows)
    odds = rng.choice([0.05, 0.95], size=(3, columns))
    binary = (rng.random((rows, columns)) < odds[truth]).astype(float)
    x = np.column_stack([rng.normal(size=(rows, numbers)) + 3 * truth[:, None], binary])
    return x, truth, torch.cat([torch.full((numbers,), -1), torch.arange(columns) + numbers])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(50, 500), columns=st.integers(1, 6), numbers=st.integers(0, 3))
def test_a_basis_has_the_numbers_and_is_finite(seed, rows, columns, numbers):
    rng = np.random.default_rng(seed)
    x, _, blocks = latent_classes(rng, rows, columns, numbers)
    basis = shared_basis(covariance(x), rows, blocks)
    assert basis.isfinite().all()
    assert torch.equal(basis[:, :numbers], torch.eye(len(blocks), dtype=torch.float64)[:, :numbers])
    assert max(numbers, 1) <= basis.shape[1] <= len(blocks)


def test_indicators_of_one_column_do_not_count_as_shared():
    rng = np.random.default_rng(2)
    kinds = np.eye(4)[rng.integers(0, 4, 1_000)]
    x = np.column_stack([rng.normal(size=(1_000, 2)), kinds])
    blocks = torch.tensor([-1, -1, 2, 2, 2, 2])
    assert shared_basis(covariance(x), 1_000, blocks).shape[1] == 2
    apart = torch.tensor([-1, -1, 2, 3, 4, 5])  # each is told by the others
    assert shared_basis(covariance(x), 1_000, apart).shape[1] > 2
