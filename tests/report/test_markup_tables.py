from __future__ import annotations

import re

import numpy as np

from fedkin.report import ClusterTable, Profiles
from fedkin.report.markup_tables import count_table, profile_table


def test_counts_are_cells_shaded_by_size_with_totals() -> None:
    drawn = count_table(ClusterTable(["a", "b"], [0, 5], np.array([[0, 100], [1, 49]])))
    assert re.findall(r'<td class="(h\d+)">(\d+)<', drawn) == [("h0", "0"), ("h10", "100"), ("h1", "1"), ("h5", "49")]
    assert re.findall(r'<td class="total">(\d+)<', drawn) == ["100", "50"]
    assert re.findall(r"<td>(\d+)<", drawn) == ["1", "149", "150"]


def test_profiles_shade_both_sides_and_leave_unknown_cells_bare() -> None:
    drawn = profile_table(Profiles(["age"], [0, 1, 2, 3], np.array([[2.0], [-1.0], [0.01], [np.nan]])))
    assert re.findall(r"<td.*?</td>", drawn) == [
        '<td class="p5">2.00</td>',
        '<td class="n2">-1.00</td>',
        '<td class="n0">0.01</td>',
        "<td>–</td>",
    ]
