"""Figures of a page as plain values: methods, runs and studies describe them, and `fedkin.report.page` draws them.

Clusters are numbered as in a model's labels. A cluster keeps its colour and mark wherever it appears on a page, so its
number must mean the same in all figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from fedkin.core.errors import FedkinError

Unit = Literal["number", "count", "share", "percent", "bytes"]
"""How a number is written and where its axis starts: "share" is of numbers in [0, 1], "percent" in [0, 100]."""


class Mark(NamedTuple):
    """Event at a step, drawn as a line, which is dashed if the method caused the event."""

    step: float
    meaning: str
    dashed: bool = False


@dataclass(frozen=True)
class Curve:
    """Quantity over the steps of a run, as one series or a few in the same unit, with a caption that says what to see.

    Steps `x` increase. A series has as many values as steps; ``None``, NaN and infinities leave a gap. They are drawn
    in order of name. `intervals` of a series, such as 95 % confidence, are drawn as a band behind it. `reference` has
    a paper's values to compare with, drawn thin, those of a series' name in its colour. `x_label` says what a step is,
    and `marks` are events.
    Raises FedkinError if there are more or fewer values than steps, or an interval is reversed or of no series.
    """

    title: str
    caption: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    unit: Unit = "number"
    x_label: str = "iteration"
    intervals: Mapping[str, Sequence[tuple[float, float] | None]] = field(default_factory=dict)
    reference: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    marks: Sequence[Mark] = ()

    def __post_init__(self) -> None:
        for kind, named in (("Series", self.series), ("Reference", self.reference), ("Interval", self.intervals)):
            for name, values in named.items():
                _check_shape(f"{kind} '{name}' of curve '{self.title}'", (len(values),), (len(self.x),))
        for name, intervals in self.intervals.items():
            if name not in self.series or any(each is not None and each[0] > each[1] for each in intervals):
                raise FedkinError(
                    f"Interval '{name}' of curve '{self.title}' is of no series, or its ends are reversed."
                )


@dataclass(frozen=True)
class Bars:
    """Bar chart of a few numbers, with a caption that says what to see.

    Names are short, and values finite; `strong` bars are highlighted. `x_label` says what the bars stand for. `line` is
    the value of a dashed line, labelled `line_name`, or ``None``. `errors` are half-widths of error bars, at least 0;
    ``None`` where one is not known, and empty if none is known.
    """

    title: str
    caption: str
    names: Sequence[str]
    values: Sequence[float]
    strong: Sequence[bool]
    x_label: str
    line: float | None = None
    line_name: str = ""
    errors: Sequence[float | None] = ()

    def __post_init__(self) -> None:
        for what in ("names", "strong", *(["errors"] if self.errors else [])):
            _check_shape(f"{what} of bars '{self.title}'", (len(getattr(self, what)),), (len(self.values),))


class GraphNode(NamedTuple):
    """Local cluster as a node of a graph: client, number, samples, and cluster (``None``: unmatched)."""

    client: int
    local_cluster: int
    size: int
    cluster: int | None


@dataclass(frozen=True)
class Graph:
    """Graph of local clusters and their associations; `edges` are pairs of positions in `nodes`.

    `clients` are the clients' names by id; without, they are called by their ids.
    """

    title: str
    caption: str
    nodes: Sequence[GraphNode]
    edges: Sequence[tuple[int, int]]
    clients: Sequence[str] = ()

    def __post_init__(self) -> None:
        for edge in self.edges:
            if not all(0 <= end < len(self.nodes) for end in edge):
                raise FedkinError(
                    f"Edge {tuple(edge)} of graph '{self.title}' is not among its {len(self.nodes)} nodes."
                )

    def name(self, node: GraphNode) -> str:
        """Return what the client of a node is called."""
        return self.clients[node.client] if node.client < len(self.clients) else str(node.client)


@dataclass(frozen=True)
class Scale:
    """Partition of the samples at one resolution, with numbers of samples by cluster.

    `parents` are by cluster the one of the scale before that it is part of; empty in the first scale. `stability`, at
    most 1, is that of the partition when some micro-clusters are left out. Exactly one scale of a tree is `chosen`, as
    the clusters found.
    """

    samples: Sequence[int]
    parents: Sequence[int]
    stability: float | None
    chosen: bool


@dataclass(frozen=True)
class ScaleTree:
    """Hierarchy of partitions of the same samples, from coarse to fine, with a caption that says what to see.

    Raises FedkinError if parents are not clusters of the scale before, or not one scale is chosen.
    """

    title: str
    caption: str
    scales: Sequence[Scale]

    def __post_init__(self) -> None:
        for place, scale in enumerate(self.scales):
            before = len(self.scales[place - 1].samples) if place else 0
            right = len(scale.parents) == (len(scale.samples) if place else 0)
            if not right or not all(0 <= parent < before for parent in scale.parents):
                raise FedkinError(f"Parents of scale {place} of '{self.title}' are not clusters of the scale before.")
        if sum(scale.chosen for scale in self.scales) != 1:
            raise FedkinError(f"Exactly one scale of '{self.title}' must be chosen.")


@dataclass(frozen=True, eq=False)
class ClientClusters:
    """Cluster of each client at every step.

    Clients have short names, in order of id; steps increase. `clusters` ``(clients, steps)`` are -1 where a client has
    none yet. `hidden` are names of each client's true cluster; empty if there are none. `scores` are accuracies of the
    last clusters, some of which may be absent. `x_label` says what a step is, and `marks` are events.
    """

    clients: Sequence[str]
    steps: Sequence[float]
    clusters: NDArray[np.integer[Any]]
    hidden: Sequence[str] = ()
    scores: Mapping[int, float] = field(default_factory=dict)
    caption: str = ""
    x_label: str = "round"
    marks: Sequence[Mark] = ()

    def __post_init__(self) -> None:
        _check_shape("client × step table of clusters", self.clusters.shape, (len(self.clients), len(self.steps)))
        if self.hidden:
            _check_shape("row of true clusters", (len(self.hidden),), (len(self.clients),))


@dataclass(frozen=True, eq=False)
class ClusterPictures:
    """Mean image and some members of a cluster of images, with its number, and how many samples and clients it has.

    Images are ``(H, W)`` or ``(H, W, 3)``, in [0, 1]; 11 or 16 members fill a card. `mostly` are its true classes in
    words; empty if there are none.
    """

    cluster: int
    size: int
    clients: int
    mean: NDArray[np.floating[Any]]
    members: NDArray[np.floating[Any]]
    mostly: str = ""

    def __post_init__(self) -> None:
        colours = (3,) if self.mean.ndim == 3 else ()
        _check_shape(f"mean picture of cluster {self.cluster}", self.mean.shape, (*self.mean.shape[:2], *colours))
        _check_shape(f"member pictures of cluster {self.cluster}", self.members.shape[1:], self.mean.shape)


@dataclass(frozen=True, eq=False)
class PictureTable:
    """Rows of pictures, each with a name and a text beside it, below three headings.

    Pictures of a row are ``(n, H, W)`` or ``(n, H, W, 3)``, in [0, 1].
    """

    title: str
    caption: str
    heads: tuple[str, str, str]
    rows: Sequence[tuple[str, str, NDArray[np.floating[Any]]]]


@dataclass(frozen=True, eq=False)
class SampleMap:
    """Samples as points ``(n, 2)`` in the plane, coloured by `labels`, whose names are in `names` by label.

    `colours` are by label the cluster whose colour and mark it has; by default that of the same number.
    """

    title: str
    places: NDArray[np.floating[Any]]
    labels: NDArray[np.integer[Any]]
    names: Mapping[int, str]
    colours: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_shape(f"map '{self.title}'", self.places.shape, (len(self.labels), 2))


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
            allowed = ", ".join(repr(verdict) for verdict in get_args(CellVerdict))
            raise FedkinError(f"The verdict of cell '{self.text}' is one of {allowed}, not {self.verdict!r}.")


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
            _check_shape(f"row '{name}' of table '{self.title}'", (len(cells),), (len(self.columns),))


class HeatCell(NamedTuple):
    """Text of a cell, and how strongly it is shaded: above 0 in one colour, below in the other, at most 1."""

    text: str
    shade: float = 0.0


@dataclass(frozen=True)
class HeatTable:
    """Table with a column for each cluster, whose cells are shaded.

    `last` is the heading of one more column, and `foot` are rows below. Rows named in `faint` are shown as less
    important. Raises FedkinError if a row has more or fewer cells than there are columns.
    """

    title: str
    caption: str
    corner: str
    clusters: Sequence[int]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]
    last: str = ""
    foot: Sequence[tuple[str, Sequence[str]]] = ()
    faint: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        width = len(self.clusters) + bool(self.last)
        for name, cells in (*self.rows, *self.foot):
            _check_shape(f"row '{name}' of table '{self.title}'", (len(cells),), (width,))


@dataclass(frozen=True)
class Text:
    """Sentences in plain text, a paragraph each; what stands in backticks is shown as code."""

    sentences: Sequence[str]


Figure = (
    Curve
    | Bars
    | Graph
    | ScaleTree
    | ClientClusters
    | ClusterPictures
    | PictureTable
    | SampleMap
    | ResultTable
    | HeatTable
    | Text
)


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
        if twice := [anchor for anchor, count in anchors.items() if count > 1]:
            raise FedkinError(f"More than one part of page '{self.title}' has the anchor '{twice[0]}'.")


def _check_shape(what: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise FedkinError(f"The {what} has shape {shape} where {expected} was expected.")
