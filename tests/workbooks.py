"""Workbooks that tests write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openpyxl import Workbook


def saved(path: Path, **sheets: Sequence[Sequence[Any]]) -> Path:
    """Save a workbook with the rows of each sheet; one called `hidden` is."""
    book = Workbook()
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        if name == "hidden":
            sheet.sheet_state = "hidden"
    book.remove(book.worksheets[0])
    book.save(path)
    return path
