"""Results of studies as text: the page that a browser shows, on a terminal."""

from __future__ import annotations

from collections.abc import Collection

from fedkin.experiment.terminal_tables import table_text
from fedkin.report.figures import CellVerdict, PageView, ResultTable, TableCell
from fedkin.report.tables import MEANINGS

SIGNS: dict[CellVerdict, str] = {
    "within": "✓", "higher": "▲", "lower": "▼", "unsure": "?", "near": "≈", "above": "△", "below": "▽", "best": "*",
}  # fmt: skip
"""The sign of each verdict in text; pages have the same in their style sheet."""


def duration(seconds: float) -> str:
    """Format a duration: ``"5.3 s"``, ``"40 s"``, ``"12 min"``, ``"3.5 h"``."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def page_text(view: PageView, parts: Collection[str] | None = None) -> str:
    """Return the lead of a page and its parts as text: tables, sentences, notes and commands.

    `parts` are the anchors of those to show; by default all. Charts and pictures are left to the page.
    """
    blocks = [_sentences(view.lead.splitlines())]
    for part in view.parts:
        if parts is None or part.anchor in parts:
            blocks += [_table(figure) for figure in part.figures if isinstance(figure, ResultTable)]
            blocks.append(_sentences([*part.paragraphs, *part.notes]))
            blocks.append("\n".join(f"  {command}" for command in part.commands))
    return "\n\n".join(block for block in blocks if block)


def _sentences(texts: Collection[str]) -> str:
    return "\n".join(text.replace("`", "") for text in texts if text)


def _table(table: ResultTable) -> str:
    head = (table.corner, *map(str, table.columns))
    text = table_text([head, *((str(name), *map(_cell, cells)) for name, cells in table.rows)])
    used = {cell.verdict for _, cells in table.rows for cell in cells}
    legend = ", ".join(f"{sign} {MEANINGS[verdict]}" for verdict, sign in SIGNS.items() if verdict in used)
    return "\n".join([table.title, text, *([legend] if legend else [])])


def _cell(cell: TableCell) -> str:
    beside = f"({cell.beside})" if cell.beside else ""
    return " ".join(filter(None, [cell.text, beside, SIGNS.get(cell.verdict, "")]))
