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

LONGEST_VALUE = 9
"""Longer headlines are written smaller, and may take two lines."""
HALF, BESIDE = 600, 800
"""Widths, in pixels, of half a large window, and of a table that leaves its caption room at its side."""
_LETTER, _PADDING = 7.5, 26
"""Width of a letter and around a cell of a table, in pixels."""

_DRAWN: dict[type, tuple[str, Any]] = {
    Curve: ("gallery of3", line_chart), Bars: ("gallery of2", bar_chart), Graph: ("gallery of2", draw_graph),
    ScaleTree: ("gallery of2", scale_tree), SampleMap: ("gallery of2", sample_map),
    ClientClusters: ("", client_clusters), ResultTable: ("tables", result_table), HeatTable: ("tables", heat_table),
    ClusterPictures: ("clusters", picture_card), PictureTable: ("", picture_table),
    Text: ("", lambda one: paragraphs(one.sentences)),
}  # fmt: skip
"""How each kind of figure is placed among its like, and drawn."""


def write_page(path: Path, view: PageView) -> None:
    """Write `view` as one HTML file that needs nothing else; equal views give equal bytes.

    Raises FedkinError if the file cannot be written; a previous page then stays as it was.
    """
    write_atomically(Path(path), render(view))


def render(view: PageView) -> str:
    """Return the HTML of a page. Narrow sections that follow each other stand side by side where there is room."""
    drawn = [Section(part.anchor, part.title, _body(part), _is_narrow(part)) for part in view.parts]
    if view.settings:
        settings = sheet(table([], list(_flat(view.settings)), "settings"), "Settings")
        drawn.append(Section("settings", "Settings", folded("Every setting", settings), True))
    return fill_page(view.title, view.lead, view.summary, drawn)


class Section(NamedTuple):
    """Section of a page as markup: `anchor` names it in links, and a `narrow` one takes half the width."""

    anchor: str
    title: str
    body: str
    narrow: bool = False


def fill_page(title: str, lead: str, summary: Sequence[tuple[str, str, str]], drawn: Sequence[Section]) -> str:
    """Fill the template of a whole page, which loads nothing from elsewhere; for the others see `PageView`."""
    looks: list[str] = []
    for narrow, run in groupby(drawn, key=lambda section: section.narrow):
        count = len(list(run))
        looks += ["half" if narrow and at < count - count % 2 else "alone" if narrow else "wide" for at in range(count)]
    return fill(
        "page.html", title=title, lead=[Markup(prose(line)) for line in lead.splitlines()], summary=summary,
        sections=list(zip(drawn, looks, strict=True)), longest=LONGEST_VALUE,
        style=Markup(source("page.css")), script=Markup(source("page.js")),
    )  # fmt: skip


def _body(part: PagePart) -> str:
    return "".join(
        [
            _of_clusters(part.of_clusters) if part.of_clusters else "",
            paragraphs(part.paragraphs),
            *_figures(part.figures),
            notes_list(part.notes) if part.notes else "",
            _commands(part.commands) if part.commands else "",
        ]
    )


def _of_clusters(sentences: Sequence[str]) -> str:
    items = [element("li", cluster_mark(at), prose(sentence)) for at, sentence in enumerate(sentences)]
    return element("ul", *items, class_="described")


def _figures(figures: Sequence[Figure]) -> Iterator[str]:
    """Draw figures, those of the same kind in one block; short curves become a table, constant ones a list."""
    short = [one for one in figures if isinstance(one, Curve) and is_short(one)]
    steady = [one for one in figures if isinstance(one, Curve) and is_constant(one) and not is_short(one)]
    side = tile_side([one for one in figures if isinstance(one, ClusterPictures)])
    drawn = [one for one in figures if not any(one is other for other in (*short, *steady))]
    shown = [*drawn, *([step_table(short)] if short else [])]
    for block, run in groupby(shown, key=lambda one: _DRAWN[type(one)][0].split(" ")[0]):
        own: list[Any] = list(run)
        look = min(_DRAWN[type(one)][0] for one in own)  # among wide figures, narrow ones are wide
        if block == "tables" and len(own) == 1 and HALF < _width(own[0]) <= BESIDE:
            look += " beside"
        parts = [picture_card(one, side) if block == "clusters" else _DRAWN[type(one)][1](one) for one in own]
        yield element("div", *parts, class_=look) if look else "".join(parts)
    yield constants(steady)


def _is_narrow(part: PagePart) -> bool:
    """Return whether a section needs at most half the width of a large window."""
    without = (is_short, is_constant)
    drawn = [one for one in part.figures if not (isinstance(one, Curve) and any(fits(one) for fits in without))]
    drawn = [one for one in drawn if not isinstance(one, Text)]
    short = [one for one in part.figures if isinstance(one, Curve) and is_short(one)]
    if part.commands or len(drawn) + bool(short) > 1:
        return False
    return all(map(_fits_half, [*drawn, *([step_table(short)] if short else [])]))


def _fits_half(figure: Figure) -> bool:
    if isinstance(figure, ClientClusters | ClusterPictures | PictureTable):
        return False
    return not isinstance(figure, ResultTable | HeatTable) or _width(figure) <= HALF


def _width(table: ResultTable | HeatTable) -> float:
    """Estimate the width of a table in pixels."""
    heads = table.columns if isinstance(table, ResultTable) else [*map(str, table.clusters), table.last]
    foot = [] if isinstance(table, ResultTable) else [cells for _, cells in table.foot]
    widths = [max((len(name) for name, _ in table.rows), default=0)]
    for at in range(len(table.rows[0][1]) if table.rows else 0):
        letters = [*(len(cells[at].text) for _, cells in table.rows), *(len(cells[at]) for cells in foot)]
        widths.append(max(3, len(heads[at]) // 2, *letters))
    return sum(_LETTER * width + _PADDING for width in widths)


def _commands(lines: Sequence[str]) -> str:
    """Write shell commands as a code block with a button to copy them."""
    block = element("pre", element("code", text("\n".join(lines))), tabindex=0, role="region", aria_label="Commands")
    return element("div", block, copy_button("Copy commands"), class_="commands")


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested settings to pairs of dotted name and value, sorted by name."""
    for name in sorted(settings):
        value = settings[name]
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
