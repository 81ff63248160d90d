"""Bisection finds where a condition begins to hold, however far up."""

import pytest

from fedkin.core.seeds import bisect, bisect_upwards


def test_the_interval_closes_around_the_threshold():
    low, high = bisect(lambda number: number > 0.3, 0.0, 1.0)
    assert low <= 0.3 < high
    assert high - low < 1e-15


@pytest.mark.parametrize("threshold", [1e-9, 0.7, 1.0, 12345.6])
def test_the_search_goes_up_as_far_as_it_must(threshold: float):
    low, high = bisect_upwards(lambda number: number >= threshold)
    assert low < threshold <= high
    assert high == pytest.approx(threshold, rel=1e-12)
