"""Reading of workbooks, such as ``.xlsx``, with calamine: a sheet becomes a DataFrame of its cells."""

from __future__ import annotations

import functools
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import FedkinError, listing, require
from fedkin.core.files import check_room
from fedkin.data.reading.csv_files import with_names

if TYPE_CHECKING:
    import pandas as pd
    from python_calamine import CalamineWorkbook

WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
"""Ends of the names of workbooks that are read."""
_FILLED = re.compile(rb"""<(?:\w+:)?c\s[^>]*?\br=["']([A-Z]{1,3})(\d{1,7})["'][^>]*(?<!/)>""")
_ODS_ROW = re.compile(
    rb"""<table:table-row(?:[^>]*?number-rows-repeated="(\d{1,9})")?[^>]*(?<!/)>(.*?)</table:table-row>""", re.DOTALL
)
_ODS_CELL = re.compile(
    rb"""<table:table-cell(?=[^>]*office:value-type)(?:[^>]*?number-columns-repeated="(\d{1,9})")?[^>]*>"""
)
"""Cells of sheets that hold something, with where they are, or how often they stand there."""
_CELL_BYTES = 100
"""Bytes of a cell: 24 in the reader, and an object of Python's."""
_LISTED = 5


def read_sheet(path: Path, where: str, names: Sequence[str] = (), header: bool = True) -> pd.DataFrame:
    """Read a sheet of a workbook: the first of `names` that it has, or by default the only one that holds anything.

    Cells are numbers, texts, truth values, dates and times as the workbook has them. Empty rows and columns around them
    are left out, and so are hidden sheets, unless named; a `header` is as for `read_csv`. Formulas have the value they
    had when the file was saved, none if no program has computed them; errors such as ``#DIV/0!`` are empty cells.

    Raises FedkinError if the file cannot be read, has no such sheet, or several to choose from.
    """
    require(f"Reading {where}", "python_calamine", "excel")
    import pandas as pd
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError

    kind = path.suffix.lower()
    try:
        content = path.read_bytes()
        if zipfile.is_zipfile(io.BytesIO(content)) and b"xl/workbook.bin" in content:  # .xlsb, called otherwise
            raise FedkinError(f"{where} is a binary workbook; open it in a spreadsheet, and save it as .xlsx or .csv.")
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
    called = [str(name) for name in rows[0]] if header else [str(at + 1) for at in range(len(rows[0]))]
    return with_names(pd.DataFrame(rows[1:] if header else rows, columns=called, dtype=object), where)


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
                count = _repeated_cells if name == "content.xml" else _cells_between
                check_room(where, _CELL_BYTES * count(archive.read(name)))
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
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    def rows_of(name: str) -> list[list[Any]]:
        return book.get_sheet_by_name(name).to_python(skip_empty_area=True)

    if names:
        named = next((name for name in names if name in book.sheet_names), None)
        if named is None:
            there = listing([f"'{name}'" for name in book.sheet_names], _LISTED) or "none"
            wanted = " or ".join(f"'{name}'" for name in names)
            raise FedkinError(f"{where} has no sheet {wanted}; it has {there}.")
        if not (rows := rows_of(named)):
            raise FedkinError(f"Sheet '{named}' of {where} is empty.")
        return rows
    shown = (SheetTypeEnum.WorkSheet, SheetVisibleEnum.Visible)
    visible = [sheet.name for sheet in book.sheets_metadata if (sheet.typ, sheet.visible) == shown]
    filled = {name: rows for name in visible if (rows := rows_of(name))}
    if len(filled) > 1:
        sheets = listing([f"'{name}'" for name in filled], _LISTED)
        raise FedkinError(f"{where} has {len(filled)} sheets, {sheets}; set sheet = '{next(iter(filled))}' or another.")
    if not filled:
        raise FedkinError(f"{where} has no sheet that holds anything.")
    return next(iter(filled.values()))
