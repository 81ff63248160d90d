from __future__ import annotations

import re

import numpy as np
import pytest

from fedkin.report.charts import bar_chart, client_clusters, line_chart
from fedkin.report.figures import Bars, ClientClusters, Curve, Mark


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
    marks = [Mark(1, "before"), Mark(3, "4 clients joined"), Mark(4, "2 clients moved")]
    drawn = line_chart(Curve("C", "", [2, 3, 4], {"a": [1.0, 2.0, 3.0]}, x_label="round", marks=marks))
    assert re.findall(r'class="(mark[^"]*)"', drawn) == ["mark", "mark"]
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
    assert 'data-tip="p 0\na: 0.500 (0.400 to 0.600)\nb: 0.400\na, paper: 0.550\noracle: 0.950"' in drawn
    assert re.findall(r'class="(?:line|reference) (s\d)"><path d="M\d', drawn)[:4] == ["s0", "s1", "s0", "s2"]
    heads = re.findall(r'<th scope="col">([^<]*)<', drawn)
    assert heads == ["p", "a", "a, from", "a, to", "b", "a, paper", "oracle"]
    assert "<td>0.6</td><td>0.5</td><td>0.7</td><td>0.4</td><td></td><td>0.95</td>" in drawn


# Curves of few steps.


# Bars.


def bars(values: list[float], **changes: object) -> Bars:
    names = [str(at) for at in range(1, len(values) + 1)]
    plain = {"title": "Heights", "caption": "High.", "names": names, "values": values, "x_label": "merge"}
    return Bars(**{**plain, "strong": [False] * len(values), **changes})  # type: ignore[arg-type]


def boxes(markup: str) -> list[tuple[str, float, float, float, float]]:
    """Look, left, top, width and height of every bar."""
    found = re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" class="(bar[^"]*)"', markup)
    return [(look, float(x), float(y), float(w), float(h)) for x, y, w, h, look in found]


def test_bars_are_as_long_as_their_values_and_those_beyond_the_line_end_beyond_it() -> None:
    markup = bar_chart(bars([4.0, 2.0, 1.0], strong=[True, False, False], line=3.0, line_name="cut at 3"))
    (first, left, _, long, _), (second, _, _, short, _), (_, _, _, shortest, _) = boxes(markup)
    assert (first, second) == ("bar strong", "bar")
    assert long == pytest.approx(2 * short, abs=0.2)
    assert short == pytest.approx(2 * shortest, abs=0.2)
    line = re.search(r'd="M(\S+) \S+L\S+ \S+" class="mark dashed"', markup)
    assert line
    assert float(line[1]) == pytest.approx(left + 0.75 * long, abs=0.2)
    assert "cut at 3" in markup


# Lanes.


BOX = re.compile(r"M(\S+) (\S+?)h(\S+?)v(\S+?)H(\S+?)z")


def lanes(clusters: list[list[int]], **changes: object) -> str:
    table = np.array(clusters)
    names, steps = [str(i) for i in range(len(table))], list(range(1, table.shape[1] + 1))
    return client_clusters(ClientClusters(**{"clients": names, "steps": steps, "clusters": table, **changes}))


def lane_boxes(markup: str) -> dict[str, list[tuple[float, ...]]]:
    """Boxes by class of lane: left, top, width, height."""
    paths = re.findall(r'<path d="([^"]*)" class="lane ([^"]*)"', markup)
    return {look: [tuple(map(float, box[:4])) for box in BOX.findall(path)] for path, look in paths}


def names(markup: str) -> list[str]:
    return re.findall(r'class="end">([^<]*)<', markup)


def test_a_lane_changes_colour_where_the_client_changes_cluster() -> None:
    found = lane_boxes(lanes([[0, 0, 0, 9], [-1, 9, 9, 9]]))
    assert {look: len(own) for look, own in found.items()} == {"alone": 1, "c0 m0": 1, "c1 m1": 2}
    assert found["c0 m0"][0][2] == pytest.approx(3 * found["alone"][0][2], abs=2)


def test_the_table_tells_members_hidden_clusters_and_scores() -> None:
    markup = lanes([[1], [0], [0], [0], [-1], [0]], hidden=["A", "A", "B", "B", "B", "B"], scores={0: 0.9})
    assert re.findall(r"<td>([^<]*)</td>", markup) == [
        "4", "3 B, 1 A", "0.900", "1–3, 5",
        "1", "1 A", "–", "0",
        "1", "1 B", "–", "4",
    ]  # fmt: skip
