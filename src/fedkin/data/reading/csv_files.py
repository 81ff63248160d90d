"""CSV files as programs and people write them: any usual separator, quotes, byte order marks, blanks."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from fedkin.core.errors import FedkinError

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = ",;\t|"
_PROBE = 1 << 18
"""Characters that the separator is recognised in."""
_PROBED_ROWS = 200
_LEADING_ZERO = r" *[+-]?0\d"
_EMPTY_CELLS = ["?", ".", "-", "–", "—", "n/a", "N/A", "na", "Na", "Nan", "NAN", "Null", "<na>"]
"""What stands for an empty cell beside pandas' own words."""


def read_csv(path: Path, where: str, decimal: str = ".") -> pd.DataFrame:
    """A CSV file with a header, numbers and truth values as such and all else as text.

    The separator is the one of comma, semicolon, tab, bar and blanks by which rows have as many cells as the header, or
    the one that a first line such as ``sep=;`` says. Numbers with leading zeros stay text. What spreadsheets leave
    behind is no data: rows of nothing but separators, such columns without a name, and row numbers before the first
    named column.

    Raises
    ------
    FedkinError
        If it is no UTF-8, or UTF-16 with a byte order mark; if it has no header, or rows longer than that; or if a
        column has no name. Names may be there twice.
    """
    import pandas as pd

    text, said = _without_separator_line(_text(path, where))
    header, separator = _header(text, said)
    _check_header(header, where)
    options = {"sep": separator, "index_col": False, "skipinitialspace": True, "decimal": decimal}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(io.StringIO(text), na_values=_EMPTY_CELLS, low_memory=False, **options)
            if re.search(rf'(?:\A|[\n"{re.escape(separator)}]){_LEADING_ZERO}', text):
                whole = _whole_numbers(frame)
                codes = pd.read_csv(io.StringIO(text), dtype=str, usecols=whole, **options) if whole else frame
                for at in whole:
                    if codes[frame.columns[at]].str.match(_LEADING_ZERO).any():
                        frame[frame.columns[at]] = codes[frame.columns[at]]
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
    if frame.shape[1] > 1 and frame.isna().all(axis=1).any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)  # the cells beyond the header are empty
            cells = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False, **options)
        frame = frame[~cells.apply(_is_blank).all(axis=1)].reset_index(drop=True)
    return _without_remains(frame, header, where)


def _is_blank(cells: pd.Series) -> pd.Series:
    return cells.str.strip() == ""


def _without_remains(frame: pd.DataFrame, header: list[str], where: str) -> pd.DataFrame:
    """A file's cells under their names, without what a spreadsheet leaves behind."""
    import pandas as pd

    nameless = [at for at, name in enumerate(header) if _is_nameless(name)]
    gone = [at for at in nameless if frame.iloc[:, at].isna().all()]
    first = frame.iloc[:, 0]
    if 0 in nameless and len(header) > 1 and pd.api.types.is_integer_dtype(first) and first.is_unique:
        gone.append(0)
    if kept := [at for at in nameless if at not in gone and header != [""]]:
        raise FedkinError(f"Column {kept[0] + 1} of {where} has no name; the first line must name the columns.")
    own = [str(name).strip() for name in frame.columns]
    named = [name for name in header if not _is_nameless(name)]
    if len(set(named)) < len(named):  # pandas numbers them
        own = [name if name in named else mangled for name, mangled in zip(header, own, strict=True)]
    frame.columns = pd.Index(own)
    if gone and len(gone) < len(header):
        frame = frame.iloc[:, [at for at in range(len(header)) if at not in gone]]
    return frame


def _reason(error: Exception) -> str:
    """Why pandas could not read a file, in plain words where it is a usual reason."""
    said = (str(error).splitlines() or ["empty"])[0]
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said):
        expected, line, seen = found.groups()
        return f"line {line} has {seen} cells, but the first line names {expected} columns"
    if found := re.search(r"EOF inside string starting at row (\d+)", said):
        return f"a quotation mark in row {int(found[1])} is never closed"
    return "the file is empty" if "No columns to parse" in said else said


def _text(path: Path, where: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({error.strerror}).") from error
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
        return text if "\n" in text else text.replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        code = "UTF-16" if wide else "UTF-8"
        raise FedkinError(
            f"{where} cannot be read as {path.suffix.lower()} (line {line} is no {code}); save it as UTF-8. In Python, "
            "pandas.read_csv with encoding='cp1252' or another reads it as it is."
        ) from error


def _without_separator_line(text: str) -> tuple[str, str | None]:
    """The text without a first line such as ``sep=;``, which spreadsheets write, and the separator that it says."""
    found = re.match(r'"?sep=(.)"?[ \t]*(?:\r?\n|\Z)', text, re.IGNORECASE)
    return (text[found.end() :], found[1]) if found else (text, None)


def _header(text: str, said: str | None = None) -> tuple[list[str], str]:
    """Names in the first line, and the separator by which most rows have as many cells as it, or the one `said`."""
    best: tuple[float, int] = (-1.0, 0)
    found, chosen = next(iter(_rows(text, said or ",")), []), said or ","
    for separator in () if said else _SEPARATORS:
        rows = _rows(text, separator)
        if not rows or len(rows[0]) < 2:
            continue
        width = len(rows[0])
        fitting = sum(len(row) in (width, width + (row[-1:] == [""])) for row in rows[1:])
        score = (fitting / max(1, len(rows) - 1), width)
        if score > best:
            best, found, chosen = score, rows[0], separator
    if len(found) == 1 and said is None and _has_blanks_between(lines := [row[0].split() for row in _rows(text, ",")]):
        return lines[0], r"\s+"
    return [name.strip() for name in found], chosen


def _has_blanks_between(lines: list[list[str]]) -> bool:
    """Whether blanks part the columns: all lines have as many words, of which some are numbers but in the first."""
    if len(lines) < 2 or len(lines[0]) < 2 or len({len(line) for line in lines}) > 1:
        return False
    return any(re.fullmatch(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?", word) for word in lines[1])


def _rows(text: str, separator: str) -> list[list[str]]:
    """The first rows, without empty lines."""
    probe = text[:_PROBE] if len(text) <= _PROBE else text[:_PROBE].rpartition("\n")[0] or text
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


def _check_header(names: list[str], where: str) -> None:
    counted = [str(position) for position in range(len(names))]
    if names and names != counted and all(re.fullmatch(r"[-+.,\deE]*\d[-+.,\deE]*", name) for name in names):
        raise FedkinError(
            f"The first line of {where} holds numbers ({', '.join(names[:3])}, ...); it must name the columns."
        )


def _is_nameless(name: str) -> bool:
    return not name or name.startswith("Unnamed: ")


def _whole_numbers(frame: pd.DataFrame) -> list[int]:
    """Positions of columns in which a number may have been written with leading zeros."""
    from pandas.api import types

    def whole(column: pd.Series) -> bool:
        if types.is_float_dtype(column):
            return bool((column.isna() | (column % 1 == 0)).all())
        return bool(types.is_integer_dtype(column))

    return [at for at, (_, column) in enumerate(frame.items()) if whole(column)]
