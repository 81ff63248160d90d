from __future__ import annotations

import math
import re

import pytest

from fedkin.report import Curve, Mark, Timeline
from fedkin.report.charts import HEIGHT, WIDTH, line_chart
from fedkin.report.timeline import Unit


def test_missing_values_leave_gaps_and_lone_values_a_dot() -> None:
    values = [1.0, 2.0, None, math.nan, 3.0, math.inf, 2.0, 1.0]
    drawn = line_chart(Curve("C", "", range(8), {"a": values}))
    path = re.search(r'class="line s0"><path d="([^"]*)"', drawn)
    assert path
    assert [run.count("L") for run in path[1].split("M")[1:]] == [1, 0, 1]
    assert drawn.count("<circle") == 5
    assert "nan" not in drawn.lower()
    assert "inf" not in drawn.lower()


@pytest.mark.parametrize("unit", ["number", "count", "share", "percent", "bytes"])
@pytest.mark.parametrize("values", [[0.0, 0.0], [0.7, 0.7], [-3.0, 5e9], [1e-7, 2e-7], [1e12, 1e12 + 1]])
def test_every_point_lies_inside_the_drawing(unit: Unit, values: list[float]) -> None:
    drawn = line_chart(Curve("C", "", [1, 2], {"a": values}, unit))
    points = re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', drawn)
    assert len(points) == 2
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)


def test_pointing_shows_the_values_and_the_table_holds_all_of_them() -> None:
    steps = list(range(500))
    series = {"sent": [1500.0 * step for step in steps], "received": [float(step) for step in steps]}
    drawn = line_chart(Curve("Traffic", "", steps, series, "bytes", x_label="round"))
    assert 'data-tip="round 5\nreceived: 5 B\nsent: 7.5 kB"' in drawn
    assert drawn.count("data-tip") <= 120
    assert drawn.count("<td>") == 1000
    assert "<td>748500</td>" in drawn
    assert "sent (bytes)" in drawn


def test_what_happened_is_marked_and_reported_where_it_can_be_seen() -> None:
    marks = [Mark(1, "before"), Mark(3, "4 clients joined"), Mark(4, "2 clients moved", dashed=True)]
    drawn = line_chart(Curve("C", "", [2, 3, 4], {"a": [1.0, 2.0, 3.0]}, x_label="round"), Timeline(marks=marks))
    assert re.findall(r'class="(mark[^"]*)"', drawn) == ["mark", "mark dashed"]
    assert 'data-tip="round 3\na: 2\n4 clients joined"' in drawn
    assert "before" not in drawn


def uncertain(**changes: object) -> Curve:
    plain = {
        "x": [0.0, 0.25, 1.0],
        "series": {"a": [0.5, 0.6, 0.7], "b": [0.4, 0.4, 0.4]},
        "unit": "share",
        "x_label": "p",
        "intervals": {"a": [(0.4, 0.6), (0.5, 0.7), None]},
        "reference": {"a": [0.55, None, 0.9], "oracle": [0.95, 0.95, 0.95]},
    }
    return Curve("C", "", **{**plain, **changes})  # type: ignore[arg-type]


def test_intervals_and_references_are_shown_beside_the_values_they_belong_to() -> None:
    drawn = line_chart(uncertain())
    assert 'data-tip="p 0\na: 0.500 (0.400 to 0.600); paper 0.550\nb: 0.400\noracle: 0.950"' in drawn
    assert 'data-tip="p 1\na: 0.700; paper 0.900\nb: 0.400\noracle: 0.950"' in drawn
    heads = re.findall(r'<th scope="col">([^<]*)<', drawn)
    assert heads == ["p", "a", "a, from", "a, to", "a, paper", "b", "oracle"]
    assert "<td>0.6</td><td>0.5</td><td>0.7</td><td></td><td>0.4</td><td>0.95</td>" in drawn
