"""Tables and sentences on standard output, wrapped to the terminal's width."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from shutil import get_terminal_size
from textwrap import fill, wrap
from typing import Any, TextIO

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move, colour or reorder what a terminal shows; tabs and ends of lines are none."""


def printable(text: str) -> str:
    """Return a text with replacement characters for those that steer a terminal."""
    return _CONTROLS.sub("\ufffd", text)


class PlainStream:
    """Stream to a terminal that writes texts, which may hold names from files, only as `printable` has them.

    `raw` is the stream itself, for bars that are drawn.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        return self.raw.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def table_text(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Format rows of equally many cells as aligned columns; those in `left` flush left, the others flush right.

    On a terminal the last column is wrapped if it is in `left` and the lines are too long.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    room = (_width() or sys.maxsize) - sum(widths[:-1]) - 2 * last
    lines = []
    for row in rows:
        # Less than 24 characters is no column to read.
        parts = wrap(row[-1], room, break_on_hyphens=False) if last in left and 24 <= room < widths[last] else [row[-1]]
        for number, part in enumerate(parts or [""]):
            cells = [*(row[:-1] if number == 0 else [""] * last), part]
            aligned = [
                cell.ljust(width) if position in left else cell.rjust(width)
                for position, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def print_table(rows: Sequence[Sequence[str]], heads: Sequence[str] = (), left: Collection[int] = (0,)) -> None:
    """Print rows of equally many cells as `table_text` has them, below `heads` if there are any."""
    print(table_text([heads, *rows] if heads else rows, left))


def sentence_text(text: str, hanging: str = "", elsewhere: int | None = None) -> str:
    """Wrap a sentence; all lines but the first are indented by `hanging`.

    `elsewhere` is the width without a terminal; by default the sentence then stays one line.
    """
    width = _width() or elsewhere
    if width is None:
        return text
    return fill(text, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False)


def _width() -> int | None:
    """Return the width of the terminal in characters; ``None`` if standard output is not a terminal."""
    return get_terminal_size().columns if sys.stdout.isatty() else None
