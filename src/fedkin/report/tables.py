"""HTML tables: of results, each cell with what it is compared with and its verdict, and shaded ones of clusters."""

from __future__ import annotations

import re

from fedkin.report.figures import CellVerdict, HeatTable, ResultTable, TableCell
from fedkin.report.markup import broken_name, cluster_mark, element, result_figure, sheet, text

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
_NUMBER = re.compile(r"[-+−±~≈<>≤≥(]*\s*[\d.∞]|–?$|n/a")


def result_table(table: ResultTable) -> str:
    """Write a table of results as a figure, with a legend of the verdicts' signs.

    The text beside a cell is left out where a user selects and copies cells by hand; the copy button puts it in columns
    of its own.
    """
    looks = [_look(table, column) for column in range(len(table.columns))]
    heads = [
        element("th", text(name), scope="col", class_=look)
        for name, look in zip([table.corner, *table.columns], [None, *looks], strict=True)
    ]
    rows = []
    for name, cells in table.rows:
        title = element("a", text(name), href=table.links[name]) if name in table.links else text(name)
        rows.append(element("tr", element("th", title, scope="row"), *map(_cell, cells, looks)))
    named = " named" if any(len(name) > 18 for name, _ in table.rows) else ""  # gets more of a narrow window
    parts = (element("thead", element("tr", *heads)), element("tbody", *rows))
    content = element("table", *parts, class_=f"numbers results{named}")
    return result_figure(table.title, table.caption, sheet(content, table.title or table.corner, _legend(table)))


def _look(table: ResultTable, column: int) -> str | None:
    """Return the CSS class of columns in which most cells hold words, not numbers; ``None`` for the others."""
    texts = [cells[column].text.strip() for _, cells in table.rows]
    filled = [text for text in texts if text not in ("", "–")]
    return "words" if sum(_NUMBER.match(text) is None for text in filled) > len(filled) / 2 else None


def _cell(cell: TableCell, look: str | None) -> str:
    beside = element("small", text(cell.beside)) if cell.beside else ""
    classes = " ".join(name for name in (look, cell.verdict) if name)
    content = element("span", text(cell.text)) + beside
    return element("td", content, class_=classes or None, data_tip=cell.tip or None, tabindex=0 if cell.tip else None)


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


def heat_table(table: HeatTable) -> str:
    """Write a table with a column for each cluster, shaded cell by cell, as a figure."""
    heads = [
        element("th", cluster_mark(cluster), element("span", str(cluster)), scope="col") for cluster in table.clusters
    ]
    heads += [element("th", text(table.last), scope="col", class_="total")] if table.last else []
    head = element("tr", element("th", text(table.corner), scope="col"), *heads)
    rows = []
    for name, cells in table.rows:
        tds = []
        for column, cell in enumerate(cells):
            shade = max(-1.0, min(1.0, cell.shade))
            looks = ["warm" if shade > 0 else "cool"] if shade else []
            looks += ["long"] if len(cell.text) > 24 else []  # which takes several lines
            looks += ["total"] if column == len(table.clusters) else []
            style = f"--h:{66 * abs(shade):.0f}%" if shade else None
            tds.append(element("td", text(cell.text), class_=" ".join(looks) or None, style=style))
        rows.append(element("tr", _name(name), *tds, class_="faint" if name in table.faint else None))
    foot = [element("tr", _name(name), *(element("td", text(cell)) for cell in cells)) for name, cells in table.foot]
    parts = [element("thead", head), element("tbody", *rows), *([element("tfoot", *foot)] if foot else [])]
    content = sheet(element("table", *parts, class_="heat"), table.title or table.caption)
    return result_figure(table.title, table.caption, content)


def _name(name: str) -> str:
    return element("th", broken_name(name), scope="row")
