"""Graphs of local clusters and their associations as inline SVG, a ring per cluster, with a folded table of members."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fedkin.report.figures import Graph, GraphNode
from fedkin.report.markup import card, cluster_class, cluster_mark, drawing, element, folded, sheet, short, table, text

SMALLEST_NODE = 1.8
MAX_TAGS = 120
_WHOLE, _FEW = 9, 40
"""Letters of names, and nodes of a graph, up to which names are drawn whole."""


def draw_graph(graph: Graph) -> str:
    """Draw a graph of local clusters as an HTML figure; the area of a node shows its number of samples."""
    drawn = _drawing(graph) if graph.nodes else element("p", "No local clusters.", class_="empty")
    return card(graph.title, graph.caption, drawn, _members(graph))


def _drawing(graph: Graph) -> str:
    tags = _tags(graph)
    layout = arrange([node.cluster for node in graph.nodes], letters=max(map(len, tags), default=0))
    parts = [_edges(graph, layout), _nodes(graph, layout), *map(_tag, tags, layout.places)]
    parts += [element("text", f"Cluster {cluster}", x=x, y=y, class_="middle name") for cluster, x, y in layout.labels]
    if layout.unmatched is not None:
        count = sum(node.cluster is None for node in graph.nodes)
        parts.append(element("path", d=f"M0 {short(layout.unmatched)}H{WIDTH:g}", class_="grid"))
        parts.append(element("text", f"Unmatched: {count}", x=0, y=layout.unmatched + 17, class_="name"))
    key = "A dot is a local cluster, its area the number of samples, a line an association."
    if tags:
        whole = all(graph.name(node).endswith(tag) for tag, node in zip(tags, graph.nodes, strict=True))
        key += f" Beside each dot: {'its client' if whole else 'the first letters of its client'}."
    if any(graph.nodes[a].cluster != graph.nodes[b].cluster for a, b in graph.edges):
        key += " Dashed: between two clusters."
    return drawing("graph", layout.height, _in_words(graph), *parts) + element("p", key, class_="key")


def _nodes(graph: Graph, layout: RingLayout) -> str:
    largest = max(1, *(node.size for node in graph.nodes))
    circles = []
    for node, place in zip(graph.nodes, layout.places, strict=True):
        radius = max(SMALLEST_NODE, place.room * math.sqrt(max(node.size, 0) / largest))
        look = f"node {cluster_class(node.cluster)}"
        about = {"data_client": graph.name(node), "data_tip": _tip(graph, node)}
        circles.append(element("circle", cx=place.x, cy=place.y, r=radius, class_=look, **about))
    return "".join(circles)


def _edges(graph: Graph, layout: RingLayout) -> str:
    """Draw the edges: one path per cluster, and a dashed one for edges between clusters, to keep large graphs small."""
    paths: dict[int | None, list[str]] = {}
    for a, b in graph.edges:
        cluster = graph.nodes[a].cluster if graph.nodes[a].cluster == graph.nodes[b].cluster else None
        start, end = layout.places[a], layout.places[b]
        paths.setdefault(cluster, []).append(f"M{short(start.x)} {short(start.y)}L{short(end.x)} {short(end.y)}")
    width = f"{min(1.5, 16 / math.sqrt(max(len(graph.edges), 1))):.2f}"
    inside = [
        element("path", d="".join(paths[cluster]), class_=f"edges {cluster_class(cluster)}", stroke_width=width)
        for cluster in sorted(key for key in paths if key is not None)
    ]
    return "".join(inside) + (element("path", d="".join(paths[None]), class_="across") if None in paths else "")


def _tag(tag: str, place: Place) -> str:
    """Draw a client's tag at its place or, where that would cover the node, beside it."""
    across = place.tag_x - place.x
    if len(tag) <= SHORT_TAG or abs(across) < place.room:
        return element("text", text(tag), x=place.tag_x, y=place.tag_y + 3, class_="middle tag")
    side, gap = ("tag", place.room + 3) if across > 0 else ("end tag", -place.room - 3)
    return element("text", text(tag), x=place.x + gap, y=place.tag_y + 3, class_=side)


def _tags(graph: Graph) -> list[str]:
    """Return a short tag for the client of each node, such as '12' for 'client 12'; no tags without room or names."""
    if len(graph.nodes) > MAX_TAGS:
        return []
    matches = [re.fullmatch(r"(\D*)(\d{1,3})", graph.name(node)) for node in graph.nodes]
    numbered = [match for match in matches if match]
    if len(numbered) == len(matches) and len({match[1] for match in numbered}) == 1:
        return [match[2] for match in numbered]
    names = {graph.name(node) for node in graph.nodes}
    letters = _WHOLE if len(graph.nodes) <= _FEW else SHORT_TAG
    if max(map(len, names), default=0) > letters:
        letters = next((n for n in range(SHORT_TAG, _WHOLE) if len({own[:n] for own in names}) == len(names)), 0)
    return [graph.name(node)[:letters] for node in graph.nodes] if letters else []


def _tip(graph: Graph, node: GraphNode) -> str:
    where = "unmatched" if node.cluster is None else f"in cluster {node.cluster}"
    return f"{graph.name(node)}, local cluster {node.local_cluster}\n{node.size} samples, {where}"


def _in_words(graph: Graph) -> str:
    clusters = {node.cluster for node in graph.nodes} - {None}
    unmatched = sum(node.cluster is None for node in graph.nodes)
    return (
        f"{graph.title}: {len(graph.nodes)} local clusters in {len(clusters)} clusters, {unmatched} unmatched, "
        f"{len(graph.edges)} associations. The table below lists the members."
    )


def _members(graph: Graph) -> str:
    by_cluster: dict[int | None, list[GraphNode]] = {}
    for node in graph.nodes:
        by_cluster.setdefault(node.cluster, []).append(node)
    rows = []
    for cluster in sorted(by_cluster, key=lambda key: (key is None, key or 0)):
        nodes = by_cluster[cluster]
        names = ", ".join(f"{graph.name(node)}/{node.local_cluster}" for node in nodes)
        name = "unmatched" if cluster is None else cluster_mark(cluster, str(cluster))
        rows.append((name, len(nodes), sum(node.size for node in nodes), names))
    if not rows:
        return ""
    members = table(["cluster", "local clusters", "samples", "client/local cluster"], rows, "numbers members")
    return folded("The members", sheet(members, f"{graph.title}: the members"))


# Layout: rings row by row in order of cluster, unmatched nodes below.


WIDTH = 400.0
HEIGHT = 440.0
SPACINGS = [44.0, 36.0, 30.0, 25.0, 21.0, 18.0, 15.5, 13.0]
LARGEST_NODE = 7.5
LARGEST_RING = 84.0
WIDEST_RING = 172.0  # only for a ring so full that its nodes would touch
TIGHTEST = 4.2
GAP = 12.0
LABEL = 22.0
NARROWEST = 66.0
TAG = 9.0  # from a node's edge to the middle of its tag
LETTER = 5.0
SHORT_TAG = 3  # letters of a tag up to which it is set in the middle of its place, and takes no room at the sides


class Place(NamedTuple):
    """Position of a node, the largest radius it may have (`room`), and the position of its tag."""

    x: float
    y: float
    room: float
    tag_x: float
    tag_y: float


@dataclass(frozen=True)
class RingLayout:
    """Layout of a graph: node positions, cluster labels as (cluster, x, y), top of the unmatched nodes, and height."""

    places: list[Place]
    labels: list[tuple[int, float, float]]
    unmatched: float | None
    height: float


def arrange(clusters: Sequence[int | None], letters: int) -> RingLayout:
    """Lay out the nodes of each cluster as a ring, as widely spaced as a roughly square drawing allows.

    `letters` is the length of the longest tag beside a node, 0 for none.
    """
    layouts = (_arrange(clusters, spacing, letters) for spacing in SPACINGS)
    return next((layout for layout in layouts if layout.height <= HEIGHT), _arrange(clusters, SPACINGS[-1], letters))


@dataclass(frozen=True)
class _Ring:
    cluster: int
    members: list[int] = field(repr=False)
    spacing: float
    letters: int

    @property
    def radius(self) -> float:
        if len(self.members) == 1:
            return 0.0
        half_turn = 2 * math.sin(math.pi / len(self.members))
        largest = min(max(LARGEST_RING, TIGHTEST / half_turn), WIDEST_RING)
        return min(self.spacing / half_turn, largest)

    @property
    def node(self) -> float:
        """Largest radius a node may have without touching its neighbours."""
        distance = self.spacing if self.radius == 0 else 2 * math.sin(math.pi / len(self.members)) * self.radius
        return min(LARGEST_NODE, 0.4 * distance)

    @property
    def reach(self) -> float:
        return self.radius + self.node + (TAG + 4 if self.letters else 0)

    @property
    def width(self) -> float:
        beside = _tag_width(self.letters) if self.letters > SHORT_TAG and self.radius else 0.0
        return max(2 * self.reach + GAP, 2 * (self.radius + self.node + beside) + GAP, NARROWEST)

    @property
    def height(self) -> float:
        return 2 * self.reach + LABEL

    def place(self, turn: int, x: float, y: float) -> Place:
        """Return the position of member `turn` on a ring around (x, y); its tag points outwards."""
        angle = 2 * math.pi * turn / len(self.members) - math.pi / 2
        across, down = math.cos(angle), math.sin(angle)
        out = self.radius + self.node + TAG
        return Place(x + self.radius * across, y + self.radius * down, self.node, x + out * across, y + out * down)


def _arrange(clusters: Sequence[int | None], spacing: float, letters: int) -> RingLayout:
    present = sorted({cluster for cluster in clusters if cluster is not None})
    members = {cluster: [at for at, own in enumerate(clusters) if own == cluster] for cluster in present}
    places: dict[int, Place] = {}
    labels: list[tuple[int, float, float]] = []
    top = 4.0
    for row in _shelves([_Ring(cluster, members[cluster], spacing, letters) for cluster in present]):
        floor = top + max(ring.height for ring in row)
        spare = (WIDTH - sum(ring.width for ring in row)) / len(row)
        left = 0.0
        for ring in row:
            x, y = left + (spare + ring.width) / 2, floor - LABEL - ring.reach
            places |= {at: ring.place(turn, x, y) for turn, at in enumerate(ring.members)}
            labels.append((ring.cluster, x, floor - 7))
            left += ring.width + spare
        top = floor + GAP
    unmatched = [at for at, own in enumerate(clusters) if own is None]
    own_places, bottom = _unmatched(len(unmatched), spacing, letters, top + 27)
    places |= dict(zip(unmatched, own_places, strict=True))
    start = top if unmatched else None
    return RingLayout(
        [places[at] for at in range(len(clusters))], labels, start, bottom if unmatched else top - GAP + 4
    )


def _unmatched(count: int, spacing: float, letters: int, top: float) -> tuple[list[Place], float]:
    """Place the unmatched nodes row by row; return their positions and the bottom of the last row."""
    room = min(LARGEST_NODE, 0.4 * spacing)
    step = max(2.6 * room, _tag_width(letters) if letters > SHORT_TAG else 0.0)
    down = 2.6 * room + (TAG + 3 if letters else 0)
    across = int(WIDTH // step)
    centres = [(step * (turn % across + 0.5), top + room + 2 + down * (turn // across)) for turn in range(count)]
    return [Place(x, y, room, x, y + room + TAG) for x, y in centres], top + down * math.ceil(count / across) + 4


def _tag_width(letters: int) -> float:
    return LETTER * letters + 6


def _shelves(rings: Sequence[_Ring]) -> list[list[_Ring]]:
    """Split rings, in order, into as few rows as hold them, of about equal width."""
    shelves = _fill(rings, WIDTH)
    limit = WIDTH - 8
    while limit > 0 and len(tighter := _fill(rings, limit)) == len(shelves):
        shelves = tighter
        limit -= 8
    return shelves


def _fill(rings: Sequence[_Ring], limit: float) -> list[list[_Ring]]:
    shelves: list[list[_Ring]] = []
    used = math.inf
    for ring in rings:
        if used + ring.width > limit:
            shelves.append([])
            used = 0.0
        shelves[-1].append(ring)
        used += ring.width
    return shelves
