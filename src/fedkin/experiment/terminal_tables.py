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


def drawing_on(stream: TextIO) -> TextIO:
    """Return the stream that bars are drawn on."""
    return stream.raw if isinstance(stream, PlainStream) else stream


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; ``None`` if standard output is not a terminal."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def table_text(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Format rows of equally many cells as aligned columns (see `fitted`); not wrapped without a terminal."""
    return fitted(rows, left, terminal_width())


def print_table(rows: Sequence[Sequence[str]], heads: Sequence[str] = (), left: Collection[int] = (0,)) -> None:
    """Print rows of equally many cells as `table_text` has them, below `heads` if there are any."""
    print(table_text([heads, *rows] if heads else rows, left))


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Format rows of equally many cells as aligned columns; those in `left` flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if column_number in left else cell.rjust(width)
            for column_number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def fitted(rows: Sequence[Sequence[str]], left: Collection[int] = (0,), width: int | None = None) -> str:
    """Format rows as `aligned` does, in lines of at most `width` characters.

    Where that does not suffice, the last column is wrapped if it is in `left`; otherwise the table is split in two, one
    below the other, each of which repeats the leading columns of `left`. A cell that is wider than a line is not
    broken.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    if width is None or sum(widths) + 2 * last <= width:
        return aligned(rows, left)
    room = width - sum(widths[:-1]) - 2 * last
    if last in left and room >= 24:  # less is no column to read
        cells: list[list[str]] = []
        for row in rows:
            first, *more = wrap(row[-1], room, break_on_hyphens=False) or [""]
            cells += [[*row[:-1], first], *([""] * last + [line] for line in more)]
        return aligned(cells, left)
    named = next((at for at in range(1, last) if at not in left), 1)
    end = named + 1
    while end <= last and sum(widths[: end + 1]) + 2 * end <= width:
        end += 1
    if end > last:
        return aligned(rows, left)
    parts = (range(end), (*range(named), *range(end, last + 1)))
    return "\n\n".join(
        fitted([[row[at] for at in part] for row in rows], [new for new, at in enumerate(part) if at in left], width)
        for part in parts
    )


def sentence_text(text: str, hanging: str = "", elsewhere: int | None = None) -> str:
    """Wrap a sentence; all lines but the first are indented by `hanging`.

    `elsewhere` is the width without a terminal; by default the sentence then stays one line.
    """
    width = terminal_width() or elsewhere
    if width is None:
        return text
    return fill(text, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False)
