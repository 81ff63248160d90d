"""Content of a run's report, in plain Python and NumPy values, whatever the method.

Clusters are numbered as in a model's labels. A cluster keeps its colour and mark wherever it appears in one report, so
numbers must mean the same in `RunView.graphs`, `RunView.clients`, `RunView.table`, `RunView.pictures`,
`RunView.profiles` and `RunView.map`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkin.core.errors import FedkinError
from fedkin.report.cluster_descriptions import ClusterDescriptions
from fedkin.report.scale_trees import ScaleTree
from fedkin.report.timeline import NO_EVENTS, Curve, Timeline


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
        if self.errors:
            _check_shape(f"errors of bars '{self.title}'", (len(self.errors),), (len(self.values),))
        _check_shape(f"names of bars '{self.title}'", (len(self.names),), (len(self.values),))
        _check_shape(f"marks of bars '{self.title}'", (len(self.strong),), (len(self.values),))


class ClientEvent(NamedTuple):
    """Event of some clients at a step; `before` and `after` are clusters, or ``None`` if no client moves."""

    step: float
    what: str
    clients: Sequence[str]
    before: int | None = None
    after: int | None = None


class GraphNode(NamedTuple):
    """Local cluster as a node of a graph: client, number, samples, and cluster (``None``: unmatched)."""

    client: str
    local_cluster: int
    size: int
    cluster: int | None


@dataclass(frozen=True)
class GraphView:
    """Graph of local clusters and their associations; `edges` are pairs of positions in `nodes`."""

    title: str
    caption: str
    nodes: Sequence[GraphNode]
    edges: Sequence[tuple[int, int]]

    def __post_init__(self) -> None:
        for edge in self.edges:
            if not all(0 <= end < len(self.nodes) for end in edge):
                raise FedkinError(
                    f"Edge {tuple(edge)} of graph '{self.title}' is not among its {len(self.nodes)} nodes."
                )


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Number of samples by client (rows) and cluster (columns).

    `mostly` is by cluster its most frequent true class and that class's share of the samples; empty without true
    classes.
    """

    clients: Sequence[str]
    clusters: Sequence[int]
    counts: NDArray[np.integer[Any]]
    caption: str = ""
    mostly: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_shape("client × cluster table", self.counts.shape, (len(self.clients), len(self.clusters)))
        if self.mostly:
            _check_shape("classes of the client × cluster table", (len(self.mostly),), (len(self.clusters),))


@dataclass(frozen=True, eq=False)
class ClientClusters:
    """Cluster of each client at every step.

    Clients have short names, in order of id; steps increase. `clusters` ``(clients, steps)`` are -1 where a client has
    none yet. `hidden` are names of each client's true cluster; empty if there are none. `scores` are those of the last
    clusters, some of which may be absent, under the heading `score`. `x_label` says what a step is.
    """

    clients: Sequence[str]
    steps: Sequence[float]
    clusters: NDArray[np.integer[Any]]
    hidden: Sequence[str] = ()
    scores: Mapping[int, float] = field(default_factory=dict)
    caption: str = ""
    score: str = "accuracy on own test sets"
    x_label: str = "round"

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
class Profiles:
    """Mean of every standardised feature, by cluster: ``(clusters, features)``.

    Means are in standard deviations from the mean of all samples; NaN where unknown.
    """

    features: Sequence[str]
    clusters: Sequence[int]
    means: NDArray[np.floating[Any]]
    caption: str = ""

    def __post_init__(self) -> None:
        _check_shape("profile table", self.means.shape, (len(self.clusters), len(self.features)))


@dataclass(frozen=True, eq=False)
class SampleMap:
    """Samples as points ``(n, 2)`` in the plane, by t-SNE or principal components.

    `truth` are their classes, where they are known, as positions in `classes`; a class beyond these names is called by
    its number. `colours` are by class the cluster whose colour and mark it has; by default that of the same number.
    """

    places: NDArray[np.floating[Any]]
    clusters: NDArray[np.integer[Any]]
    truth: NDArray[np.integer[Any]] | None
    classes: Sequence[str]
    caption: str = ""
    colours: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_shape("map of samples", self.places.shape, (len(self.clusters), 2))
        if self.truth is not None:
            _check_shape("classes of a map of samples", self.truth.shape, (len(self.clusters),))


@dataclass(frozen=True, eq=False)
class RunView:
    """Content of a run's page; an empty attribute omits its section.

    `lead` says what was found, in one or two sentences of plain language; a second line is set smaller. `summary` has
    headline numbers as (label, value, explanation); `findings` are sentences on how clusters were found, and `bars`
    criteria by which they were; `scales` are coarser and finer clusters. `changes` are in order of step; `timeline` is
    that of `curves` and `clients`. `notes` are sentences on missing clients, and on what the numbers mean. `settings`
    are the resolved configuration, nested or flat, shown folded and in order of name.
    """

    title: str
    lead: str = ""
    summary: Sequence[tuple[str, str, str]] = ()
    curves: Sequence[Curve] = ()
    graphs: Sequence[GraphView] = ()
    clients: ClientClusters | None = None
    table: ClusterTable | None = None
    pictures: Sequence[ClusterPictures] = ()
    profiles: Profiles | None = None
    map: SampleMap | None = None
    descriptions: ClusterDescriptions | None = None
    findings: Sequence[str] = ()
    bars: Sequence[Bars] = ()
    scales: ScaleTree | None = None
    changes: Sequence[ClientEvent] = ()
    timeline: Timeline = NO_EVENTS
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def _check_shape(what: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise FedkinError(f"The {what} has shape {shape} where {expected} was expected.")
