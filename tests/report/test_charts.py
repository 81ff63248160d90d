from __future__ import annotations

import math
import re

import pytest

from fedkin.report import Band, Curve, Mark, Timeline
from fedkin.report.charts import HEIGHT, MAX_STOPS, TOP, WIDTH, line_chart
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


def test_what_happened_is_marked_and_reported_where_it_can_be_seen() -> None:
    marks = [Mark(1, "before"), Mark(3, "4 clients joined"), Mark(4, "2 clients moved", dashed=True)]
    drawn = line_chart(Curve("C", "", [2, 3, 4], {"a": [1.0, 2.0, 3.0]}, x_label="round"), Timeline(marks=marks))
    assert re.findall(r'class="(mark[^"]*)"', drawn) == ["mark", "mark dashed"]
    assert 'data-tip="round 3\na: 2\n4 clients joined"' in drawn
    assert "before" not in drawn


def test_a_mark_between_two_stops_is_reported_at_the_one_before() -> None:
    drawn = line_chart(Curve("C", "", range(500), {"a": [1.0] * 500}), Timeline(marks=[Mark(7, "they moved")]))
    assert drawn.count("they moved") == 1
    assert 'data-tip="iteration 5\na: 1\nthey moved"' in drawn


def test_long_curves_have_a_stop_at_their_last_step() -> None:
    drawn = line_chart(Curve("C", "", range(241), {"a": [1.0] * 241}))
    assert 'data-tip="iteration 240\na: 1"' in drawn
    assert drawn.count("data-tip") <= MAX_STOPS


def test_stops_hold_the_place_of_every_value() -> None:
    drawn = line_chart(Curve("C", "", [1, 2], {"a": [1.0, None], "b": [2.0, 3.0]}))
    circles = re.findall(r'<circle cx="(\S+)" cy="(\S+)"', drawn)
    stops = re.findall(r'class="stop" data-x="(\S+)" data-y="(\S*)"', drawn)
    assert stops == [(circles[0][0], f"{circles[0][1]},{circles[1][1]}"), (circles[2][0], f",{circles[2][1]}")]


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


def test_references_have_the_colour_of_their_series_or_one_of_their_own() -> None:
    drawn = line_chart(uncertain())
    assert re.findall(r'class="(reference s\d|reference alone)"', drawn) == [
        "reference alone", "reference s2", "reference s0", "reference s2"
    ]  # fmt: skip
    assert "<li>paper" not in drawn
    assert "</svg>paper</li>" in drawn
    assert "</svg>oracle</li>" in drawn
    assert "</svg>interval</li>" in drawn


def test_a_band_covers_the_intervals_and_a_lone_one_is_a_bar() -> None:
    drawn = line_chart(uncertain())
    band = re.search(r'<path d="M([^"]*)z" class="between"', drawn)
    assert band
    corners = [tuple(map(float, corner.split())) for corner in band[1].split("L")]
    assert len(corners) == 4
    assert corners[0][0] == corners[3][0] < corners[1][0] == corners[2][0]
    assert corners[0][1] > corners[3][1]  # upwards is less
    lone = line_chart(uncertain(intervals={"a": [None, None, (0.6, 0.8)]}))
    assert 'class="between"' not in lone.split("</ul>")[1]
    assert 'class="bar-of-one"' in lone


def test_all_that_is_compared_lies_inside_the_drawing() -> None:
    drawn = line_chart(uncertain(intervals={"a": [(-5.0, 9.0)] * 3}, reference={"oracle": [20.0, -20.0, 0.0]}))
    points = re.findall(r'<rect x="(\S+)" y="(\S+)" width="6.8"', drawn.split("</ul>")[1])
    assert len(points) == 3
    assert all(0 <= float(x) <= WIDTH and TOP - 4 <= float(y) <= HEIGHT for x, y in points)


@pytest.mark.parametrize("ends", [(math.nan, 1.0), (0.0, math.inf)])
def test_an_interval_without_an_end_is_not_drawn(ends: tuple[float, float]) -> None:
    drawn = line_chart(uncertain(intervals={"a": [ends] * 3}))
    assert "interval" not in drawn
    assert "from" not in drawn


@pytest.mark.parametrize(
    ("steps", "labels"),
    [
        ([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"]),
        ([0.0, 0.01, 1.0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([1.0, 3.0, 7.0], ["1", "2", "3", "4", "5", "6", "7"]),
    ],
)
def test_steps_are_named_as_they_are_where_they_are_few_and_apart(steps: list[float], labels: list[str]) -> None:
    drawn = line_chart(Curve("C", "", steps, {"a": [1.0] * len(steps)}))
    assert re.findall(r'class="middle">([\d.]+)<', drawn) == labels
