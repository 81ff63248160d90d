"""CSV files whose cells stand in more than quotation marks, which are written as usual before they are read."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

_FORMULA = re.compile(r'(?m)(^|[,;\t|])(?:="([^"\n]*)"|"=""([^"\n]*)""")(?=[,;\t|\r\n]|\Z)')
"""Texts that spreadsheets are kept from changing: ="007", or where cells are quoted the same in quotation marks."""
_SEPARATORS = ",;\t|"
_PROBED = 200


def unwrapped(text: str) -> str:
    """Return a CSV file's text with usual quotation marks, or none.

    Three forms become these: cells such as ``="007"``, lines that are quoted as a whole, and files in which apostrophes
    quote the names and all cells that begin with one. Other texts stay as they are.
    """
    if '="' in text:
        text = _FORMULA.sub(lambda found: f'{found[1]}"{found[2] if found[2] is not None else found[3]}"', text)
    first = text.lstrip()[:1]
    if first == '"':
        return _of_whole_lines(text)
    return _of_apostrophes(text) if first == "'" else text


def _of_whole_lines(text: str) -> str:
    """Return what is within the quotation marks of whole lines, if that is cells, as many in every line."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not all(line[:1] == line.rstrip()[-1:] == '"' for line in lines):
        return text
    rows = list(csv.reader(lines))
    if any(len(row) != 1 for row in rows):
        return text
    inner = [row[0] for row in rows]
    return "\n".join(inner) + "\n" if any(_fits(inner[:_PROBED], one, '"') for one in _SEPARATORS) else text


def _of_apostrophes(text: str) -> str:
    """Return a file with quotation marks for apostrophes, if all names and most cells of the first rows have them."""
    lines = [line for line in text.splitlines() if line.strip()]
    for separator in _SEPARATORS:
        names = lines[0].split(separator)
        if not all(len(name.strip()) > 2 and name.strip()[0] == name.strip()[-1] == "'" for name in names):
            continue
        if len(lines) > 1 and _fits(lines[:_PROBED], separator, "'"):
            written = io.StringIO()
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quotechar="'", skipinitialspace=True)
            csv.writer(written, delimiter=separator, lineterminator="\n").writerows(rows)
            return written.getvalue()
    return text


def _fits(lines: Sequence[str], separator: str, quote: str) -> bool:
    """Return whether lines have two cells or more, and as many in each."""
    widths = {len(row) for row in csv.reader(lines, delimiter=separator, quotechar=quote, skipinitialspace=True)}
    return len(widths) == 1 and min(widths) > 1
