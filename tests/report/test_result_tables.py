from __future__ import annotations

import re

import pytest

from fedkin.report import CellVerdict, ResultTable, TableCell
from fedkin.report.result_tables import MEANINGS, result_table


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


def test_without_verdicts_there_is_no_legend() -> None:
    assert "legend" not in drawn(TableCell("1"))


def test_that_there_is_more_to_see_is_said_where_there_is() -> None:
    assert "Point at a cell for more." in drawn(TableCell("1", tip="one seed"))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["0.1", "−3 ± 1", "n/a", "not finished"], False),
        (["–", "", "1,200"], False),
        (["finds the number itself", "", "–"], True),
        (["3 seeds", "fast"], False),
        (["slow", "fast", "2 s"], True),
        (["", "–"], False),
    ],
)
def test_a_column_of_words_is_set_as_text(texts: list[str], words: bool) -> None:
    markup = drawn(*map(TableCell, texts))
    assert ('<th scope="col" class="words">value</th>' in markup) == words
    assert markup.count('<td class="words">') == words * len(texts)


def test_captions_hold_code_and_long_names_get_room() -> None:
    table = ResultTable("T", "See `a`.", "name", [], [("a name of many, many words", [])])
    assert "See <code>a</code>." in result_table(table)
    assert 'class="numbers results named"' in result_table(table)
    assert 'class="numbers results"' in drawn(TableCell("1"))


def test_a_name_leads_to_its_page() -> None:
    rows = [("kfed", [TableCell("1")]), ("ccfc", [TableCell("2")])]
    markup = result_table(ResultTable("T", "", "name", ["value"], rows, {"kfed": "runs/k%20fed/report.html"}))
    assert re.findall(r'<th scope="row">(.*?)</th>', markup) == ['<a href="runs/k%20fed/report.html">kfed</a>', "ccfc"]
