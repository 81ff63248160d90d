from __future__ import annotations

from fedkin.report.charts import line_chart
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
