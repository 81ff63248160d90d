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
_EMPTY_CELLS = ["?", "-", "n/a", "N/A", "na", "Na", "Nan", "NAN", "Null", "<na>"]
"""What stands for an empty cell beside pandas' own words."""


def read_csv(path: Path, where: str, decimal: str = ".") -> pd.DataFrame:
    """A CSV file with a header, numbers and truth values as such and all else as text.

    The separator is the one of comma, semicolon, tab and bar by which rows have as many cells as the header. Numbers
    with leading zeros stay text.

    Raises
    ------
    FedkinError
        If it is no UTF-8, or UTF-16 with a byte order mark; if it has no header, or rows longer than that; or if a
        column has no name, or one of another's.
    """
    import pandas as pd

    text = _text(path, where)
    header, separator = _header(text)
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
            f"A column of {where} has no name: rows hold more values than the first line has names (row numbers? "
            "write it without them)."
        ) from error
    except (ValueError, csv.Error) as error:
        reason = (str(error).splitlines() or ["empty"])[0]
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({reason}).") from error
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    return frame


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


def _header(text: str) -> tuple[list[str], str]:
    """Names in the first line, and the separator by which most rows have as many cells as it."""
    best: tuple[float, int] = (-1.0, 0)
    found, chosen = next(iter(_rows(text, ",")), []), ","
    for separator in _SEPARATORS:
        rows = _rows(text, separator)
        if not rows or len(rows[0]) < 2:
            continue
        width = len(rows[0])
        fitting = sum(len(row) in (width, width + (row[-1:] == [""])) for row in rows[1:])
        score = (fitting / max(1, len(rows) - 1), width)
        if score > best:
            best, found, chosen = score, rows[0], separator
    return [name.strip() for name in found], chosen


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
    nameless = [position for position, name in enumerate(names, 1) if not name or name.startswith("Unnamed: ")]
    if nameless and names != [""]:
        raise FedkinError(f"Column {nameless[0]} of {where} has no name (row numbers? write it without them).")
    if len(set(names)) < len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise FedkinError(f"{where} has more than one column '{twice}'; each needs a name of its own.")
    counted = [str(position) for position in range(len(names))]
    if names and names != counted and all(re.fullmatch(r"[-+.,\deE]*\d[-+.,\deE]*", name) for name in names):
        raise FedkinError(
            f"The first line of {where} holds numbers ({', '.join(names[:3])}, ...); it must name the columns."
        )


def _whole_numbers(frame: pd.DataFrame) -> list[int]:
    """Positions of columns in which a number may have been written with leading zeros."""
    from pandas.api import types

    def whole(column: pd.Series) -> bool:
        if types.is_float_dtype(column):
            return bool((column.isna() | (column % 1 == 0)).all())
        return bool(types.is_integer_dtype(column))

    return [at for at, (_, column) in enumerate(frame.items()) if whole(column)]
