from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.report import Bars
from fedkin.report.bars import HEIGHT, WIDTH, bar_chart


def bars(values: list[float], **changes: object) -> Bars:
    names = [str(at) for at in range(1, len(values) + 1)]
    plain = {"title": "Heights", "caption": "High.", "names": names, "values": values, "x_label": "merge"}
    return Bars(**{**plain, "strong": [False] * len(values), **changes})  # type: ignore[arg-type]


def boxes(markup: str) -> list[tuple[str, float, float, float, float]]:
    """Look, left, top, width and height of every bar."""
    found = re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" class="(bar[^"]*)"', markup)
    return [(look, float(x), float(y), float(w), float(h)) for x, y, w, h, look in found]


NUMBERS = st.integers(-100_000, 100_000).map(lambda thousandths: thousandths / 1000)


@settings(max_examples=30)
@given(st.lists(NUMBERS, min_size=1, max_size=40), st.none() | NUMBERS)
def test_bars_stay_inside_and_do_not_overlap(values: list[float], line: float | None) -> None:
    found = boxes(bar_chart(bars(values, line=line)))
    assert len(found) == len(values)
    for _, x, y, width, height in found:
        assert 0 <= x <= x + width <= WIDTH
        assert 0 <= y <= y + height <= HEIGHT
    assert all(one[1] + one[3] < other[1] + 0.2 for one, other in pairwise(found))


def test_bars_are_as_high_as_their_values_and_those_above_the_line_end_above_it() -> None:
    markup = bar_chart(bars([4.0, 2.0, 1.0], strong=[True, False, False], line=3.0, line_name="cut at 3"))
    (first, *_, top, _, high), (second, *_, low), (_, *_, lowest) = boxes(markup)
    assert (first, second) == ("bar strong", "bar")
    assert high == pytest.approx(2 * low, abs=0.2)
    assert low == pytest.approx(2 * lowest, abs=0.2)
    across = re.search(r'd="M\S+ (\S+)H\S+" class="mark dashed"', markup)
    assert across
    assert float(across[1]) - top == pytest.approx(high / 4, abs=0.2)
    assert "cut at 3" in markup


@settings(max_examples=30)
@given(st.lists(NUMBERS, min_size=3, max_size=3))
def test_lying_bars_stay_inside_on_both_sides_of_zero(values: list[float]) -> None:
    for _, x, _, width, _ in boxes(bar_chart(bars(values, names=["long names " * 3] * 3))):
        assert 0 <= x <= x + width <= WIDTH


@pytest.mark.parametrize("names", [["1", "2"], ["a long name of one", "a long name of two"]])
def test_errors_are_whiskers_and_stand_behind_the_values(names: list[str]) -> None:
    markup = bar_chart(bars([0.5, 1.0], names=names, errors=[0.25, None]))
    [whisker] = re.findall(r'<path d="M(\S+) (\S+)L(\S+) (\S+)" class="whisker">', markup)
    [one, other] = boxes(markup)
    x0, y0, x1, y1 = map(float, whisker)
    if x0 == x1:
        assert y0 - y1 == pytest.approx(other[4] / 2, abs=0.2)
        assert (y0 + y1) / 2 == pytest.approx(one[2], abs=0.2)
    else:
        assert x1 - x0 == pytest.approx(other[3] / 2, abs=0.2)
        assert (x0 + x1) / 2 == pytest.approx(one[1] + one[3], abs=0.2)
        assert max(x1, other[1] + other[3]) < WIDTH
    assert "0.500 ± 0.250" in markup
    assert "<td>0.25</td>" in markup
