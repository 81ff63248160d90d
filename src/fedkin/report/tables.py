"""HTML tables of results: each cell with what it is compared with, its verdict or its shade."""

from __future__ import annotations

import re

from fedkin.report.figures import CellVerdict, ResultTable, TableCell
from fedkin.report.markup import cluster_title, element, figure, sheet, text

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
    """Write a table as a figure, with a legend of the verdicts' signs.

    The text beside a cell is left out where a user selects and copies cells by hand; the copy button puts it in columns
    of its own.
    """
    looks = [_look(table, column) for column in range(len(table.columns))]
    heads = [element("th", text(table.corner), scope="col")]
    for name, look in zip(table.columns, looks, strict=True):
        content = cluster_title(name, "") if isinstance(name, int) else text(name)
        heads.append(element("th", content, scope="col", class_=look))
    rows = []
    for name, cells in table.rows:
        parts = [_row_name(name), *map(_cell, cells, looks)]
        rows.append(element("tr", *parts, class_="faint" if name in table.faint else None))
    foot = [element("tr", _row_name(name), *map(_cell, cells, looks)) for name, cells in table.foot]
    parts = [element("thead", element("tr", *heads)), element("tbody", *rows)]
    parts += [element("tfoot", *foot)] if foot else []
    of_clusters = any(isinstance(name, int) for name in table.columns)
    content = element("table", *parts, class_="numbers heat" if of_clusters else "numbers results")
    label = table.title or table.caption or table.corner or "Numbers"
    return figure(table.title, table.caption, sheet(content, label, _legend(table)), look="result")


def _row_name(name: str | int) -> str:
    if isinstance(name, int):
        return element("th", cluster_title(name, "") if name >= 0 else "none yet", scope="row")
    # A long name of a column of data breaks after its punctuation, and nowhere inside a word.
    words = re.sub(r"([_./-])(?=\w)", r"\1<wbr>", text(name))
    return element("th", words, scope="row")


def _look(table: ResultTable, column: int) -> str | None:
    """Return the CSS class of columns of words, or of long lists, and of totals; ``None`` for the others."""
    if any(isinstance(name, int) for name in table.columns):
        return None if isinstance(table.columns[column], int) else "total"
    texts = [cells[column].text.strip() for _, cells in table.rows]
    filled = [text for text in texts if text not in ("", "–")]
    are_words = sum(_NUMBER.match(text) is None for text in filled) > len(filled) / 2
    return "words" if are_words or any(len(text) > 40 for text in filled) else None


def _cell(cell: TableCell, look: str | None) -> str:
    shade = max(-1.0, min(1.0, cell.shade))
    is_long = "long" if len(cell.text) > 14 else None  # longer than a mean and its deviation: may take several lines
    classes = [look, cell.verdict, is_long, ("warm" if shade > 0 else "cool") if shade else None]
    return element(
        "td", element("span", text(cell.text)), element("small", text(cell.beside)) if cell.beside else "",
        class_=" ".join(filter(None, classes)) or None, style=f"--h:{66 * abs(shade):.0f}%" if shade else None,
        data_tip=cell.tip or None, tabindex=0 if cell.tip else None,
    )  # fmt: skip


def _legend(table: ResultTable) -> str:
    """Write the meaning of the signs used, and a hint at tooltips where there are any."""
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
