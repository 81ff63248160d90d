"""Figures of a page as plain values: methods, runs and studies describe them, and `fedkin.report.page` draws them.

Clusters are numbered as in a model's labels. A cluster keeps its colour and mark wherever it appears on a page, so its
number must mean the same in all figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Unit = Literal["number", "count", "share", "percent", "bytes"]
"""How a number is written and where its axis starts: "share" is of numbers in [0, 1], "percent" in [0, 100]."""
Series = Sequence[float | None]
"""Values by step; ``None``, NaN and infinities leave a gap."""


class Mark(NamedTuple):
    """Event at a step, drawn as a line."""

    step: float
    meaning: str


@dataclass(frozen=True)
class Curve:
    """Quantity over the steps of a run, as one series or a few in the same unit, with a caption that says what to see.

    Steps `x` increase. A series has as many values as steps. They are drawn in order of name. `x_label` says what a
    step is, and `marks` are events.
    """

    title: str
    caption: str
    x: Sequence[float]
    series: Mapping[str, Series]
    unit: Unit = "number"
    x_label: str = "iteration"
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, eq=False)
class ClusterPictures:
    """Mean image, or of photographs the middle one, and some members of a cluster of images, with its number, and how
    many samples and clients it has.

    Images are ``(H, W)`` or ``(H, W, 3)``, in [0, 1]; 11 or 16 members fill a card. `mostly` are its true classes in
    words; empty if there are none.
    """

    cluster: int
    size: int
    clients: int
    mean: NDArray[np.floating[Any]]
    members: NDArray[np.floating[Any]]
    mostly: str = ""


@dataclass(frozen=True, eq=False)
class SampleMap:
    """Points in the plane ``(n, 2)``, each a sample or the mean of several, coloured by cluster.

    `cuts`, int64 ``(s, n)``, are their clusters at one scale or several, the coarsest first. Of these `chosen` is the
    one found, `scales` say what each is, and `sentences` what its clusters are, by number. The others are ``(n,)``:
    `sizes`, samples in each point; `clients`, positions in `client_names`, -1 of several; `confidence` in [0, 1];
    `classes`, true classes, whose names are `class_names`; `ids`, texts to search for, each an `id_name`. ``None`` or
    empty are not known.
    """

    title: str
    caption: str
    places: NDArray[np.floating[Any]]
    cuts: NDArray[np.integer[Any]]
    chosen: int = 0
    scales: Sequence[str] = ()
    sentences: Sequence[Mapping[int, str]] = ()
    sizes: NDArray[Any] | None = None
    clients: NDArray[np.integer[Any]] | None = None
    client_names: Sequence[str] = ()
    confidence: NDArray[np.floating[Any]] | None = None
    classes: NDArray[np.integer[Any]] | None = None
    class_names: Mapping[int, str] = field(default_factory=dict)
    ids: Sequence[str] = ()
    id_name: str = "row"


CellVerdict = Literal["", "within", "higher", "lower", "unsure", "near", "above", "below", "best"]
"""Verdict on a cell beside what it is compared with: within its spread, higher or lower, with too wide an interval to
tell, or of one seed and near, above or below; or the best of its column, or recommended."""


@dataclass(frozen=True)
class TableCell:
    """Cell of a table.

    `text` is such as ``'0.947 ± 0.012'``; ``'–'`` where there is nothing. `beside` is small text beneath: a value to
    compare with, a unit, a note. `verdict` is shown by a colour and by a sign, `tip` when pointing at the cell. `shade`
    is how strongly the cell is shaded: above 0 in one colour, below in the other, at most 1.
    """

    text: str
    beside: str = ""
    verdict: CellVerdict = ""
    tip: str = ""
    shade: float = 0.0


Row = tuple[str | int, Sequence[TableCell]]


@dataclass(frozen=True)
class ResultTable:
    """Table with a title, a caption that says what to see, and named rows.

    `corner` is the heading of the column of row names; a row or column whose name is an int is of that cluster, below 0
    of none. `foot` are rows of totals below the others. Rows named in `faint` are shown as less important.
    """

    title: str
    caption: str
    corner: str
    columns: Sequence[str | int]
    rows: Sequence[Row]
    foot: Sequence[Row] = ()
    faint: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Text:
    """Sentences in plain text, a paragraph each; what stands in backticks is shown as code."""

    sentences: Sequence[str]


Figure = Curve | ClusterPictures | SampleMap | ResultTable | Text


@dataclass(frozen=True)
class PagePart:
    """Section of a page; empty attributes are omitted, the others are shown in the order listed.

    `anchor` is the part's name in links; not ``'settings'``. `of_clusters` are sentences on the clusters, in their
    order. Paragraphs are plain text; what stands in backticks is shown as code. So it is in notes, which are a list.
    `commands` are lines for a shell.
    """

    anchor: str
    title: str
    of_clusters: Sequence[str] = ()
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class PageView:
    """Content of a page.

    `lead` says what was found, in one or two sentences of plain language; a second line is set smaller, and backticks
    are as in `PagePart`. `summary` has headline numbers as (label, value, explanation). `settings`, nested or flat, are
    shown folded and in order of name. Anchors of parts differ.
    """

    title: str
    lead: str = ""
    summary: Sequence[tuple[str, str, str]] = ()
    parts: Sequence[PagePart] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
