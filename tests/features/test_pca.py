"""Components from the moments of several clients are those of all samples together."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from fedkin.features.pca import FeatureMoments, components, moments, moments_of


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


@pytest.mark.parametrize("batch", [40, 1000])
def test_batches_make_no_difference(batch: int, monkeypatch: pytest.MonkeyPatch):
    x = rows()
    monkeypatch.setattr("fedkin.features.pca._BATCH", batch)
    torch.testing.assert_close(moments(x).scatter, moments_of(x).scatter, rtol=1e-5, atol=1e-4)


def test_a_triangle_and_a_sum_cross():
    sent = moments_of(rows()).payload()
    assert {name: getattr(value, "shape", None) for name, value in sent.items()} == {
        "count": None, "total": (12,), "scatter": (78,)
    }  # fmt: skip


def test_standardised_features_count_alike_and_constant_ones_not_at_all():
    x = torch.cat([rows(), torch.full((300, 1), 1e5)], 1)
    found = components(of_clients(x), 13, standardise=True)
    assert len(found.variances) == 12
    torch.testing.assert_close(found.variances.sum(), torch.tensor(12.0), rtol=1e-4, atol=0)
    assert found.directions[12].abs().max() == 0.0
    expected = np.linalg.eigvalsh(np.corrcoef(rows().numpy().T))[::-1]
    np.testing.assert_allclose(found.variances, expected, rtol=1e-3)


def test_only_what_varies_is_kept():
    x = rows(width=3) @ torch.randn(3, 9, generator=torch.Generator().manual_seed(1))
    assert len(components(of_clients(x), 9).variances) == 3
    same = components(moments_of(torch.ones(4, 5)), 3)
    assert ((torch.ones(2, 5) - same.mean) @ same.directions).tolist() == [[0.0], [0.0]]
