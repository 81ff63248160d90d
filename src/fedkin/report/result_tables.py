"""HTML tables of results: each cell with its value to compare with and its verdict."""

from __future__ import annotations

import re

from fedkin.report.markup import element, prose, sheet, text
from fedkin.report.results_view import CellVerdict, ResultTable, TableCell

MEANINGS: dict[CellVerdict, str] = {
    "within": "within the spread",
    "higher": "higher",
    "lower": "lower",
    "unsure": "too few seeds to say",
    "near": "one seed: near",
    "above": "one seed: higher",
    "below": "one seed: lower",
    "best": "best of its column, or recommended",
}
"""In the order of the legend; the signs stand in the style sheet, so that they are never copied with a cell."""

LONG_NAME = 18
"""Names longer than this get more of a narrow window."""

_NUMBER = re.compile(r"[-+−±~≈<>≤≥(]*\s*[\d.∞]|–?$|n/a")


def result_table(table: ResultTable) -> str:
    """Write a table of results as a figure, with a legend of the verdicts' signs.

    The text beside a cell is left out where a user selects and copies cells by hand; the copy button puts it in columns
    of its own.
    """
    heading = element("figcaption", element("h3", text(table.title)), element("p", prose(table.caption)))
    looks = [_look(table, at) for at in range(len(table.columns))]
    heads = [element("th", text(table.corner), scope="col")]
    for name, look in zip(table.columns, looks, strict=True):
        heads.append(element("th", text(name), scope="col", class_=look))
    rows = [
        element("tr", element("th", _linked(name, table), scope="row"), *map(_cell, cells, looks))
        for name, cells in table.rows
    ]
    named = " named" if any(len(name) > LONG_NAME for name, _ in table.rows) else ""
    parts = (element("thead", element("tr", *heads)), element("tbody", *rows))
    drawn = element("table", *parts, class_=f"numbers results{named}")
    return element("figure", heading, sheet(drawn, table.title, _legend(table)), class_="result")


def _linked(name: str, table: ResultTable) -> str:
    return element("a", text(name), href=table.links[name]) if name in table.links else text(name)


def _look(table: ResultTable, at: int) -> str | None:
    """Return the CSS class of columns in which most cells hold words, not numbers; ``None`` for the others."""
    texts = [cells[at].text.strip() for _, cells in table.rows]
    filled = [each for each in texts if each not in ("", "–")]
    return "words" if sum(_NUMBER.match(each) is None for each in filled) > len(filled) / 2 else None


def _cell(cell: TableCell, look: str | None) -> str:
    beside = element("small", text(cell.beside)) if cell.beside else ""
    classes = " ".join(name for name in (look, cell.verdict) if name)
    focus = 0 if cell.tip else None
    content = element("span", text(cell.text)) + beside
    return element("td", content, class_=classes or None, data_tip=cell.tip or None, tabindex=focus)


def _legend(table: ResultTable) -> str:
    """Write the legend: the meaning of the signs used, and a hint at tooltips where there are any."""
    cells = [cell for _, row in table.rows for cell in row]
    used = {cell.verdict for cell in cells}
    entries = [
        element("li", element("i", class_=verdict, aria_hidden="true"), meaning)
        for verdict, meaning in MEANINGS.items()
        if verdict in used
    ]
    if any(cell.tip for cell in cells):
        entries.append(element("li", "Point at a cell for more.", class_="hint"))
    return element("ul", *entries, class_="legend verdicts") if entries else ""
