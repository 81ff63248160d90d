"""Pages, each one HTML file, with title, lead, contents and sections."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from fedkin.core.files import write_atomically
from fedkin.report.charts import bar_chart, constants, is_constant, is_short, line_chart, step_table
from fedkin.report.drawings import picture_card, picture_table, sample_map, scale_tree, tile_side
from fedkin.report.figures import (
    Bars,
    ClientClusters,
    ClusterPictures,
    Curve,
    Figure,
    Graph,
    HeatTable,
    PagePart,
    PageView,
    PictureTable,
    ResultTable,
    SampleMap,
    ScaleTree,
    TableCell,
    Text,
)
from fedkin.report.graphs import draw_graph
from fedkin.report.lanes import client_clusters
from fedkin.report.markup import (
    cluster_mark,
    copy_button,
    element,
    fill,
    folded,
    notes_list,
    paragraphs,
    prose,
    sheet,
    source,
    table,
    text,
)
from fedkin.report.tables import heat_table, result_table

HALF, BESIDE = 600, 800
"""Widths, in pixels, of half a large window, and of a table that leaves its caption room at its side."""

_DRAWN: dict[type, tuple[str, Any]] = {
    Curve: ("gallery of3", line_chart), Bars: ("gallery of2", bar_chart), Graph: ("gallery of2", draw_graph),
    ScaleTree: ("gallery of2", scale_tree), SampleMap: ("gallery of2", sample_map),
    ClientClusters: ("", client_clusters), ResultTable: ("tables", result_table), HeatTable: ("tables", heat_table),
    ClusterPictures: ("clusters", picture_card), PictureTable: ("", picture_table),
    Text: ("", lambda figure: paragraphs(figure.sentences)),
}  # fmt: skip
"""How each kind of figure is placed among its like, and drawn."""


class Section(NamedTuple):
    """Section of a page as markup: `anchor` names it in links, and a `narrow` one takes half the width."""

    anchor: str
    title: str
    body: str
    narrow: bool = False


def write_page(path: Path, view: PageView) -> None:
    """Write `view` as one HTML file that needs nothing else; equal views give equal bytes.

    Raises FedkinError if the file cannot be written; a previous page then stays as it was.
    """
    write_atomically(Path(path), render(view))


def render(view: PageView) -> str:
    """Return the HTML of a page. Narrow sections that follow each other stand side by side where there is room."""
    sections = [Section(part.anchor, part.title, _body(part), _is_narrow(part)) for part in view.parts]
    if view.settings:
        settings = sheet(table([], list(_flat(view.settings)), "settings"), "Settings")
        sections.append(Section("settings", "Settings", folded("Every setting", settings), True))
    looks: list[str] = []
    for narrow, run in groupby(sections, key=lambda section: section.narrow):
        count = len(list(run))
        pairs = ["half"] * (count - count % 2) + ["alone"] * (count % 2)
        looks += pairs if narrow else ["wide"] * count
    return fill(
        "page.html", title=view.title, lead=[Markup(prose(line)) for line in view.lead.splitlines()],
        summary=view.summary, sections=list(zip(sections, looks, strict=True)),
        style=Markup(source("page.css")), script=Markup(source("page.js")),
    )  # fmt: skip


def _body(part: PagePart) -> str:
    sentences = [element("li", cluster_mark(cluster), prose(text)) for cluster, text in enumerate(part.of_clusters)]
    blocks = [element("ul", *sentences, class_="described")] if sentences else []
    blocks += [paragraphs(part.paragraphs), *_figures(part.figures)]
    blocks += [notes_list(part.notes)] if part.notes else []
    if part.commands:  # a code block with a button to copy it
        code = element("code", text("\n".join(part.commands)))
        block = element("pre", code, tabindex=0, role="region", aria_label="Commands")
        blocks.append(element("div", block, copy_button("Copy commands"), class_="commands"))
    return "".join(blocks)


def _sorted(figures: Sequence[Figure]) -> tuple[list[Figure], list[Curve]]:
    """Return the figures to draw, short curves as one table behind the others, and the curves that never change."""
    short = [figure for figure in figures if isinstance(figure, Curve) and is_short(figure)]
    steady = [f for f in figures if isinstance(f, Curve) and is_constant(f) and not is_short(f)]
    drawn = [figure for figure in figures if not any(figure is curve for curve in (*short, *steady))]
    return [*drawn, *([step_table(short)] if short else [])], steady


def _figures(figures: Sequence[Figure]) -> Iterator[str]:
    """Draw figures, those of the same kind in one block; short curves become a table, constant ones a list."""
    drawn, steady = _sorted(figures)
    side = tile_side([figure for figure in figures if isinstance(figure, ClusterPictures)])
    for kind, run in groupby(drawn, key=lambda figure: _DRAWN[type(figure)][0].split(" ")[0]):
        block: list[Any] = list(run)
        look = min(_DRAWN[type(figure)][0] for figure in block)  # among wide figures, narrow ones are wide
        if kind == "tables" and len(block) == 1 and HALF < _width(block[0]) <= BESIDE:
            look += " beside"
        parts = [
            picture_card(figure, side) if kind == "clusters" else _DRAWN[type(figure)][1](figure) for figure in block
        ]
        yield element("div", *parts, class_=look) if look else "".join(parts)
    yield constants(steady)


def _is_narrow(part: PagePart) -> bool:
    """Return whether a section needs at most half the width of a large window."""
    drawn = [figure for figure in _sorted(part.figures)[0] if not isinstance(figure, Text)]
    if part.commands or len(drawn) > 1 or any(
        isinstance(figure, ClientClusters | ClusterPictures | PictureTable) for figure in drawn
    ):  # fmt: skip
        return False
    return all(_width(figure) <= HALF for figure in drawn if isinstance(figure, ResultTable | HeatTable))


def _width(table: ResultTable | HeatTable) -> float:
    """Estimate the width of a table in pixels: 7.5 for a letter, and 26 around a cell."""
    heads = table.columns if isinstance(table, ResultTable) else [*map(str, table.clusters), table.last]
    foot = [] if isinstance(table, ResultTable) else [cells for _, cells in table.foot]
    widths = [max((len(name) for name, _ in table.rows), default=0)]
    for column in range(len(table.rows[0][1]) if table.rows else 0):
        cells = [cells[column] for _, cells in table.rows]
        letters = [len(cell.text) + 2 * bool(isinstance(cell, TableCell) and cell.verdict) for cell in cells]
        letters += [len(cells[column]) for cells in foot]
        widths.append(max(3, *map(len, heads[column].split()), *letters))
    return sum(7.5 * width + 26 for width in widths)


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested settings to pairs of dotted name and value, sorted by name."""
    for name, value in sorted(settings.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
