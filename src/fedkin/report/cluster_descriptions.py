"""Clusters of a table in words and in original units: a sentence for each, and a table of columns by clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedkin.core.errors import FedkinError
from fedkin.report.markup import cluster_mark, element, prose, sheet, text

_LEVELS, _STRONG = 5, 1.5
"""Levels of shading on either side, and the standard deviations of the strongest."""
_MOST_ROWS = 40


@dataclass(frozen=True)
class ClusterDescriptions:
    """What tells the clusters of a table apart.

    Attributes
    ----------
    clusters : sequence of int
    sentences : sequence of str
        One per cluster.
    columns : sequence of str
        Of the table, those that tell the clusters apart the most first.
    effects : sequence of float
        By column, how far it does, in [0, 1].
    cells : sequence of sequence of str
        By column and cluster, what stands there.
    shifts : sequence of sequence of float
        By column and cluster, how many standard deviations the cells lie above those of all samples.
    notes : sequence of str
        Sentences on who is not described.
    least_effect : float
        Columns with an effect below are shown apart, as they tell nothing apart.
    """

    clusters: Sequence[int]
    sentences: Sequence[str]
    columns: Sequence[str]
    effects: Sequence[float]
    cells: Sequence[Sequence[str]]
    shifts: Sequence[Sequence[float]]
    notes: Sequence[str] = field(default_factory=list)
    least_effect: float = 0.0

    def __post_init__(self) -> None:
        rows = {len(self.columns), len(self.effects), len(self.cells), len(self.shifts)}
        widths = {len(self.clusters), len(self.sentences), *map(len, self.cells), *map(len, self.shifts)}
        if len(rows) > 1 or len(widths) > 1:
            raise FedkinError("Descriptions of clusters need one sentence per cluster, and one cell per column, too.")


def described_clusters(view: ClusterDescriptions) -> str:
    """The sentences, and the table below them."""
    spoken = [
        element("li", cluster_mark(cluster), prose(sentence))
        for cluster, sentence in zip(view.clusters, view.sentences, strict=True)
    ]
    notes = [element("p", prose(note)) for note in view.notes]
    return element("ul", *spoken, class_="described") + "".join(notes) + (_table(view) if view.columns else "")


def _table(view: ClusterDescriptions) -> str:
    caption = (
        "Mean ± standard deviation, or the most frequent category, in the units of the data. Columns that tell the "
        "clusters apart the most come first; the effect is the share of a column's variance that lies between "
        "clusters, or the square of Cramér's V."
    )
    if len(view.columns) > _MOST_ROWS:
        caption += f" Shown are the first {_MOST_ROWS} of {len(view.columns)} columns."
    rows = list(zip(view.columns, view.effects, view.cells, view.shifts, strict=True))[:_MOST_ROWS]
    body = [
        element(
            "tr",
            element("th", text(name), scope="row"),
            *(_cell(cell, shift) for cell, shift in zip(cells, shifts, strict=True)),
            element("td", f"{effect:.2f}", class_="total"),
            class_=None if effect >= view.least_effect else "faint",
        )
        for name, effect, cells, shifts in rows
    ]
    heads = [element("th", cluster_mark(one), element("span", str(one)), scope="col") for one in view.clusters]
    effect = element("th", "effect", scope="col", class_="total")
    head = element("thead", element("tr", element("th", "column", scope="col"), *heads, effect))
    drawn = element("table", head, element("tbody", *body), class_="heat cells")
    return element("p", text(caption)) + sheet(drawn, "Columns of the table by cluster")


def _cell(cell: str, shift: float) -> str:
    level = max(-_LEVELS, min(_LEVELS, round(_LEVELS * shift / _STRONG)))
    shade = f"p{level}" if level > 0 else f"n{-level}"
    return element("td", text(cell), class_=shade)
