"""Reading of workbooks, such as ``.xlsx``: a sheet becomes the CSV that a spreadsheet would save of it."""

from __future__ import annotations

import csv
import functools
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import FedkinError, listing, require
from fedkin.core.files import check_room

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
"""Ends of the names of workbooks that are read."""
_SHEET = re.compile(r"/?xl/worksheets/[^/]*\.xml", re.IGNORECASE)
_FILLED = re.compile(rb"""<(?:\w+:)?c\s[^>]*?\br=["']([A-Z]{1,3})(\d{1,7})["'][^>]*(?<!/)>""")
_ODS_ROW = re.compile(
    rb"""<table:table-row(?:[^>]*?number-rows-repeated="(\d{1,9})")?[^>]*(?<!/)>(.*?)</table:table-row>""", re.DOTALL
)
_ODS_CELL = re.compile(
    rb"""<table:table-cell(?=[^>]*office:value-type)(?:[^>]*?number-columns-repeated="(\d{1,9})")?[^>]*>"""
)
"""Cells of sheets that hold something, with where they are, or how often they stand there."""
_CELL_BYTES = 100
"""Bytes of a cell: 24 in the reader, and an object of Python's and its text in CSV."""
_WHOLE = 2**53
_LISTED = 5


@dataclass(frozen=True)
class Sheet:
    """Cells of a sheet as CSV, separated by commas.

    `numbers` are the positions of columns that hold no text below the first row: how their numbers are written says
    nothing about the person who entered them.
    """

    text: str
    numbers: frozenset[int]


def read_sheet(path: Path, where: str, names: Sequence[str] = (), decimal: str = ".") -> Sheet:
    """Read a sheet of a workbook: the first of `names` that it has, or by default the only one that holds anything.

    Empty rows and columns around the cells are left out, and so are hidden sheets, unless named. Formulas have the
    value they had when the file was saved, none if no program has computed them; errors such as ``#DIV/0!`` are empty
    cells. Numbers are written with `decimal`, dates as 2024-03-01, and truth values as TRUE and FALSE.

    Raises FedkinError if the file cannot be read, has no such sheet, or several to choose from.
    """
    require(f"Reading {where}", "python_calamine", "excel")
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError

    kind = path.suffix.lower()
    try:
        content = path.read_bytes()
        _check_extent(content, where)
        rows = _chosen(CalamineWorkbook.from_filelike(io.BytesIO(content)), where, names)
    except PasswordError as error:
        raise FedkinError(f"{where} is protected by a password; save it without one.") from error
    except OSError as error:
        raise FedkinError(f"{where} cannot be read as {kind} ({error.strerror or error}).") from error
    except CalamineError as error:
        raise FedkinError(
            f"{where} cannot be read as {kind} (it is damaged, or no workbook); open it in a spreadsheet, and save it "
            "as .xlsx or .csv."
        ) from error
    columns = list(zip(*rows[1:], strict=True))
    numbers = frozenset(at for at, cells in enumerate(columns) if not any(_is_text(cell) for cell in cells))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_written(cell, decimal) for cell in row] for row in rows)
    return Sheet(text.getvalue(), numbers)


def _check_extent(content: bytes, where: str) -> None:
    """Raise FedkinError if a sheet unpacks to more than memory holds; its reader would end the process.

    That makes a cell of every position between the first and the last that hold something.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):  # .xls, whose sheets have at most 65,536 rows of 256 cells
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_room(where, sum(member.file_size for member in archive.infolist()))
            for name in archive.namelist():
                if _SHEET.fullmatch(name):
                    check_room(where, _CELL_BYTES * _cells_between(archive.read(name)))
                elif name == "content.xml":
                    check_room(where, _CELL_BYTES * _repeated_cells(archive.read(name)))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return  # of which the reader has more to say


def _cells_between(sheet: bytes) -> int:
    """Return how many positions lie between the first and the last cell of an .xlsx sheet that hold something."""
    filled = set(_FILLED.findall(sheet))
    if not filled:
        return 0
    rows = [int(row) for _, row in filled]
    names = {letters for letters, _ in filled}
    columns = [functools.reduce(lambda at, letter: 26 * at + letter - 64, name, 0) for name in names]
    return (max(columns) - min(columns) + 1) * (max(rows) - min(rows) + 1)


def _repeated_cells(sheet: bytes) -> int:
    """Return how many cells of an .ods file hold something, each as often as it and its row are repeated."""
    return sum(
        int(repeats or 1) * sum(int(count or 1) for count in _ODS_CELL.findall(row))
        for repeats, row in _ODS_ROW.findall(sheet)
    )


def _chosen(book: CalamineWorkbook, where: str, names: Sequence[str]) -> list[list[Any]]:
    """Return the rows of the sheet that is named, or of the only one that holds anything."""
    if names:
        named = next((name for name in names if name in book.sheet_names), None)
        if named is None:
            there = listing([f"'{name}'" for name in book.sheet_names], _LISTED) or "none"
            asked = " or ".join(f"'{name}'" for name in names)
            raise FedkinError(f"{where} has no sheet {asked}; it has {there}.")
        return _rows(book, named)
    filled = {name: rows for name in _shown(book) if (rows := _rows(book, name))}
    if len(filled) > 1:
        sheets = listing([f"'{name}'" for name in filled], _LISTED)
        raise FedkinError(f"{where} has {len(filled)} sheets, {sheets}; set sheet = '{next(iter(filled))}' or another.")
    if not filled:
        raise FedkinError(f"{where} has no sheet that holds anything.")
    return next(iter(filled.values()))


def _shown(book: CalamineWorkbook) -> list[str]:
    """Return the names of sheets of cells that are not hidden."""
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    kept = (SheetTypeEnum.WorkSheet, SheetVisibleEnum.Visible)
    return [sheet.name for sheet in book.sheets_metadata if (sheet.typ, sheet.visible) == kept]


def _rows(book: CalamineWorkbook, name: str) -> list[list[Any]]:
    """Return a sheet's cells, from the first that holds anything."""
    return book.get_sheet_by_name(name).to_python(skip_empty_area=True)


def _is_text(cell: object) -> bool:
    return isinstance(cell, str) and bool(cell.strip())


def _written(cell: Any, decimal: str) -> str:
    """Return a cell as a spreadsheet would save it in CSV."""
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, int | float):
        whole = float(cell).is_integer() and abs(cell) <= _WHOLE
        return str(int(cell)) if whole else repr(float(cell)).replace(".", decimal)
    if isinstance(cell, datetime):
        return str(cell.date()) if cell.time() == datetime.min.time() else cell.isoformat(" ")
    if isinstance(cell, timedelta):
        hours, seconds = divmod(round(cell.total_seconds()), 3600)
        return f"{hours}:{seconds // 60:02}:{seconds % 60:02}"
    return cell.isoformat() if isinstance(cell, date) else str(cell)
