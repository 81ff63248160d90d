"""Pictures of clusters of images: the mean and some members, one PNG sprite per cluster."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedkin.report.markup import cluster_mark, element, text
from fedkin.report.numbers import pluralize
from fedkin.report.run_view import ClusterPictures

LARGEST_TILE = 64
BUDGET = 900_000  # numbers in all tiles of a page together; keeps the page near one megabyte at worst


def picture_cards(clusters: Sequence[ClusterPictures]) -> str:
    """Write a card per cluster with its mean image, large, and some member images, small."""
    side = _tile_side(clusters)
    return element("div", *(_card(cluster, side) for cluster in clusters), class_="clusters")


def sprite(mean: NDArray[np.floating[Any]], members: NDArray[np.floating[Any]], side: int) -> str:
    """Encode images as one row of tiles, the mean first, in a PNG data URI.

    They are ``(H, W)`` or ``(H, W, 3)``; values are clipped to [0, 1], and NaN becomes black. `side` is the longest
    side of a tile in pixels; larger images are reduced to it, smaller ones kept.
    """
    images = np.concatenate([mean[None], members])
    pixels = np.round(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8)
    height, width = pixels.shape[1:3]
    scale = min(1.0, side / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    tiles = [Image.fromarray(tile) for tile in pixels]
    if scale < 1:
        tiles = [tile.resize(size, Image.Resampling.BOX) for tile in tiles]
    strip = Image.fromarray(np.concatenate([np.asarray(tile) for tile in tiles], axis=1))
    file = io.BytesIO()
    strip.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _card(cluster: ClusterPictures, side: int) -> str:
    count = len(cluster.members)
    tiles = [element("i", style=f"--at:{100 * at / max(count, 1):.6g}%") for at in range(count + 1)]
    height, width = cluster.mean.shape[:2]
    label = f"Cluster {cluster.cluster}: its mean image, then {count} of its members"
    image = sprite(cluster.mean, cluster.members, side)
    style = f"--sprite:url({image});--tiles:{count + 1};--shape:{width}/{height}"
    strip = element("div", *tiles, class_="strip", role="img", aria_label=label, style=style)
    title = element("h3", cluster_mark(cluster.cluster, f"Cluster {cluster.cluster}"))
    facts = element("p", f"{pluralize(cluster.size, 'sample')} from {pluralize(cluster.clients, 'client')}")
    classes = element("p", text(cluster.mostly)) if cluster.mostly else ""
    return element("figure", element("figcaption", title, facts, classes), strip, class_="card")


def _tile_side(clusters: Sequence[ClusterPictures]) -> int:
    """Return the largest side of a tile for which all images together stay within the size budget."""
    tiles = sum((1 + len(cluster.members)) * (3 if cluster.mean.ndim == 3 else 1) for cluster in clusters)
    return max(8, min(LARGEST_TILE, math.isqrt(BUDGET // max(tiles, 1))))
