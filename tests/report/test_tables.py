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


def heated(*rows: tuple[str, list[TableCell]], last: str = "all", **more: object) -> str:
    return result_table(ResultTable("T", "", "column", [0, 5, last], list(rows), **more))  # type: ignore[arg-type]


def test_columns_of_clusters_have_marks_and_shades_on_both_sides_and_totals_are_set_apart() -> None:
    cells = [TableCell("70", shade=0.5), TableCell("30", shade=-9.0), TableCell("100")]
    markup = heated(("a", cells), foot=[("all", cells)], faint=frozenset("a"))
    assert re.findall(r'class="dot (c\d m\d)"', markup) == ["c0 m0", "c5 m0"]
    assert re.findall(r"<td.*?</td>", markup)[:3] == [
        '<td class="warm" style="--h:33%"><span>70</span></td>',
        '<td class="cool" style="--h:66%"><span>30</span></td>',
        '<td class="total"><span>100</span></td>',
    ]
    assert '<tr class="faint">' in markup
    assert "<tfoot><tr>" in markup


def test_names_break_after_their_punctuation_and_long_cells_between_words() -> None:
    markup = heated(("fasting_sugar_high", [TableCell("c" * 30), TableCell("1"), TableCell("2")]))
    assert '<th scope="row">fasting_<wbr>sugar_<wbr>high</th>' in markup
    assert f'<td class="long"><span>{"c" * 30}</span></td>' in markup
