"""Tables and sentences on standard output, wrapped to the terminal's width."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, TextIO

_EDGES, _BETWEEN, _ROOM = 4, 3, 16
"""Characters that lines take beside and between columns, and what a column of words needs at least."""

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move, colour or reorder what a terminal shows; tabs and ends of lines are none."""


def printable(text: str) -> str:
    """Return a text with replacement characters for those that steer a terminal."""
    return _CONTROLS.sub("\ufffd", text)


class PlainStream:
    """Stream to a terminal that writes texts, which may hold names from files, only as `printable` has them.

    `raw` is the stream itself, for tables and bars that are drawn.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        return self.raw.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def drawing_on(stream: TextIO) -> TextIO:
    """Return the stream that tables and bars are drawn on."""
    return stream.raw if isinstance(stream, PlainStream) else stream


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; ``None`` if standard output is not a terminal."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def table_text(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Format rows of equally many cells as aligned columns (see `fitted`); not wrapped without a terminal."""
    from fedkin.report.text_tables import fitted  # which the command line need not wait for

    return fitted(rows, left, terminal_width())


def sentence_text(text: str, hanging: str = "", elsewhere: int | None = None) -> str:
    """Wrap a sentence; all lines but the first are indented by `hanging`.

    `elsewhere` is the width without a terminal; by default the sentence then stays one line.
    """
    width = terminal_width() or elsewhere
    if width is None:
        return text
    return fill(text, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False)


def print_table(
    rows: Sequence[Sequence[str]], heads: Sequence[str] = (), left: Collection[int] = (0,), bold: bool = False
) -> None:
    """Print rows of equally many cells: with rules on a terminal that is wide enough, else as aligned columns.

    Without `heads` there is no line of headings. Columns in `left` are flush left; on a terminal that is too narrow the
    last of these is wrapped. `bold` is for the first column on a terminal.
    """
    below = [heads, *rows] if heads else rows
    width = terminal_width()
    if width is None or _min_width(below, left) > width:
        print(table_text(below, left))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_header=bool(heads))
    for at, name in enumerate([printable(head) for head in heads] or [""] * len(rows[0])):
        justify, style = "left" if at in left else "right", "bold" if bold and at == 0 else None
        table.add_column(name, justify=justify, style=style, no_wrap=at != max(left, default=-1))  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console(file=drawing_on(sys.stdout), width=width).print(table)


def _min_width(rows: Sequence[Sequence[str]], left: Collection[int]) -> int:
    """Return the minimum width of a table with rules whose last column in `left` is wrapped."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if left:
        widths[max(left)] = min(widths[max(left)], _ROOM)
    return sum(widths) + _BETWEEN * (len(widths) - 1) + _EDGES
