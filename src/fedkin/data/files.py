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
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedkin.core.errors import FedkinError, in_short, listing, require, setting, unknown_name
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
_FEW_ROWS = 200
"""Rows that show the separator, and whether the first line is a header."""
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_CELL = re.compile(rb"""<(?:\w+:)?c\s[^>]*?\br=["']([A-Z]{1,3})(\d{1,7})["'][^>]*(?<!/)>""")
"""Cell of an .xlsx sheet that holds something."""


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
        frame = read_sheet(path, origin, options.sheet)
    else:
        frame = read_csv(path, origin, options.encoding)
    return frame_to_dataset(frame, path.name, origin, label, cluster, options)


# Text.


def read_csv(path: Path, origin: str, encoding: str = "utf-8") -> pd.DataFrame:
    """Read a CSV file, all cells as texts; the frame's ``attrs["separator"]`` has what separates them.

    That is the one of comma, semicolon, tab, bar and blanks by which most rows have as many cells as the first line.
    Raises FedkinError if the file is no text in UTF-8, in UTF-16 with a byte order mark, or in the `encoding`; if its
    first line is no header, or rows are longer than that.
    """
    import pandas as pd

    text = _text(path, origin, encoding)
    separator = _separator_of(text)
    try:
        cells = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype=object, na_filter=False, skipinitialspace=True
        ).fillna("")
    except (ValueError, csv.Error) as error:
        reason = (str(error).splitlines() or ["empty"])[0].rstrip(".")  # with numbers of lines and cells, and no cell
        advice = "lines above the names of columns, or a quotation mark without an end, are the usual reasons"
        raise FedkinError(f"{origin} cannot be read as {ending_of(path)} ({reason}); {advice}.") from error
    frame = _with_names(cells, origin)
    frame.attrs["separator"] = separator
    return frame


def _separator_of(text: str) -> str:
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
    except (OSError, EOFError, zlib.error) as error:
        raise FedkinError(f"{origin} cannot be read as {ending_of(path)} ({error}).") from error
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif not content.isascii():  # bytes below 128 alone may be of any encoding, such as UTF-16
        with suppress(UnicodeDecodeError):
            return content.decode("utf-8-sig")
    try:
        if "\0" in (text := content.decode(encoding)):
            raise UnicodeError("bytes of 0, as of UTF-16 without a byte order mark")
        return text
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        advice = f"{setting('encoding', 'cp1252')} or what it is in, or save it as UTF-8, in Excel 'CSV UTF-8'"
        raise FedkinError(
            f"{origin} cannot be read as {ending_of(path)} (line {line:,} is no {encoding.upper()}); {advice}."
        ) from error


def _unpacked(content: bytes, origin: str) -> bytes:
    """Return the bytes in a gzip archive; they are looked at in pieces, since a small one may unpack to gigabytes."""
    pieces = []
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        while piece := packed.read(_PIECE):
            pieces.append(piece)
            check_room(origin, _TEXT_COPIES * len(pieces) * _PIECE)
    return b"".join(pieces)


def _with_names(cells: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Return cells as a table whose first row names the columns.

    What spreadsheets leave behind is dropped: empty rows, and empty columns without a name. A first column without a
    name, as R writes those of rows, is called ``index`` if its values differ. Raises FedkinError if another column has
    no name, or the first row is no header.
    """
    check_columns(cells.shape[1], origin)
    names, cells = [str(name).strip() for name in cells.iloc[0]], cells.iloc[1:]
    _check_is_header(names, cells.iloc[:_FEW_ROWS].astype(str), origin)
    if len(names) > 1:
        empty = (cells.isna() | (cells == "")).to_numpy(dtype=bool)
        named = np.array([bool(name) for name in names]) | ~empty.all(0)
        cells, names = cells.loc[~empty.all(1), named], [name for name, kept in zip(names, named, strict=True) if kept]
    if names[:1] == [""] and "index" not in names and cells.iloc[:, 0].is_unique:
        names[0] = "index"
    if "" in names:
        raise FedkinError(
            f"Column {names.index('') + 1} of {origin} has no name; the first line must name the columns."
        )
    return cells.set_axis(names, axis=1).reset_index(drop=True)


def _check_is_header(names: Sequence[str], cells: pd.DataFrame, origin: str) -> None:
    """Refuse a first line of numbers, unless these count or are in order, as years, or of cells as those below."""
    numbers = [float(name.replace(",", ".")) for name in names if _NUMBER.fullmatch(name)]
    repeated = sum(
        bool(name) and not _NUMBER.fullmatch(name) and bool((cells.iloc[:, i] == name).any())
        for i, name in enumerate(names)
    )
    counts = names == [str(i) for i in range(len(names))]
    in_order = not repeated and len(numbers) < len(names) and numbers == sorted(set(numbers))
    if not (counts or in_order) and 2 * (len(numbers) + repeated) > len(names):
        raise FedkinError(
            f"The first line of {origin} holds numbers, or cells as in the rows below; it must name the columns."
        )


# Workbooks.


def read_sheet(path: Path, origin: str, name: str | None = None) -> pd.DataFrame:
    """Read a sheet of a workbook, by `name` or the only one that holds anything.

    Empty rows and columns around cells are left out. Formulas have the value they had when the file was saved; errors
    such as ``#DIV/0!`` are empty cells. Raises FedkinError if the file cannot be read, has no such sheet, or several to
    choose from.
    """
    require(f"Reading {origin}", "python_calamine", "excel")
    import pandas as pd

    try:
        _check_extent(path.read_bytes(), origin)
        sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=object, engine="calamine", na_filter=False)
    except FedkinError:
        raise
    except Exception as error:  # whatever the reader raises over damaged bytes
        what = f"{origin} cannot be read as {path.suffix.lower()}"
        raise FedkinError(f"{what} (it is damaged, protected by a password, or no workbook).") from error
    cells = {key: frame.loc[(frame != "").any(axis=1), (frame != "").any()] for key, frame in sheets.items()}
    filled = {key: frame for key, frame in cells.items() if frame.size and name in (None, key)}
    if len(filled) != 1:
        holds = f"no sheet '{name}'" if name else f"{len(filled)} sheets that hold anything"
        choice = setting("sheet", next(iter(filled), "NAME"))
        listed = listing([f"'{key}'" for key in cells], 5)
        raise FedkinError(f"{origin} has {holds}, of {listed}; {choice}, for one is read.")
    frame = _with_names(next(iter(filled.values())), origin)
    return frame.mask(frame == "", None)


def _check_extent(content: bytes, origin: str) -> None:
    """Raise FedkinError if a sheet unpacks to more than memory holds; its reader would end the process.

    That makes a cell of every position between the first and the last that hold something. The sheets of .xls have at
    most 65,536 rows of 256 cells.
    """
    if b"xl/workbook.bin" in content:  # .xlsb, called otherwise
        raise FedkinError(f"{origin} is a binary workbook; open it in a spreadsheet, and save it as .xlsx or .csv.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_room(origin, sum(member.file_size for member in archive.infolist()))
            sheets = [_CELL.findall(archive.read(name)) for name in archive.namelist()]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return  # of which the reader has more to say
    for cells in filter(None, sheets):
        rows, names = [int(row) for _, row in cells], {letters for letters, _ in cells}
        columns = [functools.reduce(lambda number, letter: 26 * number + letter - 64, name, 0) for name in names]
        extent = (max(columns) - min(columns) + 1) * (max(rows) - min(rows) + 1)
        check_room(origin, 100 * extent)  # 24 bytes in the reader, and an object of Python's


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
    except Exception as error:  # whatever Arrow and pandas raise over damaged bytes, or two columns of one name
        raise FedkinError(f"{origin} cannot be read as {path.suffix.lower()} ({in_short(error)}).") from error
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
        form = "it must hold plain numeric arrays, as numpy.savez(path, x=..., y=...) saves them"
        raise FedkinError(f"{origin} cannot be read as .npz; {form}.") from error
    for name in (label, cluster):
        if name not in (None, NO_LABELS) and name not in arrays:
            raise unknown_name(f"array of labels in {origin}", name, arrays)
    label = label or usual_label(name for name in arrays if name != cluster)
    wide = [name for name, array in arrays.items() if array.ndim >= 2 and name not in (label, cluster)]
    if "x" not in arrays and len(wide) != 1:
        raise FedkinError(f"{origin} holds the arrays {', '.join(arrays) or 'none'}; name the samples' array 'x'.")
    x = as_tensor(arrays["x" if "x" in arrays else wide[0]], origin)
    coded = {}
    for name in {label, cluster} - {None, NO_LABELS}:
        coded[name] = encode_labels(arrays[str(name)], f"Array '{name}' of {origin}")
        if len(coded[name][0]) != len(x):
            raise FedkinError(f"{origin} holds {len(x)} samples, but {len(coded[name][0])} labels in '{name}'.")
    y, classes = coded.get(label, (None, []))
    return Dataset(path.name, x, y, classes, clusters=coded.get(cluster))
