import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.studies.compare.one_peak_samples import OnePeakSamples, _with_one_peak

ROWS = 400


def drawn(x: np.ndarray, blocks: list[tuple[str, int, int]] | None = None) -> np.ndarray:
    return OnePeakSamples(x, blocks or [(str(i), i, i + 1) for i in range(x.shape[1])]).drawn(np.random.default_rng(1))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=12).filter(any))
def test_shares_get_one_peak_and_stay_shares(counts: list[int]) -> None:
    shares = np.array(counts) / sum(counts)
    found = _with_one_peak(shares, np.ones(len(shares)))
    assert found.sum() == pytest.approx(1)
    rises = np.sign(np.round(np.diff(found), 9))
    assert not np.any((rises[:-1] < 0)[:, None] & (rises[1:] > 0)[None] & np.triu(np.ones((len(rises) - 1,) * 2, bool)))


def test_what_has_one_peak_stays_as_it_is() -> None:
    shares = np.array([0.1, 0.2, 0.4, 0.25, 0.05])
    np.testing.assert_allclose(_with_one_peak(shares, np.ones(5)), shares)


def test_the_gap_between_two_peaks_is_filled_and_ranks_correlate_as_before() -> None:
    rng = np.random.default_rng(0)
    side = rng.choice([-5.0, 5.0], ROWS)
    x = np.stack([side + rng.standard_normal(ROWS), side + rng.standard_normal(ROWS)], 1)
    found = drawn(x)
    assert np.mean(np.abs(x) < 2) < 0.01
    assert np.mean(np.abs(found) < 2) > 0.1
    assert np.corrcoef(found.T)[0, 1] > 0.6
    assert x.min() <= found.min()
    assert found.max() <= x.max()


def test_skew_stays_and_whole_numbers_stay_whole() -> None:
    rng = np.random.default_rng(0)
    x = np.stack([rng.exponential(size=ROWS), rng.poisson(3.0, ROWS) * 0.5, rng.random(ROWS) < 0.2], 1).astype(float)
    found = drawn(x)
    assert np.quantile(found[:, 0], [0.25, 0.5, 0.9]) == pytest.approx(np.quantile(x[:, 0], [0.25, 0.5, 0.9]), rel=0.3)
    assert set(np.unique(found[:, 1] * 2 % 1)) == {0.0}
    assert set(np.unique(found[:, 2])) == {0.0, 1.0}
    assert found[:, 2].mean() == pytest.approx(x[:, 2].mean(), abs=0.07)


def test_categories_are_shuffled_together_and_values_that_repeat_are_kept() -> None:
    rng = np.random.default_rng(0)
    hot = np.eye(3)[rng.choice(3, ROWS)]
    much = np.where(rng.random(ROWS) < 0.4, 0.0, rng.exponential(size=ROWS))
    found = drawn(np.column_stack([hot, much, np.full(ROWS, 7.0)]), [("kind", 0, 3), ("much", 3, 4), ("same", 4, 5)])
    np.testing.assert_array_equal(found[:, :3].sum(0), hot.sum(0))
    np.testing.assert_array_equal(found[:, :3].sum(1), 1)
    assert set(found[:, 3]) <= set(much)
    assert set(found[:, 4]) == {7.0}


def test_yes_and_no_are_as_frequent_together_as_before() -> None:
    rng = np.random.default_rng(0)
    x = (rng.multivariate_normal([0, 0.5], [[1, 0.8], [0.8, 1]], ROWS) > 0) * 1.0
    assert np.mean(drawn(x).prod(1)) == pytest.approx(np.mean(x.prod(1)), abs=0.06)
    assert np.corrcoef(drawn(x).T)[0, 1] == pytest.approx(np.corrcoef(x.T)[0, 1], abs=0.1)
