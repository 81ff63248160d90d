from __future__ import annotations

from fedkin.report.charts import line_chart
from fedkin.report.drawings import WIDTH, arrange
from fedkin.report.figures import Curve


def test_pointing_shows_the_values_and_the_table_holds_all_of_them() -> None:
    steps = list(range(500))
    series = {"sent": [1500.0 * step for step in steps], "received": [float(step) for step in steps]}
    drawn = line_chart(Curve("Traffic", "", steps, series, "bytes", x_label="round"))
    assert 'data-tip="round 5\nreceived: 5 B\nsent: 7.5 kB"' in drawn
    assert drawn.count("data-tip") <= 120
    assert drawn.count("<td>") == 1000
    assert "<td>748500</td>" in drawn
    assert "sent (bytes)" in drawn


def test_nodes_of_a_graph_lie_apart_and_inside_whatever_their_clusters() -> None:
    for clusters in ([0], [None] * 60, [number // 25 for number in range(500)] + [None] * 40, [0, 0, 1, None]):
        places, labels, height = arrange(clusters)
        assert all(room <= x <= WIDTH - room and room <= y <= height - room for x, y, room in places)
        assert len({(round(x, 3), round(y, 3)) for x, y, _ in places}) == len(clusters)
        assert all(y <= height for _, _, y in labels)
