"""Reading of files with a data set: CSV, Parquet and workbooks by pandas, and arrays in ``.npz``."""

from __future__ import annotations

import codecs
import csv
import functools
import gzip
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fedkin.core.doors import setting
from fedkin.core.errors import FedkinError, listing, require, unknown_name
from fedkin.core.files import check_room, ending_of
from fedkin.data.arrays import as_tensor
from fedkin.data.cells import COMMA, EXACT, LEADING_ZERO, MISSING, NUMBER, POINT
from fedkin.data.dataset import Dataset, encode_labels, usual_label
from fedkin.data.names import READ, WORKBOOKS, missing, not_read
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.tables import SEPARATORS, check_columns, frame_to_dataset

if TYPE_CHECKING:
    import pandas as pd
    from python_calamine import CalamineWorkbook

_BLANKS = r"\s+"
"""The separator of cells with blanks between them, as pandas reads it."""
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive, such as an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook or another Office file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
}
"""How files begin that are often called .csv."""
_WEB_PAGE = re.compile(rb"<(?:!doctype|!--|\?xml|html|head|body|table)\b", re.IGNORECASE)
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
"""Bytes that are unpacked at once, and characters that the separator is found in."""
_TEXT_COPIES = 6
"""Copies of a text that are in memory while it becomes a table: bytes, characters, and pandas' cells, 50 bytes each."""
_ARRAY_COPIES = 2
"""Copies of an array that are in memory while it is read: as it is saved, and in float32."""
_PROBED_ROWS = 200
_THOUSANDS = {POINT: re.compile(r"[+-]?\d{1,3}\.\d{3}"), COMMA: re.compile(r"[+-]?\d{1,3},\d{3}")}
_ROUNDING = 1e-6
"""What float64 rounds in thousandths of numbers below 1,000, and much more."""
_EXACT_DIGITS = 15
"""Digits that float64 always holds."""
_EMPTY_WORDS = sorted({form for word in MISSING for form in (word, word.upper(), word.capitalize())} | {"NaN", "<NA>"})
"""Words of an empty cell among numbers, as pandas is to know them."""
_TYPED: dict[str, Any] = {"na_values": _EMPTY_WORDS, "low_memory": False}
_WITH_LABELS = {"x": "y", "x_train": "y_train", "train_images": "train_labels"}
_SAMPLES = (*_WITH_LABELS, "images", "data")
"""Names of the samples' array in a file of several, the first that exists, and of the labels beside it."""
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


def read_file(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Read a ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file, or a workbook such as ``.xlsx``.

    Those of text may be compressed, as ``.csv.gz``. `label` and `cluster` are columns or arrays of labels and clusters;
    a ``.npz`` has no names of columns, so `options` say nothing about it. Raises FedkinError if it is none of these, or
    cannot be used, with a line for each column that cannot.
    """
    ending, where = ending_of(path), f"'{path}'"
    if ending not in READ:
        raise not_read(str(path))
    if not path.exists():
        raise missing(str(path), path)
    if not path.is_file():
        raise FedkinError(f"'{path}' is no regular file, but {'a directory' if path.is_dir() else 'a pipe or device'}.")
    if ending == ".npz":
        return _read_npz(path, label, cluster)
    if ending == ".parquet":
        frame = _read_parquet(path, where)
    elif ending in WORKBOOKS:
        frame = read_sheet(path, where, options.sheet, options.header)
    else:
        frame = read_csv(path, where, options)
    return frame_to_dataset(frame, path.name, where, label, cluster, options)


def read_csv(path: Path, where: str, options: TableOptions = NO_OPTIONS) -> pd.DataFrame:
    """Read a CSV file: columns of plain numbers as such, all others as texts.

    The separator is the one of comma, semicolon, tab, bar and blanks by which rows have as many cells as the first
    line, or the one that a line such as ``sep=;`` names; the frame's ``attrs["separator"]`` has it, and
    ``attrs["decimal"]`` the point where numbers show that it stands before decimals. What spreadsheets leave behind is
    dropped: empty rows, and empty columns without a name. A first column without a name that counts the rows is
    dropped, too, and one of different texts is called ``index``. Without a header columns are called by their number,
    from 1.

    Raises FedkinError if the file is no text in UTF-8, in UTF-16 with a byte order mark, or in the named encoding; if
    its first line is no header, rows are longer than that, or a column has no name.
    """
    import pandas as pd

    text, separator = _text(path, where, options.encoding), None
    if first := re.match(r'"?sep=(.)"?[ \t]*(?:\r?\n|\Z)', text, re.IGNORECASE):  # as spreadsheets write it
        text, separator = text[first.end() :], first[1]
    rows, separator = _probe(text, separator)
    names = [name.strip() for name in rows[0]] if rows else []
    check_columns(len(names), where)
    if options.header:
        _check_is_header(rows, where)
    how: dict[str, Any] = {"sep": separator, "header": 0 if options.header else None, "index_col": False}

    def read(**more: Any) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(text), skipinitialspace=True, keep_default_na=False, **how, **more)

    codes = functools.cache(lambda: _holds_codes(text, separator))
    names = names if options.header else [str(at + 1) for at in range(len(names))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = read(**_TYPED)
            if names and frame.shape[1] != len(names):  # a cell is longer than Python's reader takes
                raise ValueError(f"its first line names {len(names)} columns, its rows have {frame.shape[1]} cells")
            frame = _with_texts(frame.set_axis(names, axis=1), read, codes, separator, options)
    except pd.errors.ParserWarning as error:
        raise FedkinError(
            f"Rows of {where} hold more cells than its first line has names ({len(names)}); it must name the columns "
            "(a title above them? delete it)."
        ) from error
    except (ValueError, csv.Error) as error:
        raise FedkinError(f"{where} cannot be read as {ending_of(path)} ({_reason(error)}).") from error
    frame = with_names(frame, where, lambda: read(dtype=object))
    frame.attrs["separator"] = separator
    return frame


def _with_texts(
    frame: pd.DataFrame, read: Any, codes: Callable[[], bool], separator: str, options: TableOptions
) -> pd.DataFrame:
    """Return a file's columns as texts, but for those of plain numbers alone, which pandas has typed in `frame`.

    Texts are also numbers that may be codes, as those with leading zeros, if the file has any `codes`, and those beyond
    2^53, or whose point or comma may separate thousands; and columns that options name. `read` reads the file anew.
    """
    import pandas as pd

    named = {*options.categorical, *options.ordinal, *options.levels}
    rest = [at for at, name in enumerate(frame.columns) if name not in named]
    plain: dict[int, pd.Series] = {}
    signs = set[str]()
    for sign in (POINT,) if separator == COMMA else (POINT, COMMA):
        if not rest:
            break
        typed = frame.iloc[:, rest] if sign == POINT else read(decimal=sign, usecols=rest, **_TYPED)
        doubtful: dict[int, pd.Series] = {}
        for at, (_, column) in zip(rest, typed.items(), strict=True):
            if not isinstance(column.dtype, np.dtype) or column.dtype.kind not in "iuf":
                continue
            values = column.to_numpy()
            values = values[np.isfinite(values)]
            fractions, largest = values.dtype.kind == "f" and bool((values % 1).any()), np.abs(values).max(initial=0)
            thousands = separator != COMMA and values.dtype.kind == "f" and largest < 1000 and _are_thousandths(values)
            if largest > EXACT or thousands or (not fractions and codes()):
                doubtful[at] = column
                continue
            plain[at] = column
            signs |= {sign} if fractions or sign == COMMA else set()
        texts = read(dtype=object, usecols=[*doubtful]).items() if doubtful else ()
        for (at, column), (_, text) in zip(doubtful.items(), texts, strict=True):
            cells = [cell.strip() for cell in text.fillna("")]
            signed = [cell for cell in cells if sign in cell]
            if separator != COMMA and signed and all(map(_THOUSANDS[sign].fullmatch, signed)):
                continue
            if not any(len(cell) > _EXACT_DIGITS for cell in cells) and not any(map(LEADING_ZERO.match, cells)):
                plain[at] = column
                signs |= {sign} if signed else set()
        rest = [at for at in rest if at not in plain and at not in doubtful]
    width, names = frame.shape[1], frame.columns
    others = [at for at in range(width) if at not in plain]
    written = read(dtype=object, usecols=others).fillna("").items() if others else ()
    columns = plain | {at: cells for at, (_, cells) in zip(others, written, strict=True)}
    if others or COMMA in signs:
        frame = pd.DataFrame({at: columns[at] for at in range(width)}).set_axis(names, axis=1)
    frame.attrs["decimal"] = signs.pop() if len(signs) == 1 else None
    return frame


def _are_thousandths(values: npt.NDArray[np.float64]) -> bool:
    """Return whether no number has more than three decimals."""
    return bool((np.abs(1000 * values - np.round(1000 * values)) < _ROUNDING).all())


def _holds_codes(text: str, separator: str) -> bool:
    """Return whether any cell begins with a zero and another digit, as codes, dates and times do."""
    before = {"\n", '"', " ", "\t" if separator == _BLANKS else separator}
    return any(re.search(rf"{re.escape(sign)}[+-]?0\d", text) for sign in before)


def with_names(frame: pd.DataFrame, where: str, texts: Callable[[], pd.DataFrame] | None = None) -> pd.DataFrame:
    """Return a table of cells without empty rows, and without empty or counting columns that have no name.

    Rows of nothing but words for empty cells stay; `texts` has a file's cells as they are written.
    """
    empty = frame.isna().to_numpy() | (frame == "").to_numpy(dtype=bool)
    if frame.shape[1] > 1 and (blank := empty.all(axis=1)).any():
        blank = blank if texts is None else (texts().fillna("") == "").to_numpy(dtype=bool).all(axis=1)
        frame, empty = frame[~blank].reset_index(drop=True), empty[~blank]
    names = [str(name).strip() for name in frame.columns]
    nameless = [at for at, name in enumerate(names) if not name or name.startswith("Unnamed: ")]
    dropped = {at for at in nameless if empty[:, at].all() and len(names) > 1}
    if 0 in nameless and 0 not in dropped and len(names) > 1 and frame.iloc[:, 0].is_unique:
        counts = frame.iloc[:, 0].astype(str).str.fullmatch(r"\d+").all()
        if counts or "index" in names:
            dropped.add(0)
        else:
            names[0] = "index"
    for at in nameless:
        if at not in dropped and names[at] != "index":
            raise FedkinError(f"Column {at + 1} of {where} has no name; the first line must name the columns.")
    frame = frame.set_axis(names, axis=1)
    return frame.iloc[:, [at for at in range(len(names)) if at not in dropped]] if dropped else frame


def _probe(text: str, said: str | None) -> tuple[list[list[str]], str]:
    """Return the cells of the first rows, without empty lines, and the separator: `said`, or what fits most rows."""
    best: tuple[float, int] = (-1.0, 0)
    chosen, separator = _rows(text, said or ","), said or ","
    for candidate in () if said else (*SEPARATORS, " "):
        rows = _rows(text, candidate)
        if not rows or (width := len(rows[0])) < 2:
            continue
        fitting = sum(len(row) in (width, width + (row[-1:] == [""])) for row in rows[1:]) / max(1, len(rows) - 1)
        if candidate == " " and (best[1] or fitting < 1 or len(rows) < 2):
            continue
        if (fitting, width) > best:
            best, chosen, separator = (fitting, width), rows, _BLANKS if candidate == " " else candidate
    return chosen, separator


def _rows(text: str, separator: str) -> list[list[str]]:
    """Return the first rows of a file, without empty lines."""
    probe = text if len(text) <= _PIECE else text[:_PIECE].rpartition("\n")[0] or text
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(probe, newline=""), delimiter=separator, skipinitialspace=True):
            if row:
                rows.append([cell.strip() for cell in row])
            if len(rows) > _PROBED_ROWS:
                break
    except csv.Error:
        pass
    return rows


def _check_is_header(rows: Sequence[Sequence[str]], where: str) -> None:
    """Refuse a first line of numbers, unless they count columns from 0, or most of whose cells resemble those below.

    So does a row: its cells are texts or numbers like theirs. Numbers in order are names, as years and wavelengths are.
    """
    names, *below = rows or [[]]
    counted = names == [str(at) for at in range(len(names))]
    if not counted and all(NUMBER.fullmatch(name.replace(",", ".")) for name in names):
        raise FedkinError(
            f"The first line of {where} holds numbers; it must name the columns, or {setting('header', False)} "
            "if it is a row."
        )
    numbers, texts = [], 0
    for at, name in enumerate(names):
        cells = [row[at] for row in below if len(row) > at]
        if NUMBER.fullmatch(name):
            numbers += [float(name)] if all(not cell or NUMBER.fullmatch(cell) for cell in cells) else []
        else:
            texts += bool(name) and name in cells
    ordered = all(number < other for number, other in pairwise(numbers))
    if (texts or not ordered) and 2 * (len(numbers) + texts) > len(names):
        raise FedkinError(
            f"The first line of {where} looks like a row of data, or is there twice; it must name the columns once, or "
            f"{setting('header', False)} if it is a row."
        )


def _reason(error: Exception) -> str:
    """Return why pandas could not read a file, in plain words for the usual reasons."""
    said = (str(error).splitlines() or ["empty"])[0]
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said):
        expected, line, seen = map(int, found.groups())
        return (
            f"line {line:,} has {seen} cells, but the first line names {expected} column{'s' * (expected != 1)}; if "
            "the names stand further below, delete the lines above them"
        )
    if found := re.search(r"EOF inside string starting at row (\d+)", said):
        return f"a quotation mark in row {int(found[1])} is never closed"
    return "the file is empty" if "No columns to parse" in said else said


def _text(path: Path, where: str, encoding: str) -> str:
    try:
        check_room(where, _TEXT_COPIES * path.stat().st_size)
        content = _unpacked(path.read_bytes(), where)
    except OSError as error:
        raise FedkinError(f"{where} cannot be read as {ending_of(path)} ({error.strerror or error}).") from error
    except (EOFError, zlib.error) as error:
        raise FedkinError(f"{where} is a damaged gzip archive ({error}); copy it again.") from error
    begin = content.removeprefix(codecs.BOM_UTF8)[:256].lstrip()
    other = next((what for sign, what in _OTHER_FORMATS.items() if begin.startswith(sign)), None)
    if other := "a web page" if _WEB_PAGE.match(begin) else other:
        raise FedkinError(f"{where} is no {ending_of(path)[1:].upper()} text, but {other}; save the table as CSV.")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif content.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    elif not content.isascii():  # bytes below 128 alone may be of any encoding, such as UTF-16
        with suppress(UnicodeDecodeError):
            return _without_end(content.decode("utf-8"))
    if encoding.startswith("utf-8") and b"\0" in content:
        raise FedkinError(
            f"{where} has bytes of 0; {setting('encoding', 'utf-16-le')} if it is UTF-16 without a byte order mark, or "
            "copy it again, for it is damaged."
        )
    try:
        return _without_end(content.decode(encoding))
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        called = "UTF-8" if encoding in ("utf-8", "utf-8-sig") else encoding
        advice = f"{setting('encoding', 'cp1252')} or what it is in, or save it as UTF-8, in Excel 'CSV UTF-8'"
        raise FedkinError(
            f"{where} cannot be read as {ending_of(path)} (line {line:,} is no {called}); {advice}."
        ) from error


def _without_end(text: str) -> str:
    """Return a text without the sign that DOS ends files with, and with line ends that pandas knows."""
    text = text.rstrip("\x1a")
    return text if "\n" in text else text.replace("\r", "\n")


def _unpacked(content: bytes, where: str) -> bytes:
    """Return the bytes of a file, unpacked if it is a gzip archive, whatever it is called."""
    if not content.startswith(_GZIP):
        return content
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        pieces = []
        while piece := packed.read(_PIECE):
            pieces.append(piece)
            check_room(where, _TEXT_COPIES * len(pieces) * _PIECE)
    return b"".join(pieces)


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
    cells = [[None if cell == "" else cell for cell in row] for row in (rows[1:] if header else rows)]
    return with_names(pd.DataFrame(cells, columns=called, dtype=object), where)


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
        first = setting("sheet", next(iter(filled)))
        raise FedkinError(f"{where} has {len(filled)} sheets, {sheets}; {first} for the first.")
    if not filled:
        raise FedkinError(f"{where} has no sheet that holds anything.")
    return next(iter(filled.values()))


def _read_parquet(path: Path, where: str) -> pd.DataFrame:
    require(f"Reading {where}", "pyarrow", "parquet")
    import pandas as pd
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
        check_columns(about.num_columns, where)
        unpacked = sum(about.row_group(at).total_byte_size for at in range(about.num_row_groups))
        check_room(where, max(about.num_rows * about.num_columns * 8, unpacked))
        frame = pd.read_parquet(path)
        named = [name for name in frame.index.names if name is not None and name not in frame.columns]
        return frame.reset_index(named) if named else frame  # they are columns of the file
    except FedkinError:
        raise
    except Exception as error:  # whatever Arrow and pandas raise over damaged bytes
        reason = (str(error).splitlines() or ["empty"])[0]
        if twice := re.match(r"Multiple matches for FieldRef\.Name\((.*)\) in ", reason):
            raise FedkinError(
                f"{where} has more than one column '{twice[1]}'; each needs a name of its own."
            ) from error
        if "magic bytes not found" in reason:
            reason = "it is damaged, or no Parquet file"
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({reason}).") from error


def _read_npz(path: Path, label: str | None, cluster: str | None) -> Dataset:
    """Read a ``.npz`` file: its array ``x``, or its only one with two or more dimensions, and labels if it has any."""
    where = f"'{path}'"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            check_room(where, _ARRAY_COPIES * sum(member.file_size for member in file.zip.infolist()))
            arrays = {name: file[name] for name in file.files}
    except FedkinError:
        raise
    except Exception as error:  # whatever zipfile, zlib and NumPy's reader of headers raise over damaged bytes
        raise FedkinError(
            f"{where} cannot be read as .npz; it must hold plain numeric arrays, as numpy.savez(path, x=..., y=...) "
            "saves them, and no Python objects such as a dict."
        ) from error
    for wanted in (label, cluster):
        if wanted not in (None, NO_LABELS) and wanted not in arrays:
            raise unknown_name(f"array of labels in {where}", wanted, arrays)
    if label is None:
        beside = (_WITH_LABELS[name] for name in _SAMPLES if name in arrays and name in _WITH_LABELS)
        label = usual_label(name for name in arrays if name != cluster) or next(beside, None)
        label = label if label in arrays else None
    label = None if label == NO_LABELS else label
    wide = [name for name, array in arrays.items() if array.ndim >= 2 and name not in (label, cluster)]
    samples = next((name for name in _SAMPLES if name in arrays), wide[0] if len(wide) == 1 else None)
    if samples is None:
        raise FedkinError(f"{where} holds the arrays {', '.join(arrays) or 'none'}; name the samples' array 'x'.")
    x = as_tensor(arrays[samples], where)
    coded = {name: _coded(arrays, name, len(x), where) for name in (label, cluster) if name is not None}
    y, classes = coded[label] if label is not None else (None, [])
    return Dataset(path.name, x, y, classes, clusters=None if cluster is None else coded[cluster])


def _coded(arrays: Mapping[str, npt.NDArray[Any]], name: str, samples: int, where: str) -> tuple[Tensor, list[str]]:
    """Return the labels in one array as class indices, after checking that there is one for each sample."""
    y, classes = encode_labels(arrays[name], f"Array '{name}' of {where}")
    if len(y) != samples:
        raise FedkinError(f"{where} holds {samples} samples, but {len(y)} labels in '{name}'.")
    return y, classes
