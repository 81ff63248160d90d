from __future__ import annotations

import re

from fedkin.report.charts import bar_chart, line_chart
from fedkin.report.drawings import WIDTH, arrange
from fedkin.report.figures import Bars, Curve, Mark


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
    drawn = line_chart(Curve("C", "", [2, 3, 4], {"a": [1.0, 2.0, None]}, x_label="round", marks=marks))
    assert drawn.count('class="mark"') == 2
    assert 'data-tip="round 3\na: 2\n4 clients joined"' in drawn
    assert "before" not in drawn


def test_bars_are_as_long_as_their_values_and_some_are_strong() -> None:
    drawn = bar_chart(Bars("Heights", "", ["1", "2", "3"], [4.0, 1.0, -1.0], [True, False, False], "merge"))
    assert re.findall(r'class="(bar[^"]*)" style="width:([\d.]+)%"', drawn) == [
        ("bar strong", "100.0"), ("bar", "25.0"), ("bar", "0.0")
    ]  # fmt: skip


def test_nodes_of_a_graph_lie_apart_and_inside_whatever_their_clusters() -> None:
    for clusters in ([0], [None] * 60, [number // 25 for number in range(500)] + [None] * 40, [0, 0, 1, None]):
        places, labels, height = arrange(clusters)
        assert all(room <= x <= WIDTH - room and room <= y <= height - room for x, y, room in places)
        assert len({(round(x, 3), round(y, 3)) for x, y, _ in places}) == len(clusters)
        assert all(y <= height for _, _, y in labels)
