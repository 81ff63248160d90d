from __future__ import annotations

import math
import re

import pytest

from fedkin.report import Band, Curve, Mark, Timeline
from fedkin.report.charts import HEIGHT, TOP, WIDTH, line_chart
from fedkin.report.view import Unit


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


@pytest.mark.parametrize(
    "curve", [Curve("C", "", [], {}), Curve("C", "", [], {"a": []}), Curve("C", "", [0], {"a": [None]})]
)
def test_a_curve_without_values_says_so(curve: Curve) -> None:
    assert "No values yet." in line_chart(curve)


def test_one_step_is_drawn() -> None:
    assert line_chart(Curve("C", "", [3], {"a": [0.5]}, "share")).count("<circle") == 1


def test_pointing_shows_the_values_and_the_table_holds_all_of_them() -> None:
    steps = list(range(500))
    series = {"sent": [1500.0 * step for step in steps], "received": [float(step) for step in steps]}
    drawn = line_chart(Curve("Traffic", "", steps, series, "bytes", x_label="round"))
    assert 'data-tip="round 5\nreceived: 5 B\nsent: 7.5 kB"' in drawn
    assert drawn.count("data-tip") <= 120
    assert drawn.count("<td>") == 1000
    assert "<td>748500</td>" in drawn
    assert "sent (bytes)" in drawn


def test_series_do_not_depend_on_the_order_of_the_dict() -> None:
    one, two = {"a": [1.0], "b": [2.0]}, {"b": [2.0], "a": [1.0]}
    assert line_chart(Curve("C", "", [0], one)) == line_chart(Curve("C", "", [0], two))


PHASES = [Band("pre-training", 1, 20), Band("embedding", 21, 21), Band("training", 22, 60)]


def test_phases_are_bands_named_where_there_is_room() -> None:
    drawn = line_chart(Curve("C", "", range(1, 61), {"a": [1.0] * 60}, x_label="step"), Timeline(PHASES))
    assert re.findall(r'class="middle phase">([^<]*)<', drawn) == ["training", "pre-training"]
    bands = re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="\S+" class="band"', drawn)
    assert len(bands) == 1  # the middle one
    left, top, width = map(float, bands[0])
    assert top == TOP
    points = [float(x) for x in re.findall(r'class="stop" data-x="(\S+)"', drawn)]
    assert left < points[20] < left + width < points[21]
    assert points[19] < left
    assert 'data-tip="step 21 (embedding)\na: 1"' in drawn


def test_a_curve_within_one_phase_has_no_bands() -> None:
    drawn = line_chart(Curve("C", "", [22, 60], {"a": [1.0, 2.0]}), Timeline(PHASES))
    assert "phase" not in drawn
    assert "band" not in drawn
    assert "(training)" in drawn


def test_what_happened_is_marked_and_told_where_it_can_be_seen() -> None:
    marks = [Mark(1, "before"), Mark(3, "4 clients joined"), Mark(4, "2 clients moved", dashed=True)]
    drawn = line_chart(Curve("C", "", [2, 3, 4], {"a": [1.0, 2.0, 3.0]}, x_label="round"), Timeline(marks=marks))
    assert re.findall(r'class="(mark[^"]*)"', drawn) == ["mark", "mark dashed"]
    assert 'data-tip="round 3\na: 2\n4 clients joined"' in drawn
    assert "before" not in drawn


def test_a_mark_between_two_stops_is_told_at_the_one_before() -> None:
    drawn = line_chart(Curve("C", "", range(500), {"a": [1.0] * 500}), Timeline(marks=[Mark(7, "they moved")]))
    assert drawn.count("they moved") == 1
    assert 'data-tip="iteration 5\na: 1\nthey moved"' in drawn
