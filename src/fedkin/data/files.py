"""Reading of files with a data set: CSV, Parquet and workbooks by pandas, and arrays in ``.npz``."""

from __future__ import annotations

import codecs
import csv
import functools
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fedkin.core.errors import FedkinError, listing, require, setting, unknown_name
from fedkin.core.files import check_room, ending_of
from fedkin.data.dataset import Dataset, encode_labels, usual_label
from fedkin.data.names import READ, WORKBOOKS, missing, not_read
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.tables import as_tensor, check_columns, frame_to_dataset

if TYPE_CHECKING:
    import pandas as pd

_PIECE = 1 << 20
"""Bytes that are unpacked at once, and characters that the separator is looked for in."""
_TEXT_COPIES = 6
"""Copies of a text that are in memory while it becomes a table: bytes, characters, and pandas' cells, 50 bytes each."""
_CELL_BYTES = 100
"""Bytes of a workbook's cell: 24 in the reader, and an object of Python's."""
_FEW_ROWS = 200
"""Rows that show the separator, and whether the first line is a header."""
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)


def read_file(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Read a ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file, or a workbook such as ``.xlsx``.

    Those of text may be compressed, as ``.csv.gz``. `label` and `cluster` are columns or arrays of labels and clusters;
    a ``.npz`` has no names of columns, so `options` say nothing about it. Raises FedkinError if it is none of these, or
    cannot be used, with a line for each column that cannot.
    """
    ending, origin = ending_of(path), f"'{path}'"
    if ending not in READ:
        raise not_read(str(path))
    if not path.exists():
        raise missing(str(path), path)
    if not path.is_file():
        raise FedkinError(f"'{path}' is no regular file, but {'a directory' if path.is_dir() else 'a pipe or device'}.")
    if ending == ".npz":
        return _read_npz(path, label, cluster)
    if ending == ".parquet":
        frame = _read_parquet(path, origin)
    elif ending in WORKBOOKS:
        frame = read_sheet(path, origin, options.sheet, options.header)
    else:
        frame = read_csv(path, origin, options)
    return frame_to_dataset(frame, path.name, origin, label, cluster, options)


# Text.


def read_csv(path: Path, origin: str, options: TableOptions = NO_OPTIONS) -> pd.DataFrame:
    """Read a CSV file, all cells as texts.

    The separator is the one of comma, semicolon, tab, bar and blanks by which rows have as many cells as the first
    line, or the one that a line such as ``sep=;`` names; the frame's ``attrs["separator"]`` has it. Columns are called
    as `_with_names` says. Raises FedkinError if the file is no text in UTF-8, in UTF-16 with a byte order mark, or in
    the named encoding; if its first line is no header, or rows are longer than that.
    """
    import pandas as pd

    text = _text(path, origin, options.encoding)
    if first := re.match(r'"?sep=(.)"?[ \t]*(?:\r?\n|\Z)', text, re.IGNORECASE):  # as spreadsheets write it
        text, separator = text[first.end() :], first[1]
    else:
        separator = _separator_of(text)
    try:
        cells = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype=object, na_filter=False, skipinitialspace=True
        ).fillna("")
    except (ValueError, csv.Error) as error:
        reason = (str(error).splitlines() or ["empty"])[0].rstrip(".")  # with numbers of lines and cells, and no cell
        advice = "lines above the names of columns, or a quotation mark without an end, are the usual reasons"
        raise FedkinError(f"{origin} cannot be read as {ending_of(path)} ({reason}); {advice}.") from error
    frame = _with_names(cells, origin, options.header)
    frame.attrs["separator"] = separator
    return frame


def _separator_of(text: str) -> str:
    """Return the separator by which most rows have as many cells as the first; blanks if nothing else divides it."""
    probe = text if len(text) <= _PIECE else text[:_PIECE].rpartition("\n")[0] or text
    best, separator = (0.0, 1), ","
    for candidate in ",;\t| ":
        lines, widths = csv.reader(io.StringIO(probe, newline=""), delimiter=candidate, skipinitialspace=True), []
        with suppress(csv.Error):
            widths = [len(row) for row in islice(filter(None, lines), _FEW_ROWS)]
        if not widths or (candidate == " " and (best[1] > 1 or len({*widths}) > 1 or len(widths) < 2)):
            continue
        score = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
        if widths[0] > 1 and score > best:
            best, separator = score, r"\s+" if candidate == " " else candidate
    return separator


def _text(path: Path, origin: str, encoding: str) -> str:
    """Return the text of a file, unpacked if it is a gzip archive, whatever it is called."""
    try:
        check_room(origin, _TEXT_COPIES * path.stat().st_size)
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = _unpacked(content, origin)
    except OSError as error:
        raise FedkinError(f"{origin} cannot be read as {ending_of(path)} ({error.strerror or error}).") from error
    except (EOFError, zlib.error) as error:
        raise FedkinError(f"{origin} is a damaged gzip archive ({error}); copy it again.") from error
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif not content.isascii():  # bytes below 128 alone may be of any encoding, such as UTF-16
        with suppress(UnicodeDecodeError):
            content, encoding = content.decode("utf-8-sig").encode(), "utf-8"
    if encoding.startswith("utf-8") and b"\0" in content:
        raise FedkinError(
            f"{origin} has bytes of 0; {setting('encoding', 'utf-16-le')} if it is UTF-16 without a byte order mark, "
            "or save it as CSV, for it is no text."
        )
    try:
        text = content.decode(encoding).rstrip("\x1a")  # with which DOS ends files
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        advice = f"{setting('encoding', 'cp1252')} or what it is in, or save it as UTF-8, in Excel 'CSV UTF-8'"
        raise FedkinError(
            f"{origin} cannot be read as {ending_of(path)} (line {line:,} is no {encoding.upper()}); {advice}."
        ) from error
    return text if "\n" in text else text.replace("\r", "\n")  # pandas does not know line ends of old Macs


def _unpacked(content: bytes, origin: str) -> bytes:
    """Return the bytes in a gzip archive; they are looked at in pieces, since a small one may unpack to gigabytes."""
    pieces = []
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        while piece := packed.read(_PIECE):
            pieces.append(piece)
            check_room(origin, _TEXT_COPIES * len(pieces) * _PIECE)
    return b"".join(pieces)


def _with_names(cells: pd.DataFrame, origin: str, header: bool) -> pd.DataFrame:
    """Return cells as a table whose first row, the `header`, names the columns; else they are called 1, 2 and so on.

    What spreadsheets leave behind is dropped: empty rows, and empty columns without a name. A first column without a
    name, as R writes those of rows, is called ``index`` if its values differ. Raises FedkinError if another column has
    no name, or the first row is no header.
    """
    check_columns(cells.shape[1], origin)
    names = [str(i + 1) for i in range(cells.shape[1])]
    if header:
        names = [str(name).strip() for name in cells.iloc[0]]
        _check_is_header(names, cells.iloc[1 : 1 + _FEW_ROWS].astype(str), origin)
        cells = cells.iloc[1:]
    empty = (cells.isna() | (cells == "")).to_numpy(dtype=bool)
    if len(names) > 1:
        cells, empty = cells[~empty.all(axis=1)], empty[~empty.all(axis=1)]
    dropped = {i for i, name in enumerate(names) if not name and empty[:, i].all()} if len(names) > 1 else set()
    if not names[0] and 0 not in dropped and "index" not in names and cells.iloc[:, 0].is_unique:
        names[0] = "index"
    if unnamed := [i for i, name in enumerate(names) if not name and i not in dropped]:
        raise FedkinError(f"Column {unnamed[0] + 1} of {origin} has no name; the first line must name the columns.")
    frame = cells.set_axis(names, axis=1).reset_index(drop=True)
    return frame.iloc[:, [i for i in range(len(names)) if i not in dropped]]


def _check_is_header(names: Sequence[str], cells: pd.DataFrame, origin: str) -> None:
    """Refuse a first line of numbers, unless these count or are in order, as years, or of cells as those below."""
    if names == [str(i) for i in range(len(names))]:
        return
    is_number = [_NUMBER.fullmatch(name) is not None for name in names]
    numbers = [float(name.replace(",", ".")) for name, is_one in zip(names, is_number, strict=True) if is_one]
    repeated = sum(
        bool(name) and not is_number[i] and bool((cells.iloc[:, i] == name).any()) for i, name in enumerate(names)
    )
    is_ordered = not repeated and len(numbers) < len(names) and numbers == sorted(set(numbers))
    if not is_ordered and 2 * (len(numbers) + repeated) > len(names):
        raise FedkinError(
            f"The first line of {origin} holds numbers, or cells as in the rows below; it must name the columns, or "
            f"{setting('header', False)} if it is a row."
        )


# Workbooks.


def read_sheet(path: Path, origin: str, names: Sequence[str] = (), header: bool = True) -> pd.DataFrame:
    """Read a sheet of a workbook: the first of `names` that it has, or by default the only one that holds anything.

    Cells are numbers, texts, truth values, dates and times as the workbook has them. Empty rows and columns around them
    are left out, and so are hidden sheets, unless named; a `header` is as for `_with_names`. Formulas have the value
    they had when the file was saved, none if no program has computed them; errors such as ``#DIV/0!`` are empty cells.

    Raises FedkinError if the file cannot be read, has no such sheet, or several to choose from.
    """
    require(f"Reading {origin}", "python_calamine", "excel")
    import pandas as pd
    from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    try:
        content = path.read_bytes()
        _check_extent(content, origin)
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
        shown = (SheetTypeEnum.WorkSheet, SheetVisibleEnum.Visible)
        sheets = [sheet.name for sheet in book.sheets_metadata if (sheet.typ, sheet.visible) == shown]
        if names:
            sheets = [name for name in names if name in book.sheet_names][:1]
        read = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=True) for name in sheets}
    except (OSError, CalamineError) as error:
        raise FedkinError(
            f"{origin} cannot be read as {path.suffix.lower()} (it is damaged, protected by a password, or no "
            "workbook); open it in a spreadsheet, and save it as .xlsx or .csv."
        ) from error
    filled = {name: rows for name, rows in read.items() if rows}
    if len(filled) != 1:
        choice = setting("sheet", next(iter(filled), book.sheet_names[0] if book.sheet_names else "NAME"))
        holds = f"{len(filled)} sheets that hold anything" if not names else f"no sheet {' or '.join(map(repr, names))}"
        listed = listing([f"'{name}'" for name in filled or book.sheet_names], 5) or "none"
        raise FedkinError(f"{origin} has {holds}, of {listed}; {choice}, for one is read.")
    frame = _with_names(pd.DataFrame(next(iter(filled.values())), dtype=object), origin, header)
    return frame.mask(frame == "", None)


def _check_extent(content: bytes, origin: str) -> None:
    """Raise FedkinError if a sheet unpacks to more than memory holds; its reader would end the process.

    That makes a cell of every position between the first and the last that hold something.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):  # .xls, whose sheets have at most 65,536 rows of 256 cells
        return
    if b"xl/workbook.bin" in content:  # .xlsb, called otherwise
        raise FedkinError(f"{origin} is a binary workbook; open it in a spreadsheet, and save it as .xlsx or .csv.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_room(origin, sum(member.file_size for member in archive.infolist()))
            for name in archive.namelist():
                count = _repeated_cells if name == "content.xml" else _cells_between
                check_room(origin, _CELL_BYTES * count(archive.read(name)))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return  # of which the reader has more to say


def _cells_between(sheet: bytes) -> int:
    """Return how many positions lie between the first and the last cell of an .xlsx sheet that hold something."""
    filled = set(re.findall(rb"""<(?:\w+:)?c\s[^>]*?\br=["']([A-Z]{1,3})(\d{1,7})["'][^>]*(?<!/)>""", sheet))
    if not filled:
        return 0
    rows = [int(row) for _, row in filled]
    names = {letters for letters, _ in filled}
    columns = [functools.reduce(lambda number, letter: 26 * number + letter - 64, name, 0) for name in names]
    return (max(columns) - min(columns) + 1) * (max(rows) - min(rows) + 1)


def _repeated_cells(sheet: bytes) -> int:
    """Return how many cells of an .ods file hold something, each as often as it and its row are repeated."""
    row = rb'<table:table-row(?:[^>]*?number-rows-repeated="(\d{1,9})")?[^>]*(?<!/)>(.*?)</table:table-row>'
    cell = rb'<table:table-cell(?=[^>]*office:value-type)(?:[^>]*?number-columns-repeated="(\d{1,9})")?[^>]*>'
    return sum(
        int(repeats or 1) * sum(int(count or 1) for count in re.findall(cell, cells))
        for repeats, cells in re.findall(row, sheet, re.DOTALL)
    )


# Parquet and NumPy.


def _read_parquet(path: Path, origin: str) -> pd.DataFrame:
    require(f"Reading {origin}", "pyarrow", "parquet")
    import pandas as pd
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
        check_columns(about.num_columns, origin)
        unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        check_room(origin, max(about.num_rows * about.num_columns * 8, unpacked))
        frame = pd.read_parquet(path)
    except FedkinError:
        raise
    except Exception as error:  # whatever Arrow and pandas raise over damaged bytes
        reason = (str(error).splitlines() or ["empty"])[0]
        if twice := re.match(r"Multiple matches for FieldRef\.Name\((.*)\) in ", reason):
            raise FedkinError(f"{origin} has more than one column '{twice[1]}'; rename all but one.") from error
        if "magic bytes not found" in reason:
            reason = "it is damaged, or no Parquet file"
        raise FedkinError(f"{origin} cannot be read as {path.suffix.lower()} ({reason}).") from error
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    return frame.reset_index(named) if named else frame  # they are columns of the file


def _read_npz(path: Path, label: str | None, cluster: str | None) -> Dataset:
    """Read a ``.npz`` file: its array ``x``, or its only one with two or more dimensions, and labels if it has any."""
    origin = f"'{path}'"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            check_room(origin, 2 * sum(member.file_size for member in file.zip.infolist()))  # as saved, and as float32
            arrays = {name: file[name] for name in file.files}
    except FedkinError:
        raise
    except Exception as error:  # whatever zipfile, zlib and NumPy's reader of headers raise over damaged bytes
        raise FedkinError(
            f"{origin} cannot be read as .npz; it must hold plain numeric arrays, as numpy.savez(path, x=..., y=...) "
            "saves them, and no Python objects such as a dict."
        ) from error
    for name in (label, cluster):
        if name not in (None, NO_LABELS) and name not in arrays:
            raise unknown_name(f"array of labels in {origin}", name, arrays)
    label = label or usual_label(name for name in arrays if name != cluster)
    label = label if label in arrays else None
    wide = [name for name, array in arrays.items() if array.ndim >= 2 and name not in (label, cluster)]
    if "x" not in arrays and len(wide) != 1:
        raise FedkinError(f"{origin} holds the arrays {', '.join(arrays) or 'none'}; name the samples' array 'x'.")
    x = as_tensor(arrays["x" if "x" in arrays else wide[0]], origin)
    coded = {name: _coded(arrays, name, len(x), origin) for name in (label, cluster) if name is not None}
    y, classes = coded[label] if label is not None else (None, [])
    return Dataset(path.name, x, y, classes, clusters=None if cluster is None else coded[cluster])


def _coded(arrays: Mapping[str, npt.NDArray[Any]], name: str, samples: int, origin: str) -> tuple[Tensor, list[str]]:
    """Return the labels in one array as class indices, after checking that there is one for each sample."""
    y, classes = encode_labels(arrays[name], f"Array '{name}' of {origin}")
    if len(y) != samples:
        raise FedkinError(f"{origin} holds {samples} samples, but {len(y)} labels in '{name}'.")
    return y, classes
