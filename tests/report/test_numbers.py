from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.report.figures import Unit
from fedkin.report.numbers import nice_ticks, shown


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.booleans())
def test_ticks_enclose_the_values_evenly_and_are_few(low: float, span: float, whole: bool) -> None:
    high = low + span
    ticks = nice_ticks(low, high, whole=whole)
    slack = 1e-6 * (ticks[1] - ticks[0]) + 2 * math.ulp(abs(low) + span)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 7
    assert not whole or all(tick.is_integer() for tick in ticks)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.9446, "share", "0.945"),
        (3.14, "percent", "3.1 %"),
        (12.0, "count", "12"),
        (9.8, "count", "9.8"),
        (999.0, "bytes", "999 B"),
        (1000.0, "bytes", "1 kB"),
        (999.6, "bytes", "1 kB"),
        (41.2e6, "bytes", "41.2 MB"),
        (5e15, "bytes", "5 PB"),
        (None, "share", "–"),
        (math.nan, "number", "–"),
        (0.000123456, "number", "0.0001235"),
    ],
)
def test_numbers_are_shown_with_their_unit(value: float | None, unit: Unit, words: str) -> None:
    assert shown(value, unit) == words
