"""Content of a page of results, such as a comparison or a reproduction, in plain Python values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from fedkin.core.errors import FedkinError
from fedkin.report.run_view import Bars
from fedkin.report.timeline import Curve

CellVerdict = Literal["", "within", "higher", "lower", "unsure", "near", "above", "below", "best"]
"""Verdict on a cell beside what it is compared with: within its spread, higher or lower, with too wide an interval to
tell, or of one seed and near, above or below; or the best of its column, or recommended."""


@dataclass(frozen=True)
class TableCell:
    """Cell of a table of results.

    `text` is such as ``'0.947 ± 0.012'``; ``'–'`` where there is nothing. `beside` is small text beneath: a value to
    compare with, a unit, a note. `verdict` is shown by a colour and by a sign, `tip` when pointing at the cell. Raises
    FedkinError if there is no such verdict.
    """

    text: str
    beside: str = ""
    verdict: CellVerdict = ""
    tip: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in get_args(CellVerdict):
            known = ", ".join(repr(verdict) for verdict in get_args(CellVerdict))
            raise FedkinError(f"The verdict of cell '{self.text}' is one of {known}, not {self.verdict!r}.")


@dataclass(frozen=True)
class ResultTable:
    """Table of results with a title, a caption that says what to see, and named rows.

    `corner` is the heading of the column of row names. `links` are addresses of pages by name of row, best relative to
    the page; rows may be absent. Raises FedkinError if a row has more or fewer cells than there are columns.
    """

    title: str
    caption: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[TableCell]]]
    links: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, cells in self.rows:
            if len(cells) != len(self.columns):
                raise FedkinError(
                    f"Row '{name}' of table '{self.title}' has {len(cells)} cells for {len(self.columns)} columns."
                )


@dataclass(frozen=True)
class PagePart:
    """Section of a page; empty attributes are omitted, the others are shown in the order listed.

    `anchor` is the part's name in links; not ``'settings'``. Paragraphs are plain text; what stands in backticks is
    shown as code. So it is in notes, which are a list. `commands` are lines for a shell.
    """

    anchor: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[ResultTable] = ()
    curves: Sequence[Curve] = ()
    bars: Sequence[Bars] = ()
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class PageView:
    """Content of a page of results.

    `lead` says what was found, in one or two sentences of plain language; a second line is set smaller, and backticks
    are as in `PagePart`. `summary` has headline numbers as (label, value, explanation). `settings`, nested or flat, are
    shown folded and in order of name. Raises FedkinError if two parts have the same anchor, or one that the page itself
    uses.
    """

    title: str
    lead: str = ""
    summary: Sequence[tuple[str, str, str]] = ()
    parts: Sequence[PagePart] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        anchors = Counter([*(part.anchor for part in self.parts), "settings"])
        twice = next((anchor for anchor, count in anchors.items() if count > 1), None)
        if twice is not None:
            raise FedkinError(f"More than one part of page '{self.title}' has the anchor '{twice}'.")
