from __future__ import annotations

import re

import pytest

from fedkin.report.figures import CellVerdict, HeatCell, HeatTable, ResultTable, TableCell
from fedkin.report.tables import MEANINGS, heat_table, result_table


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


def heated(*rows: tuple[str, list[HeatCell]], **more: object) -> str:
    return heat_table(HeatTable("T", "", "column", [0, 5], list(rows), **more))  # type: ignore[arg-type]


def test_cells_are_shaded_on_both_sides_and_at_most_fully() -> None:
    markup = heated(("age", [HeatCell("70", 0.5), HeatCell("30", -9.0)]), ("noise", [HeatCell("1"), HeatCell("–")]))
    assert re.findall(r"<td.*?</td>", markup) == [
        '<td class="warm" style="--h:33%">70</td>',
        '<td class="cool" style="--h:66%">30</td>', "<td>1</td>", "<td>–</td>",
    ]  # fmt: skip


def test_a_last_column_a_foot_and_faint_rows_are_set_apart() -> None:
    cells = [HeatCell("1"), HeatCell("2"), HeatCell("3")]
    markup = heated(("a", cells), last="all", foot=[("all", ["1", "2", "3"])], faint=frozenset("a"))
    assert '<th scope="col" class="total">all</th>' in markup
    assert '<td class="total">3</td>' in markup
    assert '<tr class="faint">' in markup
    assert "<tfoot><tr>" in markup


def test_names_break_after_their_punctuation_and_long_cells_between_words() -> None:
    markup = heated(("fasting_sugar_high", [HeatCell("c" * 30), HeatCell("1")]))
    assert '<th scope="row">fasting_<wbr>sugar_<wbr>high</th>' in markup
    assert f'<td class="long">{"c" * 30}</td>' in markup
