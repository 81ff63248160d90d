"""Pages, each one HTML file, with title, lead, contents and sections."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from fedkin.core.files import write_atomically
from fedkin.report import charts, drawings, markup
from fedkin.report import figures as fig
from fedkin.report.markup import element, prose
from fedkin.report.tables import result_table

_DRAWN: dict[type, tuple[str, Callable[[Any], str]]] = {
    fig.Curve: ("gallery of3", charts.line_chart),
    fig.SampleMap: ("gallery of2", drawings.sample_map), fig.ResultTable: ("tables", result_table),
    fig.Text: ("", lambda figure: markup.paragraphs(figure.sentences)),
}  # fmt: skip
"""How each kind of figure is placed among its like, and drawn."""

_NAMES = '<script type="application/json" id="cluster-names">%s</script></body></html>'


def write_page(path: Path, view: fig.PageView) -> None:
    """Write `view` as one HTML file that needs nothing else; equal views give equal bytes.

    Raises FedkinError if the file cannot be written; a previous page then stays as it was.
    """
    write_atomically(Path(path), render(view))


def render(view: fig.PageView, names: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return the HTML of a page, with names of clusters. Sections without drawings stand side by side if they can."""
    sections = [(part.anchor, part.title, _body(part), _width(part)) for part in view.parts]
    if view.settings:
        settings = markup.sheet(markup.table([], list(_flat(view.settings)), "settings"), "Settings")
        sections.append(("settings", "Settings", markup.folded("Every setting", settings), "fitting"))
    script = markup.source("page.js")
    if any(isinstance(figure, fig.SampleMap) for part in view.parts for figure in part.figures):
        script += markup.source("map.js")
    return markup.fill(
        "page.html", title=view.title, lead=[Markup(prose(line)) for line in view.lead.splitlines()],
        summary=view.summary, sections=sections,
        style=Markup(markup.source("page.css")), script=Markup(script), names=Markup(_named(names)),
    )  # fmt: skip


def give_names(path: Path, names: Mapping[int, str]) -> None:
    """Put names of clusters into the page at `path`: its last line is their data, which its script shows."""
    *page, _ = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    write_atomically(Path(path), f"{''.join(page)}{_named(names)}")


def _named(names: Mapping[int, str]) -> str:
    return _NAMES % json.dumps({str(cluster): name for cluster, name in names.items()}).replace("<", "\\u003c")


def _body(part: fig.PagePart) -> str:
    sentences = [
        element("li", markup.cluster_title(cluster), prose(text.removeprefix(f"Cluster {cluster}")))
        for cluster, text in enumerate(part.of_clusters)
    ]
    blocks = [element("ul", *sentences, class_="described")] if sentences else []
    blocks += [markup.paragraphs(part.paragraphs), *_figures(part.figures), markup.notes_list(part.notes)]
    if part.commands:  # a code block with a button to copy it
        code = element("code", markup.text("\n".join(part.commands)))
        block = element("pre", code, tabindex=0, role="region", aria_label="Commands")
        blocks.append(element("div", block, markup.copy_button("Copy commands"), class_="commands"))
    return "".join(blocks)


def _figures(figures: Sequence[fig.Figure]) -> Iterator[str]:
    """Draw figures, those of the same kind in one block."""
    side = drawings.tile_side([figure for figure in figures if isinstance(figure, fig.ClusterPictures)])
    kinds = {**_DRAWN, fig.ClusterPictures: ("clusters", lambda card: drawings.picture_card(card, side))}
    for kind, run in groupby(figures, key=lambda figure: kinds[type(figure)][0].split(" ")[0]):
        block = list(run)
        look = min(kinds[type(figure)][0] for figure in block)  # among wide figures, narrow ones are wide
        parts = [kinds[type(figure)][1](figure) for figure in block]
        yield element("div", *parts, class_=look) if kind else "".join(parts)


def _width(part: fig.PagePart) -> str:
    """Return the CSS class of a section: as wide as its tables, as wide as its text, or the whole page."""
    drawn = [figure for figure in part.figures if not isinstance(figure, fig.Text)]
    if not drawn and not part.of_clusters:
        return "fitting" if part.commands else "text"
    are_tables = all(isinstance(figure, fig.ResultTable) for figure in drawn)
    return "fitting" if are_tables and not part.of_clusters else "wide"


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested settings to pairs of dotted name and value, sorted by name."""
    for name, value in sorted(settings.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
