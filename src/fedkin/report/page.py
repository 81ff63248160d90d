"""Pages, each one HTML file, with title, lead, contents and sections."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

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
    PagePart,
    PageView,
    PictureTable,
    ResultTable,
    SampleMap,
    ScaleTree,
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
from fedkin.report.tables import result_table

_DRAWN: dict[type, tuple[str, Callable[[Any], str]]] = {
    Curve: ("gallery of3", line_chart), tuple: ("gallery of3", constants), Bars: ("gallery of2", bar_chart),
    Graph: ("gallery of2", draw_graph), ScaleTree: ("gallery of2", scale_tree),
    SampleMap: ("gallery of2", sample_map), ClientClusters: ("", client_clusters),
    ResultTable: ("tables", result_table), PictureTable: ("", picture_table),
    Text: ("", lambda figure: paragraphs(figure.sentences)),
}  # fmt: skip
"""How each kind of figure is placed among its like, and drawn."""


def write_page(path: Path, view: PageView) -> None:
    """Write `view` as one HTML file that needs nothing else; equal views give equal bytes.

    Raises FedkinError if the file cannot be written; a previous page then stays as it was.
    """
    write_atomically(Path(path), render(view))


def render(view: PageView) -> str:
    """Return the HTML of a page. Sections without drawings stand side by side where there is room."""
    sections = [(part.anchor, part.title, _body(part), _width(part)) for part in view.parts]
    if view.settings:
        settings = sheet(table([], list(_flat(view.settings)), "settings"), "Settings")
        sections.append(("settings", "Settings", folded("Every setting", settings), "fitting"))
    return fill(
        "page.html", title=view.title, lead=[Markup(prose(line)) for line in view.lead.splitlines()],
        summary=view.summary, sections=sections,
        style=Markup(source("page.css")), script=Markup(source("page.js")),
    )  # fmt: skip


def _body(part: PagePart) -> str:
    sentences = [element("li", cluster_mark(cluster), prose(text)) for cluster, text in enumerate(part.of_clusters)]
    blocks = [element("ul", *sentences, class_="described")] if sentences else []
    blocks += [paragraphs(part.paragraphs), *_figures(part.figures), notes_list(part.notes)]
    if part.commands:  # a code block with a button to copy it
        code = element("code", text("\n".join(part.commands)))
        block = element("pre", code, tabindex=0, role="region", aria_label="Commands")
        blocks.append(element("div", block, copy_button("Copy commands"), class_="commands"))
    return "".join(blocks)


def _figures(figures: Sequence[Figure]) -> Iterator[str]:
    """Draw figures, those of the same kind in one block; short curves become a table, constant ones a list."""
    short = [figure for figure in figures if isinstance(figure, Curve) and is_short(figure)]
    steady = [f for f in figures if isinstance(f, Curve) and is_constant(f) and not is_short(f)]
    drawn: list[Any] = [figure for figure in figures if not any(figure is curve for curve in (*short, *steady))]
    drawn += [tuple(steady)] if steady else []
    drawn += [step_table(short)] if short else []
    side = tile_side([figure for figure in figures if isinstance(figure, ClusterPictures)])
    drawings = {**_DRAWN, ClusterPictures: ("clusters", lambda card: picture_card(card, side))}
    for kind, run in groupby(drawn, key=lambda figure: drawings[type(figure)][0].split(" ")[0]):
        block = list(run)
        look = min(drawings[type(figure)][0] for figure in block)  # among wide figures, narrow ones are wide
        parts = [drawings[type(figure)][1](figure) for figure in block]
        yield element("div", *parts, class_=look) if kind else "".join(parts)


def _width(part: PagePart) -> str:
    """Return the CSS class of a section: as wide as its tables, as wide as its text, or the whole page."""
    drawn = [figure for figure in part.figures if not isinstance(figure, Text)]
    if not drawn and not part.of_clusters:
        return "fitting" if part.commands else "text"
    tables = all(isinstance(f, ResultTable) or (isinstance(f, Curve) and is_short(f)) for f in drawn)
    return "fitting" if tables and not part.of_clusters else "wide"


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested settings to pairs of dotted name and value, sorted by name."""
    for name, value in sorted(settings.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
