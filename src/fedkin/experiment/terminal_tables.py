"""Text for terminals: aligned columns, and nothing in it that steers a terminal."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, TextIO

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move, colour or reorder what a terminal shows; tabs and ends of lines are none."""


def printable(text: str) -> str:
    """Return a text with replacement characters for those that steer a terminal."""
    return _CONTROLS.sub("\ufffd", text)


class PlainStream:
    """Stream to a terminal, `raw`, that writes texts, which may hold names from files, only as `printable` has them."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        return self.raw.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def table_text(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Format rows of equally many cells as aligned columns; those in `left` flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [
        [cell.ljust(width) if position in left else cell.rjust(width) for position, (cell, width) in enumerate(cells)]
        for cells in (zip(row, widths, strict=True) for row in rows)
    ]
    return "\n".join("  ".join(cells).rstrip() for cells in aligned)
