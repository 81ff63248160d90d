"""Graphs of local clusters and their associations as inline SVG, a ring per cluster, with a folded table of members."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from fedkin.report.figures import Graph
from fedkin.report.markup import (
    WIDTH,
    Drawing,
    cluster_class,
    cluster_mark,
    element,
    figure,
    folded,
    sheet,
    short,
    table,
)

_LARGEST_NODE = 7.5
_GAP, _LABEL, _TAG = 12.0, 22.0, 9.0
"""Between rings, below one for its name, and from a node's edge to the middle of its tag."""
_SPACINGS = (44.0, 36.0, 30.0, 25.0, 21.0, 18.0, 15.5, 13.0)
"""Between neighbours in a ring; the first that makes a roughly square drawing is taken."""


def draw_graph(graph: Graph) -> str:
    """Draw a graph of local clusters as an HTML figure; the area of a node shows its number of samples."""
    if not graph.nodes:
        return figure(graph.title, graph.caption, element("p", "No local clusters.", class_="empty"))
    rows = []
    for cluster, positions in _groups([node.cluster for node in graph.nodes]).items():
        nodes = [graph.nodes[position] for position in positions]
        names = ", ".join(f"{graph.name(node)}/{node.local_cluster}" for node in nodes)
        name = "unmatched" if cluster is None else cluster_mark(cluster, str(cluster))
        rows.append((name, len(nodes), sum(node.size for node in nodes), names))
    members = table(["cluster", "local clusters", "samples", "client/local cluster"], rows, "numbers members")
    below = folded("The members", sheet(members, f"{graph.title}: the members"))
    return figure(graph.title, graph.caption, _draw(graph), below)


def _groups(clusters: Sequence[int | None]) -> dict[int | None, list[int]]:
    """Return the positions of each cluster's nodes, in order of cluster, those of unmatched nodes last."""
    order = sorted(set(clusters), key=lambda cluster: (cluster is None, cluster or 0))
    return {cluster: [index for index, label in enumerate(clusters) if label == cluster] for cluster in order}


def _draw(graph: Graph) -> str:
    tags = _tags(graph)
    layout = arrange([node.cluster for node in graph.nodes], bool(tags))
    drawing = Drawing("graph")
    # One path per cluster, and one for edges between clusters, keeps large graphs small.
    paths: dict[int | None, str] = {}
    for a, b in graph.edges:
        cluster = graph.nodes[a].cluster if graph.nodes[a].cluster == graph.nodes[b].cluster else None
        (x0, y0, *_), (x1, y1, *_) = layout.places[a], layout.places[b]
        paths[cluster] = f"{paths.get(cluster, '')}M{short(x0)} {short(y0)}L{short(x1)} {short(y1)}"
    across = paths.pop(None, "")
    width = f"{min(1.5, 16 / math.sqrt(max(len(graph.edges), 1))):.2f}"  # many lines would be a blot
    for cluster, lines in sorted(paths.items(), key=lambda path: path[0] or 0):
        drawing.path(lines, f"edges {cluster_class(cluster)}", stroke_width=width)
    if across:
        drawing.path(across, "across")
    largest = max(1, *(node.size for node in graph.nodes))
    for node, (x, y, room, *_) in zip(graph.nodes, layout.places, strict=True):
        radius = max(1.8, room * math.sqrt(max(node.size, 0) / largest))
        name, state = graph.name(node), "unmatched" if node.cluster is None else f"in cluster {node.cluster}"
        tip = f"{name}, local cluster {node.local_cluster}\n{node.size} samples, {state}"
        look = f"node {cluster_class(node.cluster)}"
        drawing.parts.append(
            element("circle", cx=x, cy=y, r=radius, class_=look, data_client=name, data_tip=tip)
        )  # fmt: skip
    for tag, place in zip(tags, layout.places, strict=False):
        drawing.text(place.tag_x, place.tag_y + 3, tag, "middle tag")
    unmatched = sum(node.cluster is None for node in graph.nodes)
    for cluster, x, y in layout.labels:
        drawing.text(x, y, f"Unmatched: {unmatched}" if cluster is None else f"Cluster {cluster}", "middle name")
    key = "A dot is a local cluster, its area the number of samples, a line an association."
    key += " Beside each dot: its client." if tags else ""
    key += " Dashed: between two clusters." if across else ""
    words = (
        f"{graph.title}: {len(graph.nodes)} local clusters, {unmatched} unmatched, {len(graph.edges)} associations. "
        "The table below lists the members."
    )
    return drawing.write(layout.height, words) + element("p", key, class_="key")


def _tags(graph: Graph) -> list[str]:
    """Return the numbers of the nodes' clients, such as '12' for 'client 12'; none where there is no room."""
    numbered = [re.fullmatch(r"(\D*)(\d{1,3})", graph.name(node)) for node in graph.nodes]
    tags = [(match[1], match[2]) for match in numbered if match]
    alike = len(tags) == len(numbered) <= 120 and len({name for name, _ in tags}) == 1
    return [number for _, number in tags] if alike else []


# Layout: rings row by row in order of cluster, that of unmatched nodes last.


class Place(NamedTuple):
    """Position of a node, the largest radius it may have (`room`), and the position of its tag."""

    x: float
    y: float
    room: float
    tag_x: float
    tag_y: float


class RingLayout(NamedTuple):
    """Layout of a graph: node positions, labels of rings as (cluster, x, y), and height."""

    places: list[Place]
    labels: list[tuple[int | None, float, float]]
    height: float


class _Ring(NamedTuple):
    """Ring of a cluster's nodes, whose `node` is the largest radius of one that does not touch its neighbours."""

    cluster: int | None
    positions: list[int]
    radius: float
    node: float
    reach: float
    width: float


def _ring(cluster: int | None, positions: list[int], spacing: float, tagged: bool) -> _Ring:
    count, radius, distance = len(positions), 0.0, spacing
    if count > 1:
        half_turn = 2 * math.sin(math.pi / count)
        # At most 84 wide, or 172, less than half a row, where nodes would touch.
        radius = min(spacing / half_turn, min(max(84.0, 4.2 / half_turn), 172.0))
        distance = half_turn * radius
    node = min(_LARGEST_NODE, 0.4 * distance)
    reach = radius + node + (_TAG + 4 if tagged else 0)
    return _Ring(cluster, positions, radius, node, reach, max(2 * reach + _GAP, 66.0))


def arrange(clusters: Sequence[int | None], tagged: bool) -> RingLayout:
    """Lay out the nodes of each cluster as a ring, as widely spaced as a roughly square drawing allows.

    `tagged` nodes have a tag of up to three digits beside them.
    """
    layouts = (_arrange(clusters, spacing, tagged) for spacing in _SPACINGS)
    layout = next(layouts)
    while layout.height > 440 and (tighter := next(layouts, None)) is not None:
        layout = tighter
    return layout


def _arrange(clusters: Sequence[int | None], spacing: float, tagged: bool) -> RingLayout:
    rows: list[list[_Ring]] = []
    used = math.inf
    for cluster, positions in _groups(clusters).items():
        ring = _ring(cluster, positions, spacing, tagged)
        if used + ring.width > WIDTH:
            rows.append([])
            used = 0.0
        rows[-1].append(ring)
        used += ring.width
    places: dict[int, Place] = {}
    labels: list[tuple[int | None, float, float]] = []
    top = 4.0
    for row in rows:
        bottom = top + max(2 * ring.reach + _LABEL for ring in row)
        spare, start = (WIDTH - sum(ring.width for ring in row)) / len(row), 0.0
        for ring in row:
            x, y = start + (spare + ring.width) / 2, bottom - _LABEL - ring.reach
            tag = ring.radius + ring.node + _TAG  # tags point outwards
            for turn, position in enumerate(ring.positions):
                angle = 2 * math.pi * turn / len(ring.positions) - math.pi / 2
                across, down = math.cos(angle), math.sin(angle)
                places[position] = Place(
                    x + ring.radius * across, y + ring.radius * down, ring.node, x + tag * across, y + tag * down
                )
            labels.append((ring.cluster, x, bottom - 7))
            start += ring.width + spare
        top = bottom + _GAP
    return RingLayout([places[position] for position in range(len(clusters))], labels, top - _GAP + 4)
