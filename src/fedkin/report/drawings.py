"""Drawings of clusters: maps of samples, pictures, and tables of local clusters."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.report.figures import ClusterPictures, SampleMap
from fedkin.report.markup import (
    WIDTH,
    Drawing,
    cluster_class,
    cluster_title,
    element,
    figure,
    short,
    text,
)
from fedkin.report.numbers import pluralize

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
