"""Reading of CSV files as programs and people write them: any usual separator, quotes, byte order marks, blanks."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import FedkinError
from fedkin.core.files import check_room, ending_of
from fedkin.data.reading.columns import DASHES
from fedkin.data.reading.csv.csv_cells import restore_dashes, restore_levels, restore_texts
from fedkin.data.reading.csv.csv_headers import (
    beyond_names,
    check_is_header,
    check_names,
    check_no_title,
    check_no_units,
    header_of,
    is_nameless,
    lines_above_names,
    without_comments,
)
from fedkin.data.reading.csv.csv_thousands import check_thousands
from fedkin.data.reading.csv.csv_wrapped import unwrapped
from fedkin.data.reading.csv.csv_written import written_in
from fedkin.data.reading.table_options import NONE
from fedkin.data.reading.workbook import Sheet

if TYPE_CHECKING:
    import pandas as pd

_LEADING_ZERO = r" *[+-]?0\d"
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive, such as an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook or another Office file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
    b"<?xml": "an XML file",
    b"{\\rtf": "a text document",
}
"""How files begin that are often called .csv."""
_SIGN_IN_WORD = re.compile(r"(?<=[^\W\d_])[³¹¿£¥¯¼¾º](?=[^\W\d_])")
"""What is left of Polish letters, and of others of central Europe, where they are read as western ones: z³oty."""
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
"""Bytes that are unpacked at once."""
_TEXT_COPIES = 4
"""Copies of a text that are in memory while it becomes a table: bytes, characters, those that pandas reads, cells."""
_WEB_PAGE = re.compile(
    rb"<(?:!doctype|!--|(?:html|head|body|meta|style|script|div|table|thead|tbody|caption|center|span|p|h\d)"
    rb"(?:\s|>(?!\s*[,;\t|])))",
    re.IGNORECASE,
)
"""How HTML begins, but not a header such as ``<p>,<h1>``."""
_QUOTED_COMMA = re.compile(r'"[+-]?(?:\d+|\d{1,3}(?:[.\' ]\d{3})+),\d+(?:[eE][+-]?\d+)?"', re.ASCII)
_INDEX = " (if pandas has written its index there, write the file with index=False)"
_END_OF_FILE = "\x1a"
"""What DOS ends files with."""
_EMPTY_CELLS = [
    "?", ".", "-", "–", "—", "n/a", "N/A", "na", "Na", "Nan", "NAN", "Null", "<na>", "\\N", "#NULL!", "#DIV/0!", "#NUM!"
]  # fmt: skip
"""What stands for an empty cell beside pandas' own words, dashes unless they are values."""


def read_csv(
    path: Path,
    where: str,
    decimal: str = ".",
    encoding: str = "utf-8",
    kept: Callable[[str], Collection[str]] = lambda _: (),
    texts: Collection[str] = (),
    sheet: Sheet | None = None,
) -> pd.DataFrame:
    """Read a CSV file with a header, or a workbook's `sheet` as one, into numbers, booleans and text.

    The separator is the one of comma, semicolon, tab, bar and blanks by which rows have as many cells as the header, or
    the one that a first line such as ``sep=;`` names. First lines that begin with ``#`` are comments. Numbers with
    leading zeros stay text. What spreadsheets leave behind is dropped: empty rows, empty columns without a name, and
    row numbers before the first named column.

    With a decimal comma a file whose separator is the comma is read with a point, unless it has quoted numbers such as
    ``"1,5"``; the frame's ``attrs["decimal"]`` is what was used, and its ``attrs["written"]`` by column how a number is
    written that may be read in two ways. Names may be there twice. `kept` returns the words of
    an empty cell that are values of a column; "None" stays in columns of text unless it stands among numbers, too.
    Numbers and truth values in the columns that `texts` names are texts as the file has them, so 3.0 is not 3, unless
    all are whole beside empty cells, as programs write integers then.

    Raises FedkinError if it is no text in UTF-8, in UTF-16 with a byte order mark, or in `encoding`; if it has no
    header, or rows longer than that; if a column has no name; or if a point seems to separate thousands.
    """
    text, said = (sheet.text, ",") if sheet else _separated(_text(path, where, encoding))
    header, separator = header_of(text, said)
    check_names(header, where)
    if separator == "," and not _QUOTED_COMMA.search(text):
        decimal = "."  # commas are taken, so that a file among others with decimal commas has points
    cells = _Cells(text, separator, decimal)
    frame = _typed(cells, path, where, len(header), kept, texts)
    frame = _without_blank_rows(frame, cells)
    check_is_header(header, frame, where)
    check_no_title(header, frame, where)
    check_no_units(frame, where)
    sure = sheet.numbers if sheet else ()
    check_thousands(frame, cells.as_texts, where, decimal, separator, sure)
    written = written_in(frame, cells.as_texts, decimal, sure)
    frame = _without_remains(frame, header, where)
    frame.attrs |= {"decimal": decimal, "written": written}
    return frame


def _separated(text: str) -> tuple[str, str | None]:
    """Return a file's text with usual quotation marks and without comments, and the separator that it names, if any."""
    said = None
    if first := re.match(r'"?sep=(.)"?[ \t]*(?:\r?\n|\Z)', text, re.IGNORECASE):  # as spreadsheets write it
        text, said = text[first.end() :], first[1]
    return unwrapped(without_comments(text)), said


@dataclass(frozen=True)
class _Cells:
    """A file's text, which can be read as numbers and truth values, or as texts as they are written."""

    text: str
    separator: str
    decimal: str

    def read(self, **more: Any) -> pd.DataFrame:
        """Return the cells as pandas takes them, or as it is asked to by its own options."""
        import pandas as pd

        more |= {"sep": self.separator, "decimal": self.decimal, "index_col": False, "skipinitialspace": True}
        return pd.read_csv(io.StringIO(self.text), **more)

    def as_texts(self, **more: Any) -> pd.DataFrame:
        """Return the cells as they are written."""
        return self.read(dtype=str, **more)


def _typed(
    cells: _Cells, path: Path, where: str, names: int, kept: Callable[[str], Collection[str]], texts: Collection[str]
) -> pd.DataFrame:
    """Read cells into numbers, truth values and texts; `names` is how many columns the first line names.

    Raises FedkinError if pandas cannot read them, or rows are longer than the first line.
    """
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = cells.read(na_values=_EMPTY_CELLS, low_memory=False)
            frame = frame.copy()  # of many columns each is a block of its own, which pandas copies one by one
            _restore_codes(frame, cells)
            restore_texts(frame, cells.as_texts, texts)
            if any(dash in cells.text for dash in DASHES):
                restore_dashes(frame, cells.as_texts)
            restore_levels(frame, cells.as_texts, kept, NONE in cells.text)
    except pd.errors.ParserWarning as error:
        raise FedkinError(f"Rows of {where} hold {beyond_names(cells.text, cells.separator, names)}.") from error
    except (ValueError, csv.Error) as error:
        raise FedkinError(f"{where} cannot be read as {ending_of(path)} ({_reason(error, cells)}).") from error
    if names and frame.shape[1] != names:  # without a first line, a cell is longer than Python's reader takes
        found = f"its first line names {names} columns, but its rows have {frame.shape[1]} cells"
        raise FedkinError(f"{where} cannot be read as {ending_of(path)} ({found}).")
    return frame


def _restore_codes(frame: pd.DataFrame, cells: _Cells) -> None:
    """Put back what is written with leading zeros, in place: such numbers are codes."""
    if not re.search(rf'(?:\A|[\n"{re.escape(cells.separator)}]){_LEADING_ZERO}', cells.text):
        return
    whole = _whole_numbers(frame)
    codes = cells.as_texts(usecols=whole) if whole else frame
    for at in whole:
        if codes[frame.columns[at]].str.match(_LEADING_ZERO).any():
            frame[frame.columns[at]] = codes[frame.columns[at]]


def _without_blank_rows(frame: pd.DataFrame, cells: _Cells) -> pd.DataFrame:
    """Drop rows in which no cell has anything written; those with words for an empty cell stay."""
    import pandas as pd

    empty = frame.isna().to_numpy().all(axis=1)
    if frame.shape[1] < 2 or not empty.any():
        return frame
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.ParserWarning)  # the cells beyond the header are empty
        written = cells.as_texts(keep_default_na=False)
    blank = [all(not cell.strip() for cell in row) for row in written.to_numpy(dtype=object)[empty]]
    return frame.drop(index=frame.index[empty][blank]).reset_index(drop=True)


def _without_remains(frame: pd.DataFrame, header: list[str], where: str) -> pd.DataFrame:
    """Name a file's columns, and drop empty and nameless ones and row numbers that a spreadsheet has left."""
    import pandas as pd

    nameless = [at for at, name in enumerate(header) if is_nameless(name)]
    dropped = [at for at in nameless if frame.iloc[:, at].isna().all()]
    first = frame.iloc[:, 0]
    if 0 in nameless and len(header) > 1 and pd.api.types.is_integer_dtype(first) and first.is_unique:
        dropped.append(0)
    if kept := [at for at in nameless if at not in dropped and header != [""]]:
        raise FedkinError(
            f"Column {kept[0] + 1} of {where} has no name; the first line must name the columns"
            f"{_INDEX if kept[0] == 0 else ''}."
        )
    own = [str(name).strip() for name in frame.columns]
    named = [name for name in header if not is_nameless(name)]
    if len(set(named)) < len(named):  # pandas numbers them
        own = [name if name in named else mangled for name, mangled in zip(header, own, strict=True)]
    frame.columns = pd.Index(own)
    if dropped and len(dropped) < len(header):
        frame = frame.iloc[:, [at for at in range(len(header)) if at not in dropped]]
    return frame


def _reason(error: Exception, cells: _Cells) -> str:
    """Return why pandas could not read a file, in plain words for the usual reasons."""
    said = (str(error).splitlines() or ["empty"])[0]
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said):
        expected, line, seen = map(int, found.groups())
        cause = f"line {line:,} has {seen} cells, but the first line names {expected} column{'s' * (expected != 1)}"
        if not lines_above_names(cells.text, cells.separator, line, seen):
            return cause
        return f"{cause}; if the names are in line {line}, delete the lines above"
    if found := re.search(r"EOF inside string starting at row (\d+)", said):
        return f"a quotation mark in row {int(found[1])} is never closed"
    return "the file is empty" if "No columns to parse" in said else said


def _text(path: Path, where: str, encoding: str) -> str:
    try:
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
    if b"\0" in content and used.startswith("utf-8"):
        line = content[: content.index(b"\0")].count(b"\n") + 1
        raise FedkinError(
            f"{where} has bytes of 0 in line {line:,} (a damaged copy, or UTF-16 without a byte order mark?); copy it "
            "again, or save it as UTF-8."
        )
    try:
        text = content.decode(used).rstrip(_END_OF_FILE)
        return text if "\n" in text else text.replace("\r", "\n")
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        advice = f"set encoding = '{_likely(content)}' or what it is in, or save it as UTF-8, in Excel 'CSV UTF-8'"
        if used == encoding and encoding != "utf-8":
            advice = "nor is the file UTF-8; another encoding fits it"
        called = "UTF-8" if used in ("utf-8", "utf-8-sig") else used
        raise FedkinError(
            f"{where} cannot be read as {ending_of(path)} (line {line} is no {called}); {advice}."
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


def _likely(content: bytes) -> str:
    """Return the encoding of central Europe if that of western Europe has signs within words, else the latter."""
    return "cp1250" if _SIGN_IN_WORD.search(content.decode("cp1252", "replace")) else "cp1252"


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


def _whole_numbers(frame: pd.DataFrame) -> list[int]:
    """Return the positions of columns of integers, which may have been written with leading zeros."""
    from pandas.api import types

    def whole(column: pd.Series) -> bool:
        if types.is_float_dtype(column):
            return bool((column.isna() | (column % 1 == 0)).all())
        return bool(types.is_integer_dtype(column))

    return [at for at, (_, column) in enumerate(frame.items()) if whole(column)]
