"""Scatter plots of samples in the plane as inline SVG, coloured by cluster and by class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.report.markup import cluster_class, cluster_mark, drawing, element, short, text
from fedkin.report.page import gallery
from fedkin.report.run_view import SampleMap

SIDE, MARGIN = 400.0, 8.0


def sample_map(view: SampleMap) -> str:
    """Draw a scatter plot of samples by cluster, and one by class beside it where classes are known."""
    places = _scaled(view.places)
    figures = [_figure("By cluster found", places, view.clusters, lambda cluster: f"Cluster {cluster}", {})]
    if view.truth is not None:
        named = dict(enumerate(view.classes))
        figures.append(
            _figure("By true class", places, view.truth, lambda one: named.get(one, f"Class {one}"), view.colours)
        )
    return element("p", text(view.caption)) + gallery(*figures, columns=2)


def _figure(
    title: str,
    places: NDArray[np.float64],
    labels: NDArray[np.integer[Any]],
    name: Callable[[int], str],
    colours: Mapping[int, int],
) -> str:
    present = [int(label) for label in np.unique(labels)]
    colour = {label: colours.get(label, label) for label in present}
    layers = []
    for label in present:
        dots = [f'<circle cx="{short(x)}" cy="{short(y)}" r="2.4"/>' for x, y in places[labels == label].tolist()]
        layers.append(element("g", *dots, class_=f"cloud {cluster_class(colour[label])}", data_tip=name(label)))
    counts = ", ".join(f"{name(label)}: {int((labels == label).sum())}" for label in present)
    drawn = drawing("map", SIDE, f"{title}. {counts}.", *layers)
    entries = [element("li", cluster_mark(colour[label], name(label))) for label in present]
    heading = element("figcaption", element("h3", text(title)))
    return element("figure", heading, drawn, element("ul", *entries, class_="legend"), class_="card")


def _scaled(places: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Scale the samples' coordinates to the drawing, with one scale for both axes."""
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    scaled: NDArray[np.float64] = SIDE / 2 + (places - middle) / extent * (SIDE - 2 * MARGIN)
    return scaled
