"""Tables of results: every cell with what it is compared with and what to think of it."""

from __future__ import annotations

from fedkin.report.markup import element, scrolling, text
from fedkin.report.page_view import Cell, ResultTable

SIGNS = {"inside": "≈", "better": "▲", "worse": "▼", "best": "★"}


def result_table(table: ResultTable) -> str:
    """A figure with the table; its signs and smaller numbers are left out where cells are copied."""
    heading = element("figcaption", element("h3", text(table.title)), element("p", text(table.caption)))
    heads = [element("th", text(name), scope="col") for name in (table.corner, *table.columns)]
    rows = [
        element("tr", element("th", text(name), scope="row"), *(_cell(cell) for cell in cells))
        for name, cells in table.rows
    ]
    drawn = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="numbers")
    return element("figure", heading, scrolling(drawn, table.title))


def _cell(cell: Cell) -> str:
    sign = f"{SIGNS[cell.verdict]} " if cell.verdict else ""
    beside = element("small", text(cell.beside)) if cell.beside else ""
    return element("td", sign + text(cell.text), beside, class_=cell.verdict or None, data_tip=cell.tip or None)
