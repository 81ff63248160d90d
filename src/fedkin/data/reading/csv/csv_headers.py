"""Recognition of the header of a CSV file: names of columns, the separator, and whether there is a header at all."""

from __future__ import annotations

import csv
import io
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from fedkin.core.errors import FedkinError
from fedkin.data.reading.values.text_values import NUMBER

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = ",;\t|"
_COMMENTS = re.compile(r"(?:#[^\n]*\n)+")
_BLANKS = r"\s+"
"""The separator of cells with blanks between them, as pandas reads it."""
_PROBE = 1 << 18
"""Characters that the separator is recognised in."""
_PROBED_ROWS, _UNIT_ROWS, _TITLED = 200, 3, 2


def header_of(text: str, said: str | None) -> tuple[list[str], str]:
    """Return the names in the first line, and the separator: `said`, or the one that fits most rows."""
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
    if len(found) == 1 and said is None and _has_blanks_between(rows := _rows_by_blanks(text)):
        return rows[0], _BLANKS
    return [name.strip() for name in found], chosen


def _rows_by_blanks(text: str) -> list[list[str]]:
    """Return the first rows of a file whose cells are separated by blanks, without empty lines."""
    return _rows(re.sub(r"(?m)^[ \t]+|[ \t]+$", "", text[: 2 * _PROBE]).replace("\t", " "), " ")


def _has_blanks_between(lines: list[list[str]]) -> bool:
    """Return whether blanks separate the columns: all lines have as many words, and some of the second are numbers.

    All but the first may have one more, as R writes names of rows.
    """
    widths = {len(line) for line in lines[1:]}
    if len(widths) != 1 or len(lines[0]) < 2 or min(widths) - len(lines[0]) not in (0, 1):
        return False
    return any(re.fullmatch(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?", word) for word in lines[1])


def _rows(text: str, separator: str) -> list[list[str]]:
    """Return the first rows of a file, without empty lines."""
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


def beyond_names(text: str, separator: str, names: int) -> str:
    """Return that rows hold more cells than the `names` of the first line, with the likely cause."""
    rows = _rows_by_blanks(text) if separator == _BLANKS else _rows(text, separator)
    firsts = [row[0].strip() for row in rows[1:]]
    if names > 1 and all(len(row) == names + 1 for row in rows[1:]) and len(set(firsts)) == len(firsts):
        return (
            f"one cell more than its first line has names ({names}); it must name all columns, or be written without "
            "names of rows (in R row.names = FALSE)"
        )
    return (
        f"more cells than its first line has names ({names}); it must name the columns (a title above them? delete it)"
    )


def lines_above_names(text: str, separator: str, line: int, cells: int) -> bool:
    """Return whether a file's names seem to be in this line, counted from 1: most rows from there on have `cells`."""
    below = _rows("\n".join(text.split("\n")[line - 1 :]), separator)
    return 2 * sum(len(row) == cells for row in below) > len(below)


def without_comments(text: str) -> str:
    """Empty the first lines if they begin with ``#``, but not a header such as ``#id,age``.

    That is the last of them if the next line has as many separators, and a number.
    """
    lines = (_COMMENTS.match(text) or [""])[0].splitlines(keepends=True)
    if not lines:
        return text
    below = text[sum(map(len, lines)) :].partition("\n")[0]
    is_header = any(
        0 < lines[-1].count(separator) == below.count(separator)
        and any(NUMBER.fullmatch(cell.strip().strip('"')) for cell in below.split(separator))
        for separator in _SEPARATORS
    )
    kept = lines[-1] if is_header else "\n"
    return "\n" * (len(lines) - 1) + kept + text[sum(map(len, lines)) :]


def check_names(names: list[str], where: str) -> None:
    """Refuse a first line of nothing but numbers, unless they count columns from 0."""
    counted = [str(position) for position in range(len(names))]
    if names and names != counted and all(re.fullmatch(r"[-+.,\deE]*\d[-+.,\deE]*", name) for name in names):
        raise FedkinError(
            f"The first line of {where} holds numbers ({', '.join(names[:3])}, ...); it must name the columns."
        )


def is_nameless(name: str) -> bool:
    """Return whether a column has no name, or the one that pandas gives to such columns."""
    return not name or name.startswith("Unnamed: ")


def check_is_header(names: list[str], frame: pd.DataFrame, where: str) -> None:
    """Refuse a first line that looks like a row of data, since most of its cells resemble those below them.

    A text does if it is among the values of its column; a number if its column holds numbers, unless such names are in
    order, as years and wavelengths are.
    """
    from pandas.api import types

    if frame.shape[1] != len(names) or frame.empty:
        return
    numeric = {kind: types.is_numeric_dtype(kind) for kind in set(frame.dtypes)}
    kinds = list(zip(names, frame.dtypes, strict=True))
    numbers = [name for name, kind in kinds if numeric[kind] and not types.is_bool_dtype(kind)
               and NUMBER.fullmatch(name)]  # fmt: skip
    texts = [name for at, (name, kind) in enumerate(kinds) if not numeric[kind] and not is_nameless(name)
             and bool((frame.iloc[:, at].astype(str).str.strip() == name).any())]  # fmt: skip
    if len(texts) > 1 and (again := _row_of_names(names, frame)) is not None:
        raise FedkinError(f"Row {again + 1} of {where} repeats the names of the columns; delete it.")
    ordered = all(one < other for one, other in pairwise(map(float, numbers)))
    if (texts or not ordered) and 2 * (len(numbers) + len(texts)) > len(names):
        example = texts[0] if texts else numbers[0]
        raise FedkinError(
            f"The first line of {where} looks like a row of data ('{example}' stands below it, too); it must name the "
            "columns." if texts else
            f"The first line of {where} looks like a row of data ('{example}'); it must name the columns."
        )  # fmt: skip


def _row_of_names(names: list[str], frame: pd.DataFrame) -> int | None:
    """Return the first row that holds the names of the columns, as where a file was appended to another.

    Some column below has numbers, for otherwise the first line may be a row that is there twice.
    """
    cells = frame.astype(object).where(frame.notna(), "").map(lambda cell: str(cell).strip())
    same = (cells == names).all(axis=1).to_numpy()
    words = [at for at, name in enumerate(names) if not NUMBER.fullmatch(name)]
    below = [[cell for cell in own if cell] for own in cells.iloc[:, words].to_numpy()[~same].T]
    has_numbers = any(own and all(map(NUMBER.fullmatch, own)) for own in below)
    return int(same.argmax()) if has_numbers and same.any() else None


def check_no_title(names: list[str], frame: pd.DataFrame, where: str) -> None:
    """Refuse a first line that names half of the columns with filled cells or fewer, as a title or a heading does."""
    if frame.shape[1] != len(names):
        return
    filled = [name for name, some in zip(names, frame.notna().to_numpy().any(0), strict=True) if some]
    named = sum(not is_nameless(name) for name in filled)
    if len(filled) > _TITLED and 2 * named <= len(filled):
        raise FedkinError(
            f"The first line of {where} names {named} of {len(filled)} columns; it must name all of them (a title or "
            "heading above the names? delete it)."
        )


def check_no_units(frame: pd.DataFrame, where: str) -> None:
    """Refuse a first row of units, such as mm and kg: with a text in two columns of numbers or more, and no number."""
    if len(frame) < _UNIT_ROWS:
        return
    units = []
    for _, column in frame.items():
        probed = column.iloc[: 1 + _PROBED_ROWS].astype(object)
        first, *others = [str(cell).strip() for cell in probed.where(probed.notna(), "")]
        filled = [cell for cell in others if cell]
        if filled and all(NUMBER.fullmatch(cell.replace(",", ".", 1)) for cell in filled):
            if NUMBER.fullmatch(first.replace(",", ".", 1)):
                return
            units += [first] * bool(first)
    if len(units) > 1:
        raise FedkinError(
            f"Row 1 of {where} holds texts such as '{units[0]}' above numbers, as units or a second line of names do; "
            "delete it."
        )
