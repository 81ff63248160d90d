"""Reading of CSV files as programs and people write them: any usual separator, quotes, byte order marks, blanks."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkin.core.errors import FedkinError, refuse
from fedkin.data.reading.columns import DASHES
from fedkin.data.reading.csv_cells import restore_dashes, restore_levels, restore_texts
from fedkin.data.reading.csv_headers import (
    check_is_header,
    check_names,
    check_no_units,
    header_of,
    is_nameless,
    without_comments,
)
from fedkin.data.reading.table_options import NONE
from fedkin.data.reading.text_values import COMMA_THOUSANDS, POINT_THOUSANDS

if TYPE_CHECKING:
    import pandas as pd

_LEADING_ZERO = r" *[+-]?0\d"
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive, such as an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook or another Office file",
    b"\x1f\x8b": "a gzip archive",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
    b"<?xml": "an XML file",
    b"{\\rtf": "a text document",
}
"""How files begin that are often called .csv."""
_WEB_PAGE = re.compile(
    rb"<(?:!doctype|!--|(?:html|head|body|meta|style|script|div|table|thead|tbody|caption|center|span|p|h\d)"
    rb"(?:\s|>(?!\s*[,;\t|])))",
    re.IGNORECASE,
)
"""How HTML begins, but not a header such as ``<p>,<h1>``."""
_QUOTED_COMMA = re.compile(r'"[+-]?(?:\d+|\d{1,3}(?:[.\' ]\d{3})+),\d+"', re.ASCII)
_INDEX = " (if pandas has written its index there, write the file with index=False)"
_FEW = 10
"""Distinct numbers like 1.234 that may still be fractions beside whole ones."""
_EMPTY_CELLS = ["?", ".", "-", "–", "—", "n/a", "N/A", "na", "Na", "Nan", "NAN", "Null", "<na>", "\\N"]
"""What stands for an empty cell beside pandas' own words, dashes unless they are values."""


def read_csv(
    path: Path,
    where: str,
    decimal: str = ".",
    encoding: str = "utf-8",
    kept: Callable[[str], Collection[str]] = lambda _: (),
    texts: Collection[str] = (),
) -> pd.DataFrame:
    """Read a CSV file with a header, into numbers, booleans and text.

    The separator is the one of comma, semicolon, tab, bar and blanks by which rows have as many cells as the header, or
    the one that a first line such as ``sep=;`` names. First lines that begin with ``#`` are comments. Numbers with
    leading zeros stay text. What spreadsheets leave behind is dropped: empty rows, empty columns without a name, and
    row numbers before the first named column.

    With a decimal comma a file whose separator is the comma is read with a point, unless it has quoted numbers such as
    ``"1,5"``; the frame's ``attrs["decimal"]`` is what was used. Names may be there twice. `kept` returns the words of
    an empty cell that are values of a column; "None" stays in columns of text unless it stands among numbers, too.
    Numbers and truth values in the columns that `texts` names are texts as the file has them, so 3.0 is not 3, unless
    all are whole beside empty cells, as programs write integers then.

    Raises FedkinError if it is no text in UTF-8, in UTF-16 with a byte order mark, or in `encoding`; if it has no
    header, or rows longer than that; if a column has no name; or if a point seems to separate thousands.
    """
    import pandas as pd

    text, said = _text(path, where, encoding), None
    if first := re.match(r'"?sep=(.)"?[ \t]*(?:\r?\n|\Z)', text, re.IGNORECASE):  # as spreadsheets write it
        text, said = text[first.end() :], first[1]
    text = without_comments(text)
    header, separator = header_of(text, said)
    check_names(header, where)
    if separator == "," and not _QUOTED_COMMA.search(text):
        decimal = "."  # commas are taken, so that a file among others with decimal commas has points
    options: dict[str, Any] = {"sep": separator, "index_col": False, "skipinitialspace": True, "decimal": decimal}

    def as_texts(**more: Any) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(text), dtype=str, **options, **more)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(io.StringIO(text), na_values=_EMPTY_CELLS, low_memory=False, **options)
            frame = frame.copy()  # of many columns each is a block of its own, which pandas copies one by one
            if re.search(rf'(?:\A|[\n"{re.escape(separator)}]){_LEADING_ZERO}', text):
                whole = _whole_numbers(frame)
                codes = as_texts(usecols=whole) if whole else frame
                for at in whole:
                    if codes[frame.columns[at]].str.match(_LEADING_ZERO).any():
                        frame[frame.columns[at]] = codes[frame.columns[at]]
            restore_texts(frame, as_texts, texts)
            if any(dash in text for dash in DASHES):
                restore_dashes(frame, as_texts)
            restore_levels(frame, as_texts, kept, NONE in text)
    except pd.errors.ParserWarning as error:
        raise FedkinError(
            f"Rows of {where} hold more cells than its first line has names ({len(header)}); it must name the columns "
            "(a title above them? delete it)."
        ) from error
    except (ValueError, csv.Error) as error:
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({_reason(error)}).") from error
    if header and frame.shape[1] != len(header):  # without one, a cell is longer than Python's reader takes
        found = f"its first line names {len(header)} columns, but its rows have {frame.shape[1]} cells"
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({found}).")
    empty = frame.isna().to_numpy().all(axis=1)
    if frame.shape[1] > 1 and empty.any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)  # the cells beyond the header are empty
            cells = as_texts(keep_default_na=False)
        blank = [all(not cell.strip() for cell in row) for row in cells.to_numpy(dtype=object)[empty]]
        frame = frame.drop(index=frame.index[empty][blank]).reset_index(drop=True)
    check_is_header(header, frame, where)
    check_no_units(frame, where)
    _check_thousands(frame, as_texts, where, decimal, separator)
    frame = _without_remains(frame, header, where)
    frame.attrs["decimal"] = decimal
    return frame


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


def _reason(error: Exception) -> str:
    """Return why pandas could not read a file, in plain words for the usual reasons."""
    said = (str(error).splitlines() or ["empty"])[0]
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said):
        expected, line, seen = found.groups()
        return f"line {line} has {seen} cells, but the first line names {expected} columns"
    if found := re.search(r"EOF inside string starting at row (\d+)", said):
        return f"a quotation mark in row {int(found[1])} is never closed"
    return "the file is empty" if "No columns to parse" in said else said


def _text(path: Path, where: str, encoding: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({error.strerror}).") from error
    begin = content.removeprefix(codecs.BOM_UTF8)[:256].lstrip()
    other = next((what for sign, what in _OTHER_FORMATS.items() if begin.startswith(sign)), None)
    if other := "a web page" if _WEB_PAGE.match(begin) else other:
        raise FedkinError(f"{where} is no {path.suffix.lower()[1:].upper()} text, but {other}; save the table as CSV.")
    used = _encoding_of(content, encoding)
    try:
        text = content.decode(used)
        return text if "\n" in text else text.replace("\r", "\n")
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        advice = "set encoding = 'cp1252' or what it is in, or save it as UTF-8, in Excel 'CSV UTF-8'"
        if used == encoding and encoding != "utf-8":
            advice = "nor is the file UTF-8; another encoding fits it"
        called = "UTF-8" if used in ("utf-8", "utf-8-sig") else used
        raise FedkinError(
            f"{where} cannot be read as {path.suffix.lower()} (line {line} is no {called}); {advice}."
        ) from error


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


def _check_thousands(
    frame: pd.DataFrame, as_texts: Callable[..., pd.DataFrame], where: str, decimal: str, separator: str
) -> None:
    """Refuse columns in which what is read as decimal seems to separate thousands, as 937 beside 1.937 and 12.500.

    Fractions with three decimals all, beside whole numbers, are refused with them; where cells are separated by commas,
    points hardly separate thousands, so some must be like 12.500, for programs leave zeros at the end away.
    """
    able = _may_part_thousands(frame)
    if not able:
        return
    cells = as_texts(usecols=able)
    pattern, called = (COMMA_THOUSANDS, "comma") if decimal == "," else (POINT_THOUSANDS, "point")
    rare = separator == "," and decimal == "."
    advice = "set decimal = ',', or write" if decimal == "." and not rare else "write"
    problems = []
    for at in able:
        words = cells[frame.columns[at]].dropna().str.strip().unique()
        parted = [word for word in words if pattern.fullmatch(word)]
        whole = [word for word in words if re.fullmatch(r"[+-]?\d{1,3}", word)]
        if len(parted) <= _FEW or len(parted) + len(whole) < len(words):
            continue
        if not rare or any(word.endswith("0") for word in parted):
            problems.append(
                f"Column '{frame.columns[at]}' of {where} holds '{max(whole, key=len)}' and '{parted[0]}', where the "
                f"{called} seems to separate thousands; {advice} the numbers without it."
            )
    refuse(problems)


def _may_part_thousands(frame: pd.DataFrame) -> list[int]:
    """Return the positions of columns in which what is read as decimal may separate thousands.

    Their fractions have at most three decimals, and some integer in them has three digits.
    """
    at = [at for at, kind in enumerate(frame.dtypes) if isinstance(kind, np.dtype) and kind.kind == "f"]
    values = np.abs(frame.iloc[:, at].to_numpy(dtype=np.float64))
    filled = ~np.isnan(values)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and very large ones
        whole = filled & (values % 1 == 0)
        fine = (np.round(values * 1000) / 1000 == values) | ~filled
    hundreds = whole & (values >= 100) & (values < 1000)
    able = fine.all(0) & (whole.sum(0) < filled.sum(0)) & hundreds.any(0)
    return [at[column] for column in np.flatnonzero(able)]
