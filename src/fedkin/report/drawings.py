"""Drawings of clusters: graphs of local ones, the tree of coarser and finer ones, maps of samples, and pictures."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.report.figures import ClusterPictures, Graph, SampleMap, Scale, ScaleTree
from fedkin.report.markup import (
    WIDTH,
    Drawing,
    cluster_class,
    cluster_mark,
    cluster_title,
    element,
    figure,
    folded,
    numbers_below,
    sheet,
    short,
    table,
    text,
)
from fedkin.report.numbers import pluralize, shown

LEFT, RIGHT = 30.0, 36.0  # beside the blocks of a tree: numbers of clusters, and stabilities


def scale_tree(tree: ScaleTree) -> str:
    """Draw a tree of scales as an HTML figure: a row per scale, a block per cluster as wide as its samples.

    A cluster's block lies below the one that it is part of, and what is part of a final cluster has its colour.
    """
    drawing, top = Drawing("scales"), 18.0
    row = min(40.0, max(22.0, 320 / len(tree.scales)))
    drawing.text(0, top - 6, "clusters", "head")
    drawing.text(WIDTH, top - 6, "stability", "end head")
    places: list[int] = []
    colours: list[int | None] = []
    for index, scale in enumerate(tree.scales):
        inherited = [colours[parent] for parent in scale.parents] or [None] * len(scale.samples)
        colours = list(range(len(inherited))) if scale.chosen else inherited
        above = [places[parent] for parent in scale.parents] or [0] * len(scale.samples)
        order = sorted(range(len(above)), key=lambda cluster: (above[cluster], cluster))
        places = [order.index(cluster) for cluster in range(len(order))]
        _draw_scale(drawing, scale, order, colours, top + row * index, row - 4)
    words = f"{tree.title}: {'; '.join(map(_scale_in_words, tree.scales))}."
    rows = [(len(s.samples), shown(s.stability, "number"), "found" if s.chosen else "") for s in tree.scales]
    numbers = numbers_below(tree.title, ["clusters", "stability", ""], rows)
    return figure(tree.title, tree.caption, drawing.write(top + row * len(tree.scales), words), numbers)


def _draw_scale(
    drawing: Drawing, scale: Scale, order: Sequence[int], colours: Sequence[int | None], top: float, height: float
) -> None:
    base, chosen = top + height / 2 + 3, " chosen" if scale.chosen else ""
    drawing.text(LEFT - 10, base, len(order), f"end name{chosen}")
    if scale.stability is not None:
        drawing.text(WIDTH, base, f"{scale.stability:.2f}", f"end name{chosen}")
    unit = (WIDTH - LEFT - RIGHT) / max(sum(scale.samples), 1)
    ends = [LEFT + unit * end for end in accumulate((scale.samples[cluster] for cluster in order), initial=0)]
    for cluster, (start, stop) in zip(order, pairwise(ends), strict=True):
        width = max(stop - start - 1, 0.4)  # so that blocks do not touch, and the smallest can be seen
        part = f"\npart of cluster {scale.parents[cluster]} of the row above" if scale.parents else ""
        tip = f"{_scale_in_words(scale)}\ncluster {cluster}: {pluralize(scale.samples[cluster], 'sample')}{part}"
        drawing.box(start, top, width, height, f"block {cluster_class(colours[cluster])}{chosen}", tip)
        if scale.chosen and width >= 15:
            drawing.text(start + width / 2, base, cluster, "middle in")


def _scale_in_words(scale: Scale) -> str:
    stability = "" if scale.stability is None else f", stability {shown(scale.stability, 'number')}"
    return f"{pluralize(len(scale.samples), 'cluster')}{stability}{' (found)' if scale.chosen else ''}"


_DOT = 2.4  # radius of a sample, so that some hundred can be told apart on a phone


def sample_map(view: SampleMap, is_still: bool = False) -> str:
    """Draw a scatter plot with one scale for both axes; ``map.js`` makes it move, unless it `is_still`."""
    low, high = view.places.min(axis=0), view.places.max(axis=0)
    extent, margin = float((high - low).max()) or 1.0, 8.0
    places = (view.places - (low + high) / 2) / extent * (WIDTH - 2 * margin) + WIDTH / 2
    places[:, 1] -= float(places[:, 1].min()) - margin  # a flat cloud takes no more height than it needs
    labels = view.cuts[view.chosen]
    sizes = np.ones(len(labels)) if view.sizes is None else np.sqrt(np.clip(view.sizes, 1, None))
    radii = _DOT * sizes / (sizes.mean() if view.sizes is not None else 1.0)
    drawing, counts, entries, order = Drawing("map"), [], [], np.argsort(labels, kind="stable")
    for label in np.unique(labels).tolist():
        name = f"Cluster {label}" if label >= 0 else "In no cluster"
        members, colour = order[labels[order] == label], None if label < 0 else label
        dots = [
            f'<circle cx="{short(x)}" cy="{short(y)}" r="{short(r)}"/>'
            for (x, y), r in zip(places[members].tolist(), np.clip(radii[members], 1.0, 9.0).tolist(), strict=True)
        ]
        drawing.parts.append(element("g", *dots, class_=f"cloud {cluster_class(colour)}", data_tip=name))
        counts.append(f"{name}: {len(members)}")
        entries.append(element("li", text(name) if colour is None else cluster_title(label)))
    words = f"{view.title or 'Map'}. {', '.join(counts)}."
    points = drawing.write(max(float(places[:, 1].max()) + margin, WIDTH / 4), words)
    legend = element("ul", *entries, class_="legend")
    data = "" if is_still else f'<script type="application/json">{_map_data(view, order)}</script>'
    return figure(view.title, view.caption, points, legend, data, look="card plane")


def _map_data(view: SampleMap, order: NDArray[np.integer[Any]]) -> str:
    """Return what ``map.js`` reads, as JSON that ends no script: lists by point are in the order of the circles."""
    tree: dict[str, Any] = {"cuts": view.cuts[:, order].tolist(), "chosen": view.chosen, "scales": list(view.scales)}
    tree["sentences"] = [{str(cluster): spoken for cluster, spoken in each.items()} for each in view.sentences]
    for name, values in (("sizes", view.sizes), ("clients", view.clients), ("classes", view.classes)):
        if values is not None:
            tree[name] = np.asarray(values)[order].astype(np.int64).tolist()
    if view.confidence is not None:
        tree["confidence"] = np.nan_to_num(100 * view.confidence[order]).round().astype(np.int64).tolist()
    if view.ids:
        tree |= {"ids": [view.ids[point] for point in order.tolist()], "idName": view.id_name}
    tree["names"] = list(view.client_names)
    tree["classNames"] = {str(label): name for label, name in view.class_names.items()}
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def tile_side(clusters: Sequence[ClusterPictures]) -> int:
    """Return the largest side of a tile, at most 64, for which the pictures of a page stay near one megabyte."""
    tiles = sum((1 + len(cluster.members)) * (3 if cluster.mean.ndim == 3 else 1) for cluster in clusters)
    return max(8, min(64, math.isqrt(900_000 // max(tiles, 1))))


def picture_card(cluster: ClusterPictures, side: int) -> str:
    """Write a card with the middle of a cluster, large, and some member images, small."""
    count = len(cluster.members)
    tiles = [element("i", style=f"--at:{100 * tile / max(count, 1):.6g}%") for tile in range(count + 1)]
    height, width = cluster.mean.shape[:2]
    label = f"Cluster {cluster.cluster}: its middle, then {count} of its members"
    style = f"--sprite:url({sprite(cluster.mean, cluster.members, side)});--tiles:{count + 1};--shape:{width}/{height}"
    strip = element("div", *tiles, class_="strip", role="img", aria_label=label, style=style)
    title = element("h3", cluster_title(cluster.cluster))
    facts = element("p", f"{pluralize(cluster.size, 'sample')} from {pluralize(cluster.clients, 'client')}")
    classes = element("p", text(cluster.mostly)) if cluster.mostly else ""
    return element("figure", element("figcaption", title, facts, classes), strip, class_="card")


def sprite(mean: NDArray[np.floating[Any]], members: NDArray[np.floating[Any]], side: int) -> str:
    """Encode images as one row of tiles, the mean first, in a PNG data URI.

    They are ``(H, W)`` or ``(H, W, 3)``; values are clipped to [0, 1], and NaN becomes black. `side` is the longest
    side of a tile in pixels; larger images are reduced to it, smaller ones kept.
    """
    from PIL import Image  # for pages with pictures alone

    pixels = np.round(np.clip(np.nan_to_num(np.concatenate([mean[None], members])), 0, 1) * 255).astype(np.uint8)
    tiles = [Image.fromarray(tile) for tile in pixels]
    for tile in tiles:
        tile.thumbnail((side, side), Image.Resampling.BOX, reducing_gap=None)
    file = io.BytesIO()
    Image.fromarray(np.concatenate([np.asarray(tile) for tile in tiles], axis=1)).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


# Graphs of local clusters and their associations: a ring per cluster, with a folded table of members.

_LARGEST_NODE = 7.5
_SPACING = 16.0  # between unmatched nodes


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
    key = "A dot is a local cluster, its area the number of samples, a line an association."
    return figure(graph.title, graph.caption, _draw(graph), element("p", key, class_="key"), below)


def _groups(clusters: Sequence[int | None]) -> dict[int | None, list[int]]:
    """Return the positions of each cluster's nodes, in order of cluster, those of unmatched nodes last."""
    order = sorted(set(clusters), key=lambda cluster: (cluster is None, cluster or 0))
    return {cluster: [index for index, label in enumerate(clusters) if label == cluster] for cluster in order}


def _draw(graph: Graph) -> str:
    places, labels, height = arrange([node.cluster for node in graph.nodes])
    drawing = Drawing("graph")
    # One path per cluster, and one for edges between clusters, keeps large graphs small.
    paths: dict[int | None, str] = {}
    for a, b in graph.edges:
        cluster = graph.nodes[a].cluster if graph.nodes[a].cluster == graph.nodes[b].cluster else None
        (x0, y0, _), (x1, y1, _) = places[a], places[b]
        paths[cluster] = f"{paths.get(cluster, '')}M{short(x0)} {short(y0)}L{short(x1)} {short(y1)}"
    width = f"{min(1.5, 16 / math.sqrt(max(len(graph.edges), 1))):.2f}"  # many lines would be a blot
    for cluster, lines in paths.items():
        look = "across" if cluster is None else f"edges {cluster_class(cluster)}"
        drawing.path(lines, look, stroke_width=width)
    largest = max(1, *(node.size for node in graph.nodes))
    for node, (x, y, room) in zip(graph.nodes, places, strict=True):
        radius = max(1.8, room * math.sqrt(max(node.size, 0) / largest))
        name, state = graph.name(node), "unmatched" if node.cluster is None else f"in cluster {node.cluster}"
        tip = f"{name}, local cluster {node.local_cluster}\n{node.size} samples, {state}"
        look = f"node {cluster_class(node.cluster)}"
        drawing.parts.append(element("circle", cx=x, cy=y, r=radius, class_=look, data_client=name, data_tip=tip))
    for words, x, y in labels:
        drawing.text(x, y, words, "middle name")
    unmatched = sum(node.cluster is None for node in graph.nodes)
    return drawing.write(
        height,
        f"{graph.title}: {len(graph.nodes)} local clusters, {unmatched} unmatched, {len(graph.edges)} associations. "
        "The table below lists the members.",
    )


def arrange(
    clusters: Sequence[int | None],
) -> tuple[list[tuple[float, float, float]], list[tuple[str, float, float]], float]:
    """Lay out the nodes of each cluster as a ring, rings in a square grid, and unmatched nodes in rows below.

    Returns for each node its place and the largest radius that it may have; labels with their places; and the height.
    """
    groups = _groups(clusters)
    loose, rings = groups.pop(None, []), groups
    columns = max(1, math.ceil(math.sqrt(len(rings))))
    cell, label = WIDTH / columns, 24.0
    radii = {
        cluster: 0.0 if len(nodes) == 1 else min(0.4 * cell - _LARGEST_NODE, 22 / math.sin(math.pi / len(nodes)))
        for cluster, nodes in rings.items()
    }
    row = 2 * (max(radii.values(), default=0.0) + _LARGEST_NODE) + label
    places = [(0.0, 0.0, _LARGEST_NODE)] * len(clusters)
    labels: list[tuple[str, float, float]] = []
    for place, (cluster, nodes) in enumerate(rings.items()):
        x, y, radius = cell * (place % columns + 0.5), row * (place // columns + 0.5) - label / 2, radii[cluster]
        room = min(_LARGEST_NODE, 0.8 * radius * math.sin(math.pi / len(nodes)) or _LARGEST_NODE)
        for turn, node in enumerate(nodes):
            angle = 2 * math.pi * turn / len(nodes) - math.pi / 2
            places[node] = (x + radius * math.cos(angle), y + radius * math.sin(angle), room)
        labels.append((f"Cluster {cluster}" if columns <= 6 else str(cluster), x, y + radius + label - 2))
    top, across = row * math.ceil(len(rings) / columns), int(WIDTH / _SPACING)
    for turn, node in enumerate(loose):
        places[node] = (_SPACING * (turn % across + 0.5), top + _SPACING * (turn // across + 0.5), _LARGEST_NODE)
    if loose:
        top += _SPACING * math.ceil(len(loose) / across) + 12
        labels.append((f"Unmatched: {len(loose)}", WIDTH / 2, top))
    return places, labels, top + 4
