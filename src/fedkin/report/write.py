"""Write pages, each one HTML file, atomically."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core.files import write_atomically
from fedkin.report.bars import bar_chart
from fedkin.report.charts import line_chart
from fedkin.report.cluster_descriptions import described_clusters
from fedkin.report.graphs import draw_graph
from fedkin.report.lanes import client_clusters
from fedkin.report.markup import folded
from fedkin.report.markup_tables import change_table, count_table, profile_table, settings_table
from fedkin.report.page import Section, commands, gallery, page, paragraphs, sentences
from fedkin.report.pictures import picture_cards
from fedkin.report.plane_maps import sample_map
from fedkin.report.result_tables import result_table
from fedkin.report.results_view import PagePart, PageView
from fedkin.report.run_view import RunView
from fedkin.report.scale_trees import scale_tree
from fedkin.report.step_tables import constants, is_constant, is_short, step_table
from fedkin.report.timeline import NO_EVENTS, Curve, Timeline


def write_report(path: Path, view: RunView) -> None:
    """Write `view` as one HTML page that needs nothing else; equal views give equal bytes.

    Raises FedkinError if the file cannot be written; a previous report then stays as it was.
    """
    write_atomically(Path(path), render(view))


def write_page(path: Path, view: PageView) -> None:
    """Write a page of results as one HTML file that needs nothing else; equal views give equal bytes.

    Raises FedkinError if the file cannot be written; a previous page then stays as it was.
    """
    write_atomically(Path(path), render_page(view))


def render(view: RunView) -> str:
    """Return the HTML of a run's report."""
    return page(view.title, view.lead, view.summary, list(_sections(view)))


def render_page(view: PageView) -> str:
    """Return the HTML of a page of results."""
    sections = [Section(part.anchor, part.title, _part(part)) for part in view.parts]
    return page(view.title, view.lead, view.summary, [*sections, *_settings(view.settings, "Every setting")])


def _part(part: PagePart) -> str:
    figures = [*_charts(part.curves), *map(bar_chart, part.bars)]
    return "".join(
        [
            paragraphs(part.paragraphs),
            *map(result_table, part.tables),
            gallery(*figures, columns=2 if part.bars else 3) if figures else "",
            _uncharted(part.curves),
            sentences(part.notes) if part.notes else "",
            commands(part.commands) if part.commands else "",
        ]
    )


def _sections(view: RunView) -> Iterator[Section]:
    if view.descriptions:
        yield Section("descriptions", "The clusters in words", described_clusters(view.descriptions))
    if view.graphs:
        yield Section("associations", "Matched local clusters", gallery(*map(draw_graph, view.graphs), columns=2))
    if view.clients:
        yield Section("clients", "Clusters of clients", client_clusters(view.clients, view.timeline))
    if view.findings:
        figures = [*map(bar_chart, view.bars), *([scale_tree(view.scales)] if view.scales else [])]
        shown = gallery(*figures, columns=2) if len(figures) > 1 else "".join(figures)
        yield Section("clustering", "How the clusters were found", paragraphs(view.findings) + shown)
    if view.changes:
        unit = view.clients.x_label if view.clients else "step"
        yield Section("changes", "Events", change_table(view.changes, unit))
    if view.pictures:
        yield Section("pictures", "What the clusters look like", picture_cards(view.pictures))
    if view.map:
        yield Section("map", "Map of the samples", sample_map(view.map))
    if view.profiles:
        yield Section("profiles", "Feature means of the clusters", profile_table(view.profiles))
    if view.curves:
        charts = _charts(view.curves, view.timeline)
        caption = [view.timeline.caption] if view.timeline.caption else []
        drawn = gallery(*charts, columns=3) if charts else ""
        title = "Curves" if charts else "Step by step"
        yield Section("curves", title, paragraphs(caption) + drawn + _uncharted(view.curves, view.timeline))
    if view.table:
        yield Section("table", "Samples by client and cluster", count_table(view.table))
    if view.notes:
        yield Section("notes", "Notes", sentences(view.notes))
    yield from _settings(view.settings, "Every setting of this run")


def _charts(curves: Sequence[Curve], timeline: Timeline = NO_EVENTS) -> list[str]:
    """Draw the curves that need a chart, without short and constant ones."""
    return [line_chart(curve, timeline) for curve in curves if not (is_short(curve) or is_constant(curve))]


def _uncharted(curves: Sequence[Curve], timeline: Timeline = NO_EVENTS) -> str:
    """Write the curves without a chart: short ones as a table, constant ones as a list."""
    short = [curve for curve in curves if is_short(curve)]
    steady = [curve for curve in curves if is_constant(curve) and not is_short(curve)]
    return step_table(short, timeline) + constants(steady)


def _settings(settings: Mapping[str, Any], summary: str) -> Iterator[Section]:
    if settings:
        yield Section("settings", "Settings", folded(summary, settings_table(list(_flat(settings)))))


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested settings to pairs of dotted name and value, sorted by name."""
    for name in sorted(settings):
        value = settings[name]
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
