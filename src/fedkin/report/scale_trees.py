"""Tree of coarser and finer clusters, and its SVG: each cluster's block lies below the one it is part of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from fedkin.core.errors import FedkinError
from fedkin.report.markup import card, cluster_class, drawing, element, numbers_below, text
from fedkin.report.numbers import pluralize, shown

WIDTH, TOP, ROW, HEIGHT = 400.0, 18.0, 22.0, 18.0
LEFT, RIGHT = 30.0, 36.0
GAP, NAMED = 1.0, 15.0
"""Between blocks, and the least width of one with its name in it."""


@dataclass(frozen=True)
class Scale:
    """Partition of the samples at one resolution, with numbers of samples by cluster.

    `parents` are by cluster the one of the scale before that it is part of; empty in the first scale. `stability`, at
    most 1, is that of the partition when some micro-clusters are left out. Exactly one scale of a tree is `chosen`, as
    the clusters found.
    """

    samples: Sequence[int]
    parents: Sequence[int]
    stability: float | None
    chosen: bool


@dataclass(frozen=True)
class ScaleTree:
    """Hierarchy of partitions of the same samples, from coarse to fine, with a caption that says what to see.

    Raises FedkinError if parents are not clusters of the scale before, or not one scale is chosen.
    """

    title: str
    caption: str
    scales: Sequence[Scale]

    def __post_init__(self) -> None:
        for at, scale in enumerate(self.scales):
            before = len(self.scales[at - 1].samples) if at else 0
            right = len(scale.parents) == (len(scale.samples) if at else 0)
            if not right or not all(0 <= parent < before for parent in scale.parents):
                raise FedkinError(f"Parents of scale {at} of '{self.title}' are not clusters of the scale before.")
        if sum(scale.chosen for scale in self.scales) != 1:
            raise FedkinError(f"Exactly one scale of '{self.title}' must be chosen.")


def scale_tree(tree: ScaleTree) -> str:
    """Draw a tree of scales as an HTML figure: a row per scale, a block per cluster as wide as its samples."""
    rows = [(len(one.samples), _stability(one), "found" if one.chosen else "") for one in tree.scales]
    numbers = numbers_below(tree.title, ["clusters", "stability", ""], rows)
    return card(tree.title, tree.caption, _drawing(tree), numbers)


def _drawing(tree: ScaleTree) -> str:
    heads = [("clusters", 0.0, "head"), ("stability", WIDTH, "end head")]
    parts = [element("text", text(name), x=x, y=TOP - 6, class_=look) for name, x, look in heads]
    places: list[int] = []
    for row, (scale, colours) in enumerate(zip(tree.scales, _colours(tree.scales), strict=True)):
        above = [places[parent] for parent in scale.parents] or [0] * len(scale.samples)
        order = [at for _, at in sorted(zip(above, range(len(above)), strict=True))]
        places = [order.index(at) for at in range(len(order))]
        parts.append(_row(scale, order, colours, TOP + ROW * row))
    words = "; ".join(_in_words(scale) for scale in tree.scales)
    return drawing("scales", TOP + ROW * len(tree.scales) + 4, f"{tree.title}: {words}.", *parts)


def _row(scale: Scale, order: Sequence[int], colours: Sequence[int | None], top: float) -> str:
    base = top + HEIGHT / 2 + 4
    named = "end name chosen" if scale.chosen else "end name"
    parts = [element("text", text(len(order)), x=LEFT - 10, y=base, class_=named)]
    if scale.stability is not None:
        parts.append(element("text", text(f"{scale.stability:.2f}"), x=WIDTH, y=base, class_=named))
    unit = (WIDTH - LEFT - RIGHT) / max(sum(scale.samples), 1)
    ends = [LEFT + unit * end for end in accumulate((scale.samples[at] for at in order), initial=0)]
    for at, (left, right) in zip(order, pairwise(ends), strict=True):
        width = max(right - left - GAP, 0.4)
        look = f"block {cluster_class(colours[at])}{' chosen' if scale.chosen else ''}"
        box = {"x": left, "y": top, "width": width, "height": HEIGHT}
        parts.append(element("rect", **box, data_tip=_tip(scale, at), class_=look))
        if scale.chosen and width >= NAMED:
            parts.append(element("text", text(at), x=left + width / 2, y=base, class_="middle in"))
    return "".join(parts)


def _colours(scales: Sequence[Scale]) -> list[list[int | None]]:
    """Return, for each cluster of each scale, the final cluster it is part of; ``None`` for coarser ones."""
    colours: list[list[int | None]] = []
    for scale in scales:
        if scale.chosen:
            colours.append(list(range(len(scale.samples))))
        else:
            colours.append([colours[-1][parent] for parent in scale.parents] or [None] * len(scale.samples))
    return colours


def _tip(scale: Scale, at: int) -> str:
    part = "" if not scale.parents else f"\npart of cluster {scale.parents[at]} of the row above"
    return f"{_in_words(scale)}\ncluster {at}: {pluralize(scale.samples[at], 'sample')}{part}"


def _in_words(scale: Scale) -> str:
    stability = "" if scale.stability is None else f", stability {_stability(scale)}"
    return f"{pluralize(len(scale.samples), 'cluster')}{stability}{' (found)' if scale.chosen else ''}"


def _stability(scale: Scale) -> str:
    return "–" if scale.stability is None else shown(scale.stability, "number")
