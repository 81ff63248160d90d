"""Discrete features are replaced by what they share with others."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.features.shared_variation import shared_basis, unexplained_covariance


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


def test_the_directions_are_one_fewer_than_the_classes():
    rng = np.random.default_rng(0)
    odds = np.array([[0.1] * 8 + [0.9] * 4, [0.9] * 4 + [0.1] * 8, [0.1] * 4 + [0.9] * 4 + [0.1] * 4])
    truth = rng.integers(0, 3, 900)
    x = (rng.random((900, 12)) < odds[truth]).astype(float)
    basis = shared_basis(covariance(x), 900, torch.arange(12))
    assert basis.shape == (12, 2)
    inside = np.concatenate([(x @ basis.numpy())[truth == own] for own in range(3)])
    assert len(np.unique(inside.round(6), axis=0)) > len(np.unique(x, axis=0)) / 2


@pytest.mark.parametrize("numbers", [0, 3])
def test_independent_columns_share_nothing(numbers):
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=(1_000, numbers)), rng.integers(0, 2, (1_000, 8))])
    blocks = torch.cat([torch.full((numbers,), -1), torch.arange(8)])
    assert shared_basis(covariance(x), 1_000, blocks).shape[1] == max(numbers, 1)


def test_indicators_of_one_column_do_not_count_as_shared():
    rng = np.random.default_rng(2)
    kinds = np.eye(4)[rng.integers(0, 4, 1_000)]
    x = np.column_stack([rng.normal(size=(1_000, 2)), kinds])
    blocks = torch.tensor([-1, -1, 2, 2, 2, 2])
    assert shared_basis(covariance(x), 1_000, blocks).shape[1] == 2
    apart = torch.tensor([-1, -1, 2, 3, 4, 5])  # each is told by the others
    assert shared_basis(covariance(x), 1_000, apart).shape[1] > 2


def test_a_column_that_goes_with_the_numbers_stays():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 500)
    x = np.column_stack([rng.normal(size=500) + 2 * truth, truth != (rng.random(500) < 0.1)]).astype(float)
    basis = shared_basis(covariance(x), 500, torch.tensor([-1, 1]))
    assert basis.shape == (2, 2)
    assert abs(float(basis[1, 1])) > 0.1


@pytest.mark.parametrize("blocks", [[0, 1, 2], [-1, -1, 2]])
def test_columns_that_do_not_vary_are_no_obstacle(blocks):
    basis = shared_basis(torch.zeros(3, 3, dtype=torch.float64), 10, torch.tensor(blocks))
    assert basis.isfinite().all()
    assert basis.shape[1] >= 1


def test_copies_count_as_one_column():
    rng = np.random.default_rng(4)
    town = rng.integers(0, 4, 1_000)
    country, code = np.eye(2)[town // 2], np.eye(4)[(town + 1) % 4]
    others = rng.normal(size=(1_000, 2))
    x = np.column_stack([others, np.eye(4)[town], country, code])
    blocks = torch.tensor([-1, -1, *[2] * 4, *[6] * 2, *[8] * 4])
    assert shared_basis(covariance(x), 1_000, blocks).shape[1] == 2


def test_columns_that_mark_the_same_clusters_are_no_copies():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 1_000)
    flips = rng.random((1_000, 4)) < 0.02
    x = (truth[:, None] != flips).astype(float)
    basis = shared_basis(covariance(x), 1_000, torch.arange(4))
    assert basis.shape == (4, 1)
    assert (basis[:, 0].abs() > 0.1 * basis.abs().max()).all()


def test_what_others_leave_of_a_column_is_all_of_a_random_one_and_little_of_one_they_tell():
    rng = np.random.default_rng(0)
    number = rng.normal(size=4000)
    told, random = (number > 0).astype(float), (rng.random(4000) < 0.5).astype(float)
    blocks = torch.tensor([-1, 1, 2, 2])
    x = np.column_stack([number, told, random, 1 - random])
    left = unexplained_covariance(covariance(x), len(x), blocks)
    assert torch.equal(left[0], torch.zeros(4, dtype=torch.float64))  # numbers are not asked about
    assert torch.equal(left[1, 2:], torch.zeros(2, dtype=torch.float64))  # nor what two columns leave together
    assert left[1, 1] == pytest.approx(0.25 * (1 - 2 / np.pi), rel=0.1)  # squared correlation of a number and its sign
    assert left[2, 2] == pytest.approx(0.25, rel=0.05)
    copied = unexplained_covariance(covariance(np.column_stack([x, random])), len(x), torch.tensor([-1, 1, 2, 2, 3]))
    assert copied[2, 2] == pytest.approx(0.25, rel=0.05)  # its copy does not explain it


def test_of_constant_columns_nothing_is_left():
    assert not unexplained_covariance(torch.zeros(3, 3, dtype=torch.float64), 10, torch.tensor([-1, 0, 0])).any()
