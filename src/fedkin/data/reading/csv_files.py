"""Reading of CSV files with pandas: encoding, separator and header are found, and all cells stay texts."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from fedkin.core.errors import FedkinError
from fedkin.core.files import check_room, ending_of
from fedkin.data.reading.cells import NUMBER

if TYPE_CHECKING:
    import pandas as pd

MAX_COLUMNS = 100_000
"""Columns of a table: each is looked at alone, which takes 0.1 ms, so that more take minutes with few rows."""
SEPARATORS = ",;\t|"
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
_PROBED_ROWS = 200


def read_csv(path: Path, where: str, encoding: str = "utf-8", header: bool = True) -> pd.DataFrame:
    """Read a CSV file into texts; the frame's ``attrs["separator"]`` is what stands between its cells.

    That is the one of comma, semicolon, tab, bar and blanks by which rows have as many cells as the first line, or the
    one that a line such as ``sep=;`` names. What spreadsheets leave behind is dropped: empty rows, and empty columns
    without a name. A first column without a name that counts the rows is dropped, too, and one of different texts is
    called ``index``. Without a `header` columns are called by their number, from 1.

    Raises FedkinError if the file is no text in UTF-8, in UTF-16 with a byte order mark, or in `encoding`; if its first
    line is no header, rows are longer than that, or a column has no name.
    """
    import pandas as pd

    text, separator = _text(path, where, encoding), None
    if first := re.match(r'"?sep=(.)"?[ \t]*(?:\r?\n|\Z)', text, re.IGNORECASE):  # as spreadsheets write it
        text, separator = text[first.end() :], first[1]
    names, separator = _names_and_separator(text, separator)
    check_columns(len(names), where)
    if header:
        _check_no_numbers(names, where)
    how = {"sep": separator, "dtype": object, "keep_default_na": False, "index_col": False, "skipinitialspace": True}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(io.StringIO(text), header=0 if header else None, **how)
    except pd.errors.ParserWarning as error:
        raise FedkinError(
            f"Rows of {where} hold more cells than its first line has names ({len(names)}); it must name the columns "
            "(a title above them? delete it)."
        ) from error
    except (ValueError, csv.Error) as error:
        raise FedkinError(f"{where} cannot be read as {ending_of(path)} ({_reason(error)}).") from error
    if names and frame.shape[1] != len(names):  # a cell is longer than Python's reader takes
        found = f"its first line names {len(names)} columns, but its rows have {frame.shape[1]} cells"
        raise FedkinError(f"{where} cannot be read as {ending_of(path)} ({found}).")
    frame.columns = pd.Index(names if header else [str(at + 1) for at in range(len(names))])
    frame = with_names(frame.fillna(""), where)
    if header:
        _check_is_header(frame, where)
    frame.attrs["separator"] = separator
    return frame


def with_names(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return a table of cells without empty rows, and without empty or counting columns that have no name."""
    cells = frame.to_numpy(dtype=object)
    empty = (cells == "") | (cells != cells)  # as NaN does
    if frame.shape[1] > 1 and empty.all(axis=1).any():
        kept = ~empty.all(axis=1)
        frame, empty = frame[kept].reset_index(drop=True), empty[kept]
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
    frame.columns = frame.columns.__class__(names)
    return frame.iloc[:, [at for at in range(len(names)) if at not in dropped]] if dropped else frame


def check_columns(count: int, where: str) -> None:
    """Raise FedkinError if a table has more columns than can be read."""
    if count > MAX_COLUMNS:
        raise FedkinError(f"{where} has {count:,} columns; a table may have {MAX_COLUMNS:,}, an array has no limit.")


def _names_and_separator(text: str, said: str | None) -> tuple[list[str], str]:
    """Return the cells of the first line, and the separator: `said`, or the one that fits most rows."""
    best: tuple[float, int] = (-1.0, 0)
    names, chosen = next(iter(_rows(text, said or ",")), []), said or ","
    for separator in () if said else (*SEPARATORS, " "):
        rows = _rows(text, separator)
        if not rows or (width := len(rows[0])) < 2:
            continue
        fitting = sum(len(row) in (width, width + (row[-1:] == [""])) for row in rows[1:]) / max(1, len(rows) - 1)
        if separator == " " and (best[1] or fitting < 1 or len(rows) < 2):
            continue
        if (fitting, width) > best:
            best, names, chosen = (fitting, width), rows[0], _BLANKS if separator == " " else separator
    return [name.strip() for name in names], chosen


def _rows(text: str, separator: str) -> list[list[str]]:
    """Return the first rows of a file, without empty lines."""
    probe = text if len(text) <= _PIECE else text[:_PIECE].rpartition("\n")[0] or text
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(probe, newline=""), delimiter=separator, skipinitialspace=True):
            if row:
                rows.append(row)
            if len(rows) > _PROBED_ROWS:
                break
    except csv.Error:
        pass
    return rows


def _check_no_numbers(names: list[str], where: str) -> None:
    """Refuse a first line of nothing but numbers, unless they count columns from 0."""
    counted = [str(position) for position in range(len(names))]
    if names and names != counted and all(NUMBER.fullmatch(name.replace(",", ".")) for name in names):
        raise FedkinError(
            f"The first line of {where} holds numbers; it must name the columns, or set header = false if it is a row."
        )


def _check_is_header(frame: pd.DataFrame, where: str) -> None:
    """Refuse a first line most of whose cells resemble those below them, as a row does: texts or numbers like theirs.

    Numbers in order are names, as years and wavelengths are.
    """
    numbers, texts = [], 0
    for name, cells in zip(frame.columns, frame.iloc[:_PROBED_ROWS].to_numpy(dtype=object).T, strict=True):
        below = [cell.strip() for cell in cells]
        if NUMBER.fullmatch(name):
            numbers += [float(name)] if all(not cell or NUMBER.fullmatch(cell) for cell in below) else []
        else:
            texts += name in below
    ordered = all(number < other for number, other in pairwise(numbers))
    if (texts or not ordered) and 2 * (len(numbers) + texts) > frame.shape[1]:
        raise FedkinError(
            f"The first line of {where} looks like a row of data, or is there twice; it must name the columns once, or "
            "set header = false if it is a row."
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
    used = _encoding_of(content, encoding)
    if used.startswith("utf-8") and b"\0" in content:
        raise FedkinError(
            f"{where} has bytes of 0; set encoding = 'utf-16-le' if it is UTF-16 without a byte order mark, or copy it "
            "again, for it is damaged."
        )
    try:
        text = content.decode(used).rstrip("\x1a")  # which DOS ends files with
        return text if "\n" in text else text.replace("\r", "\n")
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        called = "UTF-8" if used in ("utf-8", "utf-8-sig") else used
        advice = "set encoding = 'cp1252' or what it is in, or save it as UTF-8, in Excel 'CSV UTF-8'"
        raise FedkinError(
            f"{where} cannot be read as {ending_of(path)} (line {line:,} is no {called}); {advice}."
        ) from error


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


def _encoding_of(content: bytes, encoding: str) -> str:
    """Return the encoding of a file: UTF-16 or UTF-8 if it begins or reads so, else the one that was named."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if content.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return encoding
    return encoding if content.isascii() else "utf-8"  # bytes below 128 alone may be of any, such as UTF-16
