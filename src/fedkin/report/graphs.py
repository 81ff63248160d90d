"""Graphs of local clusters and their associations as inline SVG, a ring per cluster, with a folded table of members."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedkin.report.figures import Graph, GraphNode
from fedkin.report.markup import (
    card,
    cluster_class,
    cluster_mark,
    drawing,
    element,
    folded,
    sheet,
    short,
    shortened,
    table,
    text,
)

WIDTH = 400.0
_LARGEST_NODE = 7.5
_GAP, _LABEL, _TAG = 12.0, 22.0, 9.0
"""Between rings, below one for its name, and from a node's edge to the middle of its tag."""


def draw_graph(graph: Graph) -> str:
    """Draw a graph of local clusters as an HTML figure; the area of a node shows its number of samples."""
    if not graph.nodes:
        return card(graph.title, graph.caption, element("p", "No local clusters.", class_="empty"))
    by_cluster: dict[int | None, list[GraphNode]] = {}
    for node in graph.nodes:
        by_cluster.setdefault(node.cluster, []).append(node)
    rows = []
    for cluster in sorted(by_cluster, key=lambda key: (key is None, key or 0)):
        nodes = by_cluster[cluster]
        names = ", ".join(f"{graph.name(node)}/{node.local_cluster}" for node in nodes)
        name = "unmatched" if cluster is None else cluster_mark(cluster, str(cluster))
        rows.append((name, len(nodes), sum(node.size for node in nodes), names))
    members = table(["cluster", "local clusters", "samples", "client/local cluster"], rows, "numbers members")
    below = folded("The members", sheet(members, f"{graph.title}: the members"))
    return card(graph.title, graph.caption, _drawing(graph), below)


def _drawing(graph: Graph) -> str:
    tags = _tags(graph)
    layout = arrange([node.cluster for node in graph.nodes], max(map(len, tags), default=0))
    parts = [*_edges(graph, layout), *_nodes(graph, layout)]
    for tag, place in zip(tags, layout.places, strict=False):
        across, beyond = place.tag_x - place.x, place.room + 3
        if abs(across) < place.room or len(tag) < 4:
            parts.append(element("text", text(tag), x=place.tag_x, y=place.tag_y + 3, class_="middle tag"))
        else:
            side, x = ("tag", place.x + beyond) if across > 0 else ("end tag", place.x - beyond)
            parts.append(element("text", text(tag), x=x, y=place.tag_y + 3, class_=side))
    parts += [element("text", f"Cluster {cluster}", x=x, y=y, class_="middle name") for cluster, x, y in layout.labels]
    unmatched = sum(node.cluster is None for node in graph.nodes)
    if unmatched:
        parts.append(element("path", d=f"M0 {short(layout.unmatched)}H{WIDTH:g}", class_="grid"))
        parts.append(element("text", f"Unmatched: {unmatched}", x=0, y=layout.unmatched + 17, class_="name"))
    key = "A dot is a local cluster, its area the number of samples, a line an association."
    key += " Beside each dot: its client." if tags else ""
    if any(graph.nodes[a].cluster != graph.nodes[b].cluster for a, b in graph.edges):
        key += " Dashed: between two clusters."
    words = (
        f"{graph.title}: {len(graph.nodes)} local clusters in {len(layout.labels)} clusters, {unmatched} unmatched, "
        f"{len(graph.edges)} associations. The table below lists the members."
    )
    return drawing("graph", layout.height, words, *parts) + element("p", key, class_="key")


def _tags(graph: Graph) -> list[str]:
    """Return a short tag for the client of each node, such as '12' for 'client 12'; none where there is no room."""
    names = [graph.name(node) for node in graph.nodes]
    numbered = [re.fullmatch(r"(\D*)(\d{1,3})", name) for name in names]
    if len(names) > 120:
        return []
    if len({match[1] if match else None for match in numbered} - {None}) == 1 and all(numbered):
        return [match[2] for match in numbered if match]
    return [shortened(name, 9) for name in names] if len(names) <= 40 else []


def _nodes(graph: Graph, layout: RingLayout) -> list[str]:
    largest = max(1, *(node.size for node in graph.nodes))
    circles = []
    for node, place in zip(graph.nodes, layout.places, strict=True):
        radius = max(1.8, place.room * math.sqrt(max(node.size, 0) / largest))
        name, cluster = graph.name(node), "unmatched" if node.cluster is None else f"in cluster {node.cluster}"
        tip = f"{name}, local cluster {node.local_cluster}\n{node.size} samples, {cluster}"
        look = f"node {cluster_class(node.cluster)}"
        circles.append(element("circle", cx=place.x, cy=place.y, r=radius, class_=look, data_client=name, data_tip=tip))
    return circles


def _edges(graph: Graph, layout: RingLayout) -> list[str]:
    """Draw the edges: one path per cluster, and a dashed one for edges between clusters, to keep large graphs small."""
    paths: dict[int | None, str] = {}
    for a, b in graph.edges:
        cluster = graph.nodes[a].cluster if graph.nodes[a].cluster == graph.nodes[b].cluster else None
        start, end = layout.places[a], layout.places[b]
        line = f"M{short(start.x)} {short(start.y)}L{short(end.x)} {short(end.y)}"
        paths[cluster] = paths.get(cluster, "") + line
    width = f"{min(1.5, 16 / math.sqrt(max(len(graph.edges), 1))):.2f}"  # many lines would be a blot
    inside = [
        element("path", d=paths[cluster], class_=f"edges {cluster_class(cluster)}", stroke_width=width)
        for cluster in sorted(key for key in paths if key is not None)
    ]
    return [*inside, *([element("path", d=paths[None], class_="across")] if None in paths else [])]


# Layout: rings row by row in order of cluster, unmatched nodes below.


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
    unmatched: float
    height: float


@dataclass(frozen=True)
class _Ring:
    """Ring of `count` nodes, as far apart as `spacing` where that does not make it too large."""

    count: int
    spacing: float
    letters: int

    @property
    def radius(self) -> float:
        if self.count == 1:
            return 0.0
        half_turn = 2 * math.sin(math.pi / self.count)
        # At most 84 wide, or 172, less than half a row, where nodes would touch.
        return min(self.spacing / half_turn, min(max(84.0, 4.2 / half_turn), 172.0))

    @property
    def node(self) -> float:
        """Largest radius a node may have without touching its neighbours."""
        distance = 2 * math.sin(math.pi / self.count) * self.radius if self.count > 1 else self.spacing
        return min(_LARGEST_NODE, 0.4 * distance)

    @property
    def reach(self) -> float:
        return self.radius + self.node + (_TAG + 4 if self.letters else 0)

    @property
    def width(self) -> float:
        beside = _tag_width(self.letters) if self.radius else 0.0
        return max(2 * self.reach + _GAP, 2 * (self.radius + self.node + beside) + _GAP, 66.0)

    def place(self, turn: int, x: float, y: float) -> Place:
        """Return the position of a member on a ring around (x, y); its tag points outwards."""
        angle = 2 * math.pi * turn / self.count - math.pi / 2
        across, down = math.cos(angle), math.sin(angle)
        out = self.radius + self.node + _TAG
        return Place(x + self.radius * across, y + self.radius * down, self.node, x + out * across, y + out * down)


def arrange(clusters: Sequence[int | None], letters: int) -> RingLayout:
    """Lay out the nodes of each cluster as a ring, as widely spaced as a roughly square drawing allows.

    `letters` is the length of the longest tag beside a node, 0 for none.
    """
    layout = _arrange(clusters, 44.0, letters)
    for spacing in (36.0, 30.0, 25.0, 21.0, 18.0, 15.5, 13.0):
        if layout.height <= 440:
            break
        layout = _arrange(clusters, spacing, letters)
    return layout


def _arrange(clusters: Sequence[int | None], spacing: float, letters: int) -> RingLayout:
    members: dict[int, list[int]] = {cluster: [] for cluster in sorted({c for c in clusters if c is not None})}
    unmatched = [position for position, cluster in enumerate(clusters) if cluster is None]
    for position, cluster in enumerate(clusters):
        if cluster is not None:
            members[cluster].append(position)
    rows: list[list[tuple[int, _Ring]]] = []
    used = math.inf
    for cluster, positions in members.items():
        ring = _Ring(len(positions), spacing, letters)
        if used + ring.width > WIDTH:
            rows.append([])
            used = 0.0
        rows[-1].append((cluster, ring))
        used += ring.width
    places: dict[int, Place] = {}
    labels: list[tuple[int, float, float]] = []
    top = 4.0
    for row in rows:
        bottom = top + max(2 * ring.reach + _LABEL for _, ring in row)
        spare, left = (WIDTH - sum(ring.width for _, ring in row)) / len(row), 0.0
        for cluster, ring in row:
            x, y = left + (spare + ring.width) / 2, bottom - _LABEL - ring.reach
            places |= {position: ring.place(turn, x, y) for turn, position in enumerate(members[cluster])}
            labels.append((cluster, x, bottom - 7))
            left += ring.width + spare
        top = bottom + _GAP
    height = top - _GAP + 4
    if unmatched:
        room = min(_LARGEST_NODE, 0.4 * spacing)
        step, down = max(2.6 * room, _tag_width(letters)), 2.6 * room + (_TAG + 3 if letters else 0)
        per_row, first = int(WIDTH // step), top + 27 + room + 2
        for turn, position in enumerate(unmatched):
            x, y = step * (turn % per_row + 0.5), first + down * (turn // per_row)
            places[position] = Place(x, y, room, x, y + room + _TAG)
        height = top + 31 + down * math.ceil(len(unmatched) / per_row)
    return RingLayout([places[position] for position in range(len(clusters))], labels, top, height)


def _tag_width(letters: int) -> float:
    return 5.0 * letters + 6 if letters > 3 else 0.0  # a shorter one stands in the middle of its place
