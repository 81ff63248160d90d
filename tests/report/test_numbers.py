from __future__ import annotations

import math

import pytest

from fedkin.report.figures import Unit
from fedkin.report.numbers import shown


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
