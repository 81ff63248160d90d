"""Graphs of local clusters and their associations as inline SVG, with the members in a folded table."""

from __future__ import annotations

import math
import re

from fedkin.report.markup import card, cluster_class, cluster_mark, drawing, element, folded, sheet, short, table, text
from fedkin.report.rings import SHORT_TAG, WIDTH, Place, RingLayout, arrange
from fedkin.report.run_view import GraphNode, GraphView

SMALLEST_NODE = 1.8
MAX_TAGS = 120
_WHOLE, _FEW = 9, 40
"""Letters of names, and nodes of a graph, up to which names are drawn whole."""


def draw_graph(graph: GraphView) -> str:
    """Draw a graph of local clusters as an HTML figure; the area of a node shows its number of samples."""
    drawn = _drawing(graph) if graph.nodes else element("p", "No local clusters.", class_="empty")
    return card(graph.title, graph.caption, drawn, _members(graph))


def _drawing(graph: GraphView) -> str:
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
        whole = all(node.client.endswith(tag) for tag, node in zip(tags, graph.nodes, strict=True))
        key += f" Beside each dot: {'its client' if whole else 'the first letters of its client'}."
    if any(graph.nodes[a].cluster != graph.nodes[b].cluster for a, b in graph.edges):
        key += " Dashed: between two clusters."
    return drawing("graph", layout.height, _in_words(graph), *parts) + element("p", key, class_="key")


def _nodes(graph: GraphView, layout: RingLayout) -> str:
    largest = max(1, *(node.size for node in graph.nodes))
    circles = []
    for node, place in zip(graph.nodes, layout.places, strict=True):
        radius = max(SMALLEST_NODE, place.room * math.sqrt(max(node.size, 0) / largest))
        look = f"node {cluster_class(node.cluster)}"
        about = {"data_client": node.client, "data_tip": _tip(node)}
        circles.append(element("circle", cx=place.x, cy=place.y, r=radius, class_=look, **about))
    return "".join(circles)


def _edges(graph: GraphView, layout: RingLayout) -> str:
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


def _tags(graph: GraphView) -> list[str]:
    """Return a short tag for the client of each node, such as '12' for 'client 12'; no tags without room or names."""
    if len(graph.nodes) > MAX_TAGS:
        return []
    matches = [re.fullmatch(r"(\D*)(\d{1,3})", node.client) for node in graph.nodes]
    numbered = [match for match in matches if match]
    if len(numbered) == len(matches) and len({match[1] for match in numbered}) == 1:
        return [match[2] for match in numbered]
    names = {node.client for node in graph.nodes}
    letters = _WHOLE if len(graph.nodes) <= _FEW else SHORT_TAG
    if max(map(len, names), default=0) > letters:
        letters = next((n for n in range(SHORT_TAG, _WHOLE) if len({own[:n] for own in names}) == len(names)), 0)
    return [node.client[:letters] for node in graph.nodes] if letters else []


def _tip(node: GraphNode) -> str:
    where = "unmatched" if node.cluster is None else f"in cluster {node.cluster}"
    return f"{node.client}, local cluster {node.local_cluster}\n{node.size} samples, {where}"


def _in_words(graph: GraphView) -> str:
    clusters = {node.cluster for node in graph.nodes} - {None}
    unmatched = sum(node.cluster is None for node in graph.nodes)
    return (
        f"{graph.title}: {len(graph.nodes)} local clusters in {len(clusters)} clusters, {unmatched} unmatched, "
        f"{len(graph.edges)} associations. The table below lists the members."
    )


def _members(graph: GraphView) -> str:
    by_cluster: dict[int | None, list[GraphNode]] = {}
    for node in graph.nodes:
        by_cluster.setdefault(node.cluster, []).append(node)
    rows = []
    for cluster in sorted(by_cluster, key=lambda key: (key is None, key or 0)):
        nodes = by_cluster[cluster]
        names = ", ".join(f"{node.client}/{node.local_cluster}" for node in nodes)
        name = "unmatched" if cluster is None else cluster_mark(cluster, str(cluster))
        rows.append((name, len(nodes), sum(node.size for node in nodes), names))
    if not rows:
        return ""
    members = table(["cluster", "local clusters", "samples", "client/local cluster"], rows, "numbers members")
    return folded("The members", sheet(members, f"{graph.title}: the members"))
