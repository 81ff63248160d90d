"""Descriptions of a table's clusters in original units: a sentence per cluster, and a table of columns by clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedkin.core.errors import FedkinError
from fedkin.report.markup import cluster_heads, cluster_mark, element, prose, shade, sheet, text

_LEVELS, _STRONG = 5, 1.5
"""Levels of shading on either side, and the standard deviations of the strongest."""
_MAX_ROWS = 40
_LONG = 24
"""Characters of a cell or a name above which it is broken into lines."""


@dataclass(frozen=True)
class ClusterDescriptions:
    """Descriptions of a table's clusters, which say what distinguishes them.

    `columns` are most distinctive first; `effects`, in [0, 1], say how far each distinguishes the clusters, and those
    below `min_effect` are shown as distinguishing nothing. By column and cluster, `cells` are the texts of the table,
    `shifts` how many standard deviations these lie above those of all samples, and `typical` the values of a typical
    sample, which is averaged over so many `typical_rows` of each cluster; both are empty if none are known. `notes` are
    sentences on clients that are not described.
    """

    clusters: Sequence[int]
    sentences: Sequence[str]
    columns: Sequence[str]
    effects: Sequence[float]
    cells: Sequence[Sequence[str]]
    shifts: Sequence[Sequence[float]]
    notes: Sequence[str] = field(default_factory=list)
    min_effect: float = 0.0
    typical: Sequence[Sequence[str]] = ()
    typical_rows: Sequence[int] = ()

    def __post_init__(self) -> None:
        rows = {len(self.columns), len(self.effects), len(self.cells), len(self.shifts)}
        widths = {len(self.clusters), len(self.sentences), *map(len, self.cells), *map(len, self.shifts)}
        if self.typical:
            rows |= {len(self.typical)}
            widths |= {len(self.typical_rows), *map(len, self.typical)}
        if len(rows) > 1 or len(widths) > 1:
            raise FedkinError("Descriptions of clusters need one sentence per cluster, and one cell per column, too.")


def described_clusters(view: ClusterDescriptions) -> str:
    """Write the descriptions of clusters as HTML: the sentences, and the table below them."""
    spoken = [
        element("li", cluster_mark(cluster), prose(sentence))
        for cluster, sentence in zip(view.clusters, view.sentences, strict=True)
    ]
    notes = [element("p", prose(note)) for note in view.notes]
    tables = [_table(view), _typical(view)] if view.columns else []
    return "".join([element("ul", *spoken, class_="described"), *notes, *tables])


def _table(view: ClusterDescriptions) -> str:
    caption = (
        "Mean ± standard deviation, or the most frequent category, in the units of the data. Columns that tell the "
        "clusters apart the most come first; the effect is the share of a column's variance that lies between "
        "clusters, or the square of Cramér's V."
    )
    if len(view.columns) > _MAX_ROWS:
        caption += f" Shown are the first {_MAX_ROWS} of {len(view.columns)} columns."
    rows = list(zip(view.columns, view.effects, view.cells, view.shifts, strict=True))[:_MAX_ROWS]
    body = [
        element(
            "tr",
            _name(name),
            *(_cell(cell, shift) for cell, shift in zip(cells, shifts, strict=True)),
            element("td", f"{effect:.2f}", class_="total"),
            class_=None if effect >= view.min_effect else "faint",
        )
        for name, effect, cells, shifts in rows
    ]
    effect = element("th", "effect", scope="col", class_="total")
    drawn = element(
        "table", cluster_heads("column", view.clusters, effect), element("tbody", *body), class_="heat cells"
    )
    return element("p", text(caption)) + sheet(drawn, "Columns of the table by cluster")


def _typical(view: ClusterDescriptions) -> str:
    """Write a table of typical samples, one per cluster; an empty string if none are known."""
    if not view.typical:
        return ""
    caption = (
        "A typical sample of each cluster: the mean, or the most frequent category, of the rows nearest to the "
        "cluster's middle at each client. It is nobody's row: cells of fewer than five rows of a client stay there."
    )
    shown = list(zip(view.columns, view.typical, strict=True))[:_MAX_ROWS]
    body = [
        element("tr", _name(name), *(element("td", text(cell), class_=_broken(cell)) for cell in cells))
        for name, cells in shown
    ]
    counts = [element("td", f"{rows:,}") for rows in view.typical_rows]
    body.append(element("tr", element("th", "rows that it is made of", scope="row"), *counts, class_="faint"))
    drawn = element("table", cluster_heads("column", view.clusters), element("tbody", *body), class_="heat cells")
    return element("h3", "Typical samples") + element("p", text(caption)) + sheet(drawn, "Typical samples by cluster")


def _cell(cell: str, shift: float) -> str:
    level = max(-_LEVELS, min(_LEVELS, round(_LEVELS * shift / _STRONG)))
    return element("td", text(cell), class_=" ".join(filter(None, (shade(level), _broken(cell)))))


def _name(column: str) -> str:
    return element("th", text(column), scope="row", class_=_broken(column))


def _broken(cell: str) -> str | None:
    """Return the CSS class of a cell with several lines, or ``None``."""
    return "long" if len(cell) > _LONG else None
