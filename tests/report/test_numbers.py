from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.report.figures import Unit
from fedkin.report.numbers import format_bytes, nice_ticks, shown


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
        (41.2e6, "bytes", "41.2 MB"),
        (None, "share", "–"),
        (math.nan, "number", "–"),
        (0.000123456, "number", "0.0001235"),
    ],
)
def test_numbers_are_shown_with_their_unit(value: float | None, unit: Unit, words: str) -> None:
    assert shown(value, unit) == words


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (123_456, "123 kB"),
        (208_600_000, "209 MB"),
        (999_999_999, "1 GB"),
        (5e15, "5 PB"),
    ],
)
def test_bytes_have_three_digits(count: float, text: str) -> None:
    assert format_bytes(count) == text
