"""Drawings of samples and clusters: the tree of coarser and finer clusters, maps in the plane, and pictures."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from fedkin.report.figures import ClusterPictures, PictureTable, SampleMap, Scale, ScaleTree
from fedkin.report.markup import (
    WIDTH,
    Drawing,
    cluster_class,
    cluster_mark,
    element,
    figure,
    numbers_below,
    scrolling,
    short,
    table,
    text,
)
from fedkin.report.numbers import pluralize, shown

LEFT, RIGHT = 30.0, 36.0
"""Beside the blocks of a tree: numbers of clusters, and stabilities."""


def scale_tree(tree: ScaleTree) -> str:
    """Draw a tree of scales as an HTML figure: a row per scale, a block per cluster as wide as its samples.

    A cluster's block lies below the one that it is part of, and what is part of a final cluster has its colour.
    """
    drawing, top = Drawing("scales"), 18.0
    row = min(40.0, max(22.0, 320 / len(tree.scales)))  # as high as the bar chart that usually stands beside it
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


def sample_map(view: SampleMap) -> str:
    """Draw a scatter plot of samples, with one scale for both axes."""
    low, high = view.places.min(axis=0), view.places.max(axis=0)
    extent, margin = float((high - low).max()) or 1.0, 8.0
    places = (view.places - (low + high) / 2) / extent * (WIDTH - 2 * margin) + WIDTH / 2
    places[:, 1] -= float(places[:, 1].min()) - margin  # a flat cloud takes no more height than it needs
    drawing, counts, entries = Drawing("map"), [], []
    for label in np.unique(view.labels).tolist():
        colour, cloud = view.colours.get(label, label), places[view.labels == label]
        dots = [f'<circle cx="{short(x)}" cy="{short(y)}" r="2.4"/>' for x, y in cloud.tolist()]
        look = f"cloud {cluster_class(colour)}"
        drawing.parts.append(element("g", *dots, class_=look, data_tip=view.names[label]))
        counts.append(f"{view.names[label]}: {len(cloud)}")
        entries.append(element("li", cluster_mark(colour, view.names[label])))
    points = drawing.write(float(places[:, 1].max()) + margin, f"{view.title}. {', '.join(counts)}.")
    return figure(view.title, "", points, element("ul", *entries, class_="legend"))


def tile_side(clusters: Sequence[ClusterPictures]) -> int:
    """Return the largest side of a tile, at most 64, for which the pictures of a page stay near one megabyte."""
    tiles = sum((1 + len(cluster.members)) * (3 if cluster.mean.ndim == 3 else 1) for cluster in clusters)
    return max(8, min(64, math.isqrt(900_000 // max(tiles, 1))))


def picture_card(cluster: ClusterPictures, side: int) -> str:
    """Write a card with the mean image of a cluster, large, and some member images, small."""
    count = len(cluster.members)
    tiles = [element("i", style=f"--at:{100 * tile / max(count, 1):.6g}%") for tile in range(count + 1)]
    height, width = cluster.mean.shape[:2]
    label = f"Cluster {cluster.cluster}: its mean image, then {count} of its members"
    style = f"--sprite:url({sprite(cluster.mean, cluster.members, side)});--tiles:{count + 1};--shape:{width}/{height}"
    strip = element("div", *tiles, class_="strip", role="img", aria_label=label, style=style)
    title = element("h3", cluster_mark(cluster.cluster, f"Cluster {cluster.cluster}"))
    facts = element("p", f"{pluralize(cluster.size, 'sample')} from {pluralize(cluster.clients, 'client')}")
    classes = element("p", text(cluster.mostly)) if cluster.mostly else ""
    return element("figure", element("figcaption", title, facts, classes), strip, class_="card")


def picture_table(pictures: PictureTable) -> str:
    """Write rows of pictures as a table, each row as one image, enlarged if the pictures are small."""
    rows = []
    for name, words, images in pictures.rows:
        count, height, width = images.shape[:3]
        side = max(1, min(4, 96 // max(height, width))) * width
        style = f"display:block;width:{count * side}px;max-width:none;image-rendering:pixelated"
        strip = element("img", src=sprite(images[0], images[1:], 96), alt=f"{name}: {count} pictures", style=style)
        rows.append((name, Markup(strip), words))
    strips = scrolling(table(pictures.heads, rows), pictures.title)
    return figure(pictures.title, pictures.caption, strips, look="result")


def sprite(mean: NDArray[np.floating[Any]], members: NDArray[np.floating[Any]], side: int) -> str:
    """Encode images as one row of tiles, the mean first, in a PNG data URI.

    They are ``(H, W)`` or ``(H, W, 3)``; values are clipped to [0, 1], and NaN becomes black. `side` is the longest
    side of a tile in pixels; larger images are reduced to it, smaller ones kept.
    """
    pixels = np.round(np.clip(np.nan_to_num(np.concatenate([mean[None], members])), 0, 1) * 255).astype(np.uint8)
    tiles = [Image.fromarray(tile) for tile in pixels]
    for tile in tiles:
        tile.thumbnail((side, side), Image.Resampling.BOX, reducing_gap=None)
    file = io.BytesIO()
    Image.fromarray(np.concatenate([np.asarray(tile) for tile in tiles], axis=1)).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
