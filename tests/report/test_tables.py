from __future__ import annotations

import re

import pytest

from fedkin.report.figures import CellVerdict, ResultTable, TableCell
from fedkin.report.tables import MEANINGS, result_table


def drawn(*cells: TableCell) -> str:
    """A table of one column that holds `cells`."""
    return result_table(
        ResultTable("T", "See `a`.", "name", ["value"], [(f"row {at}", [c]) for at, c in enumerate(cells)])
    )


def test_a_cell_is_its_text_alone_what_it_is_compared_with_and_what_to_think_of_it() -> None:
    markup = drawn(TableCell("0.947 ± 0.012", "paper 0.95", "within", "5 seeds\nleast 0.93"), TableCell("–"))
    assert (
        '<td class="within" data-tip="5 seeds\nleast 0.93" tabindex="0"><span>0.947 ± 0.012</span>'
        "<small>paper 0.95</small></td>"
    ) in markup
    assert "<td><span>–</span></td>" in markup


@pytest.mark.parametrize("verdict", list(MEANINGS))
def test_the_legend_tells_the_signs_that_are_used(verdict: CellVerdict) -> None:
    markup = drawn(TableCell("1", verdict=verdict), TableCell("2"))
    assert re.findall(r'<li><i class="(\w+)"', markup) == [verdict]
    assert "Point at" not in markup
